// SPDX-License-Identifier: Apache-2.0
// tests/unit/layers/command_test.cpp: trains with both layers, and replays the trace on other backends.
#include "command.h"

#include <gmock/gmock.h>
#include <stdlib.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>

#include "trace_bytes.h"

namespace yoke::test {
namespace {

using ::testing::ContainsRegex;
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

TEST_F(LayersCommand, TrainingHasNoViolationsAndReplaysIdentically) {
  train(true);
  const Outcome replay = run({"replay", trace(), "--backend", "cc", "--json"});
  EXPECT_EQ(replay.code, 0) << replay.out << replay.err;
  EXPECT_EQ(json_value(replay.out, "differences"), "0");
  EXPECT_EQ(json_value(replay.out, "skipped"), "0");
  EXPECT_NE(json_value(replay.out, "contents_equal"), "0");
}

TEST_F(LayersCommand, TrainingReplaysOnNullWithoutContents) {
  train(false);
  const Outcome replay = run({"replay", trace(), "--backend", "null"});
  EXPECT_EQ(replay.code, 0) << replay.out << replay.err;
  EXPECT_THAT(replay.out, HasSubstr("0 differences"));
  EXPECT_THAT(replay.out, HasSubstr("not compared: the trace has no contents"));
}

TEST_F(LayersCommand, TrainingWithContentsDiffersOnNull) {
  train(true);
  const Outcome replay = run({"replay", trace(), "--backend", "null"});
  EXPECT_EQ(replay.code, 1);
  EXPECT_THAT(replay.out, HasSubstr("the contents differ"));
  EXPECT_EQ(run({"replay", trace(), "--backend", "null", "--no-compare"}).code, 0);
}

TEST_F(LayersCommand, CallsThatTheBackendLacksAreSkipped) {
  train(true);
  const UserFolder folder;
  folder.place("minimal", YOKE_TEST_MINIMAL_PLUGIN);
  const Outcome text = run({"replay", trace(), "--backend", "minimal"});
  const Outcome json = run({"replay", trace(), "--backend", "minimal", "--json"});
  EXPECT_EQ(text.code, 0) << text.out << text.err;
  EXPECT_THAT(text.out, ContainsRegex("skipped .*routine_launch.*: the backend does not offer it"));
  EXPECT_THAT(text.out, HasSubstr("not compared: calls that write them were skipped"));
  EXPECT_EQ(json.code, 0) << json.out << json.err;
  EXPECT_EQ(json_value(json.out, "differences"), "0");
  EXPECT_NE(json_value(json.out, "skipped"), "0");
  EXPECT_THAT(json.out, HasSubstr(R"("function":"fill","reason":"the backend does not offer it")"));
}

TEST_F(LayersCommand, DamagedAndMissingFilesAreReportedInOneSentence) {
  train(false);
  const auto size = std::filesystem::file_size(trace()) - 100;
  std::filesystem::resize_file(trace(), size);
  const std::string printed = run({"replay", trace(), "--print"}).out;
  EXPECT_NE(printed.find("# incomplete: the file ends at byte " + std::to_string(size)), std::string::npos);
  const auto at = static_cast<long>(payload_near_middle(read_bytes(trace())));
  std::fstream(trace(), std::ios::in | std::ios::out | std::ios::binary).seekp(at) << "garbled";
  const Outcome garbled = run({"replay", trace(), "--backend", "null"});
  EXPECT_EQ(garbled.code, 1);
  EXPECT_THAT(garbled.err, HasSubstr("train.yoketrace: the trace is damaged after byte"));
  EXPECT_EQ(run({"replay", "nowhere.yoketrace", "--print"}).code, 1);
  ASSERT_EQ(::mkfifo((folder_ / "pipe").c_str(), 0600), 0);
  EXPECT_THAT(run({"replay", (folder_ / "pipe").string(), "--print"}).err, HasSubstr("not a regular file"));
}

TEST_F(LayersCommand, DifferencesBetweenTheBackendsAreNoted) {
  EXPECT_EQ(
      run({"--layers", "trace", "--plugin-option", "null.devices=3", "devices", "--backend", "null"}).code,
      1);
  const Outcome same = run({"replay", trace(), "--backend", "null"});
  EXPECT_THAT(same.out,
              HasSubstr("note: the trace uses 3 devices of 'null'; 'null' has only 1, which they share\n"));
  EXPECT_THAT(same.out, Not(HasSubstr("note: the trace was recorded on")));
  const Outcome other = run({"replay", trace(), "--backend", "cc"});
  EXPECT_THAT(other.out,
              HasSubstr("note: the trace was recorded on 'null'; another backend may round differently"));
  const Outcome none = run({"--plugin-option", "null.devices=0", "replay", trace(), "--backend", "null"});
  EXPECT_EQ(none.code, 1);
  EXPECT_THAT(none.err, HasSubstr("the backend 'null' has no devices: the plugin option devices is 0"));
}

TEST_F(LayersCommand, FileShorterThanTheHeaderIsReported) {
  train(false);
  std::filesystem::resize_file(trace(), 20);
  EXPECT_THAT(run({"replay", trace(), "--print"}).err,
              HasSubstr("train.yoketrace: the file ends at byte 20, inside the header of 32 bytes"));
}

TEST_F(LayersCommand, WrongUsageExitsWithTwo) {
  EXPECT_EQ(run({"replay", "nowhere.yoketrace"}).code, 2);
  for (const std::string option : {"--json", "--no-compare", "--backend=cc", "--tolerance=1"}) {
    const Outcome outcome = run({"replay", "nowhere.yoketrace", "--print", option});
    EXPECT_EQ(outcome.code, 2);
    EXPECT_THAT(outcome.err, HasSubstr(" has no effect with --print, which runs nothing"));
  }
  EXPECT_EQ(run({"--layers", "tarce", "backends"}).code, 2);
}

}  // namespace
}  // namespace yoke::test
