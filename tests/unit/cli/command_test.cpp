// SPDX-License-Identifier: Apache-2.0
// tests/unit/cli/command_test.cpp: help, wrong usage, and the subcommands about backends and devices.
#include "command.h"

#include <gmock/gmock.h>

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
  EXPECT_THAT(outcome.err, StartsWith("usage: yoke SUBCOMMAND"));
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

TEST(YokeBackends, JsonIsOneLineWithEveryField) {
  const auto outcome = run({"backends", "--json"});
  EXPECT_EQ(outcome.code, 0);
  EXPECT_EQ(test::line_count(outcome.out), 1U);
  EXPECT_THAT(outcome.out, StartsWith("{\"backends\": [{\"name\": \"cc\", \"path\": \"/"));
  EXPECT_EQ(test::json_value(outcome.out, "usable"), "true");
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
