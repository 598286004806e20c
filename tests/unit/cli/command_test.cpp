// SPDX-License-Identifier: Apache-2.0
// tests/unit/cli/command_test.cpp: help, wrong usage, and the subcommands about backends and devices.
#include "command.h"

#include <gmock/gmock.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>

namespace yoke {
namespace {

using test::run;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

TEST(YokeCommand, WithoutArgumentsItPrintsUsageAndExitsWithTwo) {
  const auto outcome = run({});
  EXPECT_EQ(outcome.code, 2);
  EXPECT_THAT(outcome.err, StartsWith("usage: yoke [GLOBAL OPTION...] SUBCOMMAND"));
  EXPECT_EQ(outcome.out, "");
}

TEST(YokeCommand, HelpGoesToStandardOutput) {
  EXPECT_THAT(run({"--help"}).out,
              AllOf(HasSubstr("backends"), HasSubstr("devices"), HasSubstr("program"), HasSubstr("train")));
  for (const std::string subcommand : {"backends", "devices", "program", "train"}) {
    const auto outcome = run({subcommand, "--help"});
    EXPECT_EQ(outcome.code, 0);
    EXPECT_THAT(outcome.out, StartsWith("usage: yoke " + subcommand));
    EXPECT_EQ(outcome.err, "");
  }
}

TEST(YokeCommand, AnUnknownSubcommandOrOptionIsOneSentence) {
  const auto subcommand = run({"trian"});
  EXPECT_EQ(subcommand.code, 2);
  EXPECT_EQ(subcommand.err, "yoke: there is no subcommand 'trian'; yoke --help lists them\n");
  for (const std::string name : {"backends", "devices", "train"}) {
    const auto outcome = run({name, "--shard", "2"});
    EXPECT_EQ(outcome.code, 2);
    EXPECT_EQ(outcome.err,
              "yoke: there is no option '--shard'; yoke " + name + " --help lists the options\n");
  }
}

TEST(YokeBackends, ListsWhatIsFoundWithoutLoadingIt) {
  const auto outcome = run({"backends"});
  EXPECT_EQ(outcome.code, 0);
  EXPECT_THAT(outcome.out, AllOf(HasSubstr("cc "), HasSubstr("libyoke_backend_cc.so"),
                                 HasSubstr("not loaded yet"), HasSubstr("null ")));
}

TEST(YokeBackends, AnAllowListBeforeTheSubcommandHoldsForWhatItLoads) {
  const auto list = std::filesystem::temp_directory_path() / ("yoke_allow_" + std::to_string(::getpid()));
  std::ofstream(list) << "# nothing\n";
  const auto listed = run({"--plugin-allow-list", list.string(), "backends", "--json"});
  EXPECT_THAT(listed.out, HasSubstr("it is not in the allow-list " + list.string()));
  EXPECT_EQ(test::json_value(listed.out, "usable"), "false");
  const auto asked = run({"--plugin-allow-list=" + list.string(), "devices", "--backend", "null"});
  EXPECT_EQ(asked.code, 1);
  EXPECT_THAT(asked.out, HasSubstr("it is not in the allow-list"));
  std::filesystem::remove(list);
  EXPECT_THAT(run({"--plugin-allow-list", list.string(), "backends"}).err, HasSubstr("cannot be read"));
  EXPECT_EQ(run({"--plugin-allow-list"}).code, 2);
  EXPECT_THAT(run({"--probe", "some", "backends"}).err,
              HasSubstr("--probe takes none, untrusted or all, not 'some'"));
}

TEST(YokeBackends, TheNameOfAFileDoesNotSteerTheTerminal) {
  const test::TemporaryFolder folder;
  std::filesystem::create_directories(folder / "yoke/plugins");
  std::ofstream(folder / "yoke/plugins/libyoke_backend_x\x1b[2J.so") << "no plugin";
  ::setenv("XDG_DATA_HOME", folder.path().c_str(), 1);
  const auto outcome = run({"backends"});
  ::unsetenv("XDG_DATA_HOME");
  EXPECT_THAT(outcome.out, AllOf(HasSubstr("libyoke_backend_x?[2J.so"), Not(HasSubstr("\x1b"))));
}

TEST(YokeBackends, JsonIsOneLineWithEveryField) {
  const auto outcome = run({"backends", "--json"});
  EXPECT_EQ(outcome.code, 0);
  EXPECT_EQ(test::line_count(outcome.out), 1U);
  EXPECT_THAT(outcome.out, StartsWith("{\"backends\": [{\"name\": \"cc\", \"path\": \"/"));
  EXPECT_EQ(test::json_value(outcome.out, "usable"), "true");
  for (const char* key : {"stage", "verdict", "mend", "shadowed_by", "build_id", "probed", "warnings"}) {
    EXPECT_THAT(outcome.out, HasSubstr("\"" + std::string(key) + "\": "));
  }
  EXPECT_EQ(test::json_value(outcome.out, "probed"), "\"no: it lies in the install folder\"");
}

TEST(YokeBackends, TheOptionsOfABackendAreListed) {
  const auto outcome = run({"backends", "--help-options", "cc"});
  EXPECT_EQ(outcome.code, 0);
  EXPECT_THAT(outcome.out, AllOf(StartsWith("backend cc "), HasSubstr("threads"), HasSubstr("default")));
}

TEST(YokeDevices, CcPassesAndNullDoesNot) {
  const auto outcome = run({"devices"});
  EXPECT_EQ(outcome.code, 0);
  EXPECT_THAT(outcome.out,
              AllOf(HasSubstr("PASS  cc:0"), HasSubstr("FAIL  null:0"), HasSubstr("wrong result: y[")));
}

TEST(YokeDevices, JsonSaysTheSame) {
  const auto outcome = run({"devices", "--json", "--backend", "cc"});
  EXPECT_EQ(outcome.code, 0);
  EXPECT_EQ(test::line_count(outcome.out), 1U);
  EXPECT_EQ(test::json_value(outcome.out, "passed"), "true");
}

TEST(YokeDevices, NoDeviceThatPassesIsAFailure) {
  const auto outcome = run({"devices", "--backend", "none"});
  EXPECT_EQ(outcome.code, 1);
  EXPECT_THAT(outcome.out, AllOf(HasSubstr("NONE  none"), HasSubstr("cc")));
  EXPECT_THAT(outcome.err, HasSubstr("no device passed"));
}

}  // namespace
}  // namespace yoke
