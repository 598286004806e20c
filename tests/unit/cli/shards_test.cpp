// SPDX-License-Identifier: Apache-2.0
// tests/unit/cli/shards_test.cpp: the shards and threads that yoke train uses by default, and options for devices.
#include <gmock/gmock.h>

#include "command.h"
#include "train_shards.h"

namespace yoke {
namespace {

using cli::split_cores;
using test::run;
using ::testing::HasSubstr;

// A net with one hidden layer on images of 28 x 28.
ComputeWork net(std::int64_t rows, double width) {
  return {.rows = rows,
          .operations_per_row = 4 * 784 * width + 6 * 10 * width,
          .parameter_count = static_cast<std::uint64_t>(794 * width),
          .layer_count = 2};
}

TEST(SplitCores, UsesAllCoresAndIsTheFastestByTheModel) {
  for (const std::int64_t cores : {1, 2, 7, 16, 64}) {
    for (const std::int64_t rows : {20, 100, 500, 5000}) {
      for (const double width : {4.0, 500.0, 4000.0}) {
        const ComputeWork work = net(rows, width);
        const CoreSplit split = split_cores(cores, work, {});
        EXPECT_EQ(split.threads, cores / split.shards);
        EXPECT_LE(split.shards, rows);
        for (std::int64_t shards = 1; shards <= std::min(cores, rows); ++shards) {
          EXPECT_LE(step_seconds(split, work), 1.03 * step_seconds({shards, cores / shards}, work))
              << cores << " cores, batch " << rows << ", width " << width << ", " << shards << " shards";
        }
      }
    }
  }
}

TEST(SplitCores, DependsOnTheNetAndTheBatch) {
  EXPECT_EQ(split_cores(64, net(20, 4), {}).shards, 1) << "too little work for several shards";
  EXPECT_EQ(split_cores(2, net(500, 500), {}).shards, 1) << "merging costs more than threads";
  EXPECT_GT(split_cores(16, net(5000, 500), {}).shards, 4) << "enough rows for each shard";
  EXPECT_LT(split_cores(16, net(100, 4000), {}).shards, 4) << "each shard would read all parameters";
}

TEST(SplitCores, GivenThreadsLeaveTheRestToShards) {
  EXPECT_EQ(split_cores(16, net(20, 500), 4).shards, 4);
  EXPECT_EQ(split_cores(16, net(20, 500), 32).shards, 1);
  EXPECT_EQ(split_cores(16, net(20, 500), 32).threads, 32);
}

TEST(SplitCores, ReproducibleShardsDivideTheMicroBatches) {
  for (const std::int64_t slices : {1, 2, 4, 8, 64}) {
    for (const std::int64_t cores : {3, 16, 64}) {
      EXPECT_EQ(slices % split_cores(cores, net(5000, 500), {}, slices).shards, 0);
      EXPECT_EQ(slices % split_cores(cores, net(5000, 500), 1, slices).shards, 0);
    }
  }
}

// Each device of cc counts as one core here, however many cores exist.
test::Outcome train_on_cores(const std::string& cores, std::vector<std::string> more) {
  std::vector<std::string> words = {"--plugin-option", "cc.devices=" + cores, "train", "--epochs", "1",
                                    "--json",          "--log-level",         "info"};
  words.insert(words.end(), more.begin(), more.end());
  return run(words);
}

TEST(YokeTrainShards, ShardsTimesThreadsUseAllCores) {
  const std::vector<std::string> net = {"--model", "mlp:300-300", "--batch", "1000"};
  const auto with = [&](std::vector<std::string> more) {
    more.insert(more.end(), net.begin(), net.end());
    return train_on_cores("64", more);
  };
  const auto all = with({});
  EXPECT_EQ(all.code, 0) << all.err;
  EXPECT_EQ(test::json_value(all.out, "shards"), "8");
  EXPECT_THAT(all.out, HasSubstr(R"("device_options":["threads=8"])"));
  EXPECT_THAT(all.err, HasSubstr("train.shards shards=8 threads=8 cores=64 batch=1000 expected_step_us="));
  const auto given = with({"--shards", "3"});
  EXPECT_EQ(test::json_value(given.out, "shards"), "3");
  EXPECT_THAT(given.out, HasSubstr(R"("device_options":[])"));
  const auto threads = with({"--option", "threads=16"});
  EXPECT_EQ(test::json_value(threads.out, "shards"), "4");
  const auto same_bits = with({"--reproducible", "2"});
  EXPECT_EQ(test::json_value(same_bits.out, "shards"), "2");
}

TEST(YokeTrainOption, OptionsForOneBackendOfAListReachOnlyItsDevices) {
  const auto run_with = [](const std::string& backends, const std::string& option) {
    return run({"train", "--epochs", "1", "--backend", backends, "--option", option});
  };
  EXPECT_EQ(run_with("cc:1,null:1", "cc.threads=1").code, 0);
  EXPECT_EQ(run_with("cc:1,cc:1", "threads=1").code, 0);
  EXPECT_THAT(run_with("null:1,cc:1", "cc.memory_limit=4096").err, HasSubstr("on cc:0, but 4.0 KiB are"));
  EXPECT_EQ(run_with("cc:1,null:1", "cc.thread=1").err,
            "yoke: --option: cc: option 'thread' is unknown; the options are threads, kernels, pin, "
            "memory_limit; did you mean 'threads'?\n");
  EXPECT_EQ(
      run_with("cc:1,null:1", "threads=1").err,
      "yoke: --option threads=1: null has no option 'threads'; use --option cc.threads=1 for cc only\n");
  EXPECT_EQ(run_with("cc:1,null:1", "c.threads=1").err,
            "yoke: --option c.threads=1: 'c' is not a backend of this run; its backends: cc, null; did you "
            "mean 'cc'?\n");
  const auto twice = run({"train", "--data", "/nowhere", "--option", "threads=1", "--option", "threads=2"});
  EXPECT_EQ(twice.code, 2);
  EXPECT_EQ(twice.err, "yoke: --option: cc: option 'threads' is given twice\n");
  const auto own =
      run({"train", "--epochs", "1", "--option", "memory_limit=1", "--option", "cc.memory_limit=1000000000"});
  EXPECT_EQ(own.code, 0) << own.err;
}

TEST(YokeTrainOption, OptionMayHaveDifferentTypesInTwoBackends) {
  const test::UserFolder folder;
  folder.place("good");
  folder.place("text_option");
  const auto outcome = run({"--probe", "none", "train", "--backend", "good:1,text_option:1", "--data",
                            "/nowhere", "--option", "pin=1"});
  EXPECT_EQ(outcome.code, 1);
  EXPECT_THAT(outcome.err, HasSubstr("/nowhere"));
}

TEST(YokeTrainMerge, TheChoiceAndItsReasonAreReported) {
  const auto chosen = run({"train", "--epochs", "1", "--json", "--shards", "3"});
  EXPECT_THAT(chosen.err, HasSubstr("merge: direct "));
  EXPECT_THAT(chosen.out, HasSubstr(R"("merge_reason":"direct )"));
  const auto given =
      run({"train", "--epochs", "1", "--json", "--shards", "3", "--merge", "tree", "--wire", "bf16"});
  EXPECT_EQ(given.code, 0) << given.err;
  EXPECT_THAT(given.out, HasSubstr(R"("merge_reason":"given","wire":"bf16")"));
  EXPECT_EQ(run({"train", "--wire", "fp8"}).code, 2);
}

}  // namespace
}  // namespace yoke
