// SPDX-License-Identifier: Apache-2.0
// tests/unit/layers/command_test.cpp: a whole training under the layers, and its trace on other backends.
#include "command.h"

#include <gmock/gmock.h>
#include <stdlib.h>
#include <sys/stat.h>

namespace yoke::test {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

class LayersCommand : public ::testing::Test {
 protected:
  LayersCommand() { ::setenv("YOKE_TRACE_FILE", trace().c_str(), 1); }
  ~LayersCommand() override {
    ::unsetenv("YOKE_TRACE_FILE");
    ::unsetenv("YOKE_TRACE_DATA");
  }
  std::string trace() const { return (folder_ / "train.yoketrace").string(); }
  void train(bool with_data) {
    std::vector<std::string> arguments = {"--layers", "validate,trace"};
    if (with_data) {
      arguments.emplace_back("--data");
    }
    arguments.insert(arguments.end(), {"train", "--epochs", "1"});
    const Outcome outcome = run(arguments);
    ASSERT_EQ(outcome.code, 0) << outcome.err;
    EXPECT_THAT(outcome.err, HasSubstr("layer.on name=validate"));
    EXPECT_THAT(outcome.err, Not(HasSubstr("validate.violation")));
    EXPECT_THAT(outcome.err, HasSubstr("layer.off name=validate violations=0 warnings=0"));
  }
  TemporaryFolder folder_;
};

TEST_F(LayersCommand, ATrainingIsFreeOfViolationsAndReplaysEqual) {
  train(true);
  const Outcome replay = run({"replay", trace(), "--backend", "cc", "--json"});
  EXPECT_EQ(replay.code, 0) << replay.out << replay.err;
  EXPECT_EQ(json_value(replay.out, "differences"), "0");
  EXPECT_EQ(json_value(replay.out, "skipped"), "0");
  EXPECT_NE(json_value(replay.out, "contents_equal"), "0");
}

TEST_F(LayersCommand, ATrainingOfCcReplaysOnNullWithoutItsContents) {
  train(false);
  const Outcome replay = run({"replay", trace(), "--backend", "null"});
  EXPECT_EQ(replay.code, 0) << replay.out << replay.err;
  EXPECT_THAT(replay.out, HasSubstr("0 differences"));
  EXPECT_THAT(replay.out, HasSubstr("not compared: the trace holds no contents"));
}

TEST_F(LayersCommand, WithContentsNullDiffers) {
  train(true);
  const Outcome replay = run({"replay", trace(), "--backend", "null"});
  EXPECT_EQ(replay.code, 1);
  EXPECT_THAT(replay.out, HasSubstr("the contents differ"));
  EXPECT_EQ(run({"replay", trace(), "--backend", "null", "--no-compare"}).code, 0);
}

TEST_F(LayersCommand, WhatTheSmallestBackendDoesNotOfferIsSkippedAndNoDifference) {
  train(true);
  const UserFolder folder;
  folder.place("minimal", YOKE_TEST_MINIMAL_PLUGIN);
  const Outcome text = run({"replay", trace(), "--backend", "minimal"});
  const Outcome json = run({"replay", trace(), "--backend", "minimal", "--json"});
  EXPECT_EQ(text.code, 0) << text.out << text.err;
  EXPECT_THAT(text.out, HasSubstr("routine_launch"));
  EXPECT_THAT(text.out, HasSubstr("skipped: it runs no programs"));
  EXPECT_THAT(text.out, HasSubstr("not compared: calls that were skipped"));
  EXPECT_EQ(json.code, 0) << json.out << json.err;
  EXPECT_EQ(json_value(json.out, "differences"), "0");
  EXPECT_NE(json_value(json.out, "emulated"), "0");
  EXPECT_NE(json_value(json.out, "skipped"), "0");
  EXPECT_THAT(json.out, HasSubstr(R"("function": "fill", "text": "done by other calls)"));
}

TEST_F(LayersCommand, WhatATraceMayHaveCanBeSaid) {
  train(false);
  const Outcome little = run({"replay", trace(), "--backend", "null", "--memory-limit", "1000"});
  EXPECT_EQ(little.code, 1);
  EXPECT_EQ(little.out, "");
  EXPECT_THAT(little.err, HasSubstr("code_compile: the trace wants "));
  EXPECT_THAT(little.err, HasSubstr("and may have 1000; give it a larger memory limit"));
  for (const char* const limit : {"--memory-limit=-1", "--time-limit=0", "--time-limit=4294967297"}) {
    const Outcome wrong = run({"replay", trace(), "--backend", "null", limit});
    EXPECT_EQ(wrong.code, 2) << limit;
    EXPECT_THAT(wrong.err, HasSubstr("a --memory-limit of 0 or more and a --time-limit of 1 to 4294967296"));
  }
}

TEST_F(LayersCommand, WrongUsageIsSaid) {
  EXPECT_EQ(run({"replay", "nowhere.yoketrace", "--print"}).code, 1);
  EXPECT_EQ(run({"replay", "nowhere.yoketrace"}).code, 2);
  ASSERT_EQ(::mkfifo((folder_ / "pipe").c_str(), 0600), 0);
  EXPECT_THAT(run({"replay", (folder_ / "pipe").string(), "--print"}).err, HasSubstr("no regular file"));
  EXPECT_EQ(run({"--layers", "tarce", "backends"}).code, 2);
}

}  // namespace
}  // namespace yoke::test
