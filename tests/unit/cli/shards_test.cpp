// SPDX-License-Identifier: Apache-2.0
// tests/unit/cli/shards_test.cpp: the shards and threads that yoke train uses by default.
#include <gmock/gmock.h>

#include "command.h"
#include "train_shards.h"

namespace yoke {
namespace {

using cli::split_cores;
using test::run;
using ::testing::HasSubstr;

struct Case {
  std::int64_t cores, batch;
  std::int64_t shards, threads;
};

TEST(SplitCores, ShardsWithRowsEnoughComeBeforeThreads) {
  for (const Case& one : std::vector<Case>{{1, 100, 1, 1},
                                           {2, 20, 2, 1},
                                           {16, 20, 2, 8},
                                           {16, 100, 2, 8},  // 3 x 5 would leave a core idle
                                           {16, 128, 4, 4},
                                           {16, 500, 8, 2},
                                           {16, 1000, 16, 1},
                                           {7, 100, 1, 7},
                                           {12, 100, 3, 4}}) {
    const auto split = split_cores(one.cores, one.batch, {});
    EXPECT_EQ(split.shards, one.shards) << one.cores << " cores, batch " << one.batch;
    EXPECT_EQ(split.threads, one.threads) << one.cores << " cores, batch " << one.batch;
  }
}

TEST(SplitCores, GivenThreadsLeaveTheRestToShards) {
  EXPECT_EQ(split_cores(16, 20, 4).shards, 4);
  EXPECT_EQ(split_cores(16, 20, 32).shards, 1);
  EXPECT_EQ(split_cores(16, 20, 32).threads, 32);
}

// Each device of cc counts as one core here, however many cores exist.
test::Outcome train_on_cores(const std::string& cores, std::vector<std::string> more) {
  std::vector<std::string> words = {"--plugin-option", "cc.devices=" + cores, "train", "--epochs", "1",
                                    "--json",          "--log-level",         "info"};
  words.insert(words.end(), more.begin(), more.end());
  return run(words);
}

TEST(YokeTrainShards, ShardsTimesThreadsUseAllCores) {
  const auto all = train_on_cores("64", {"--batch", "256"});
  EXPECT_EQ(all.code, 0) << all.err;
  EXPECT_EQ(test::json_value(all.out, "shards"), "8");
  EXPECT_THAT(all.out, HasSubstr("\"device_options\":[\"threads=8\"]"));
  EXPECT_THAT(all.err, HasSubstr("train.shards shards=8 threads=8 cores=64 batch=256"));
  const auto given = train_on_cores("64", {"--shards", "3"});
  EXPECT_EQ(test::json_value(given.out, "shards"), "3");
  EXPECT_THAT(given.out, HasSubstr("\"device_options\":[]"));
  const auto threads = train_on_cores("64", {"--option", "threads=16"});
  EXPECT_EQ(test::json_value(threads.out, "shards"), "4");
  const auto same_bits = train_on_cores("64", {"--batch", "256", "--reproducible", "4"});
  EXPECT_EQ(test::json_value(same_bits.out, "shards"), "4");
}

}  // namespace
}  // namespace yoke
