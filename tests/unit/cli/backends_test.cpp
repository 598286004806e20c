// SPDX-License-Identifier: Apache-2.0
// tests/unit/cli/backends_test.cpp: the subcommands backends and devices.
#include <gmock/gmock.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "command.h"
#include "test_paths.h"

namespace yoke {
namespace {

using test::run;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

TEST(YokeBackends, MissingFoldersOfThePluginPathAreReported) {
  // Command sets YOKE_PLUGIN_PATH, so a shell changes it.
  const test::TemporaryFolder folder;
  test::write_file(folder / "file", "");
  const std::string entries = (folder / "none").string() + ":" + (folder / "file").string();
  const auto outcome =
      test::Command({"-c", "YOKE_PLUGIN_PATH=" + entries + " exec " YOKE_TEST_COMMAND " backends --json"},
                    std::nullopt, false, "/bin/sh")
          .wait();
  EXPECT_EQ(outcome.code, 0);
  EXPECT_THAT(outcome.err, AllOf(HasSubstr("entry '" + (folder / "none").string() + "' does not exist"),
                                 HasSubstr("entry '" + (folder / "file").string() + "' is not a folder")));
  EXPECT_THAT(outcome.out, AllOf(HasSubstr("does not exist"), HasSubstr("is not a folder")));
}

TEST(YokeBackends, ListsBackendsWithoutLoadingThem) {
  const auto outcome = run({"backends"});
  EXPECT_EQ(outcome.code, 0);
  EXPECT_THAT(outcome.out, AllOf(HasSubstr("cc "), HasSubstr("libyoke_backend_cc.so"),
                                 HasSubstr("not loaded yet"), HasSubstr("null ")));
}

TEST(YokeBackends, AllowListAppliesToEverySubcommand) {
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
  EXPECT_THAT(run({"--probe", "untrust", "backends"}).err, HasSubstr("; did you mean 'untrusted'?"));
}

TEST(YokeBackends, ControlCharactersInFileNamesAreReplaced) {
  const test::UserFolder folder;
  std::ofstream(folder.file("x\x1b[2J")) << "no plugin";
  const auto outcome = run({"backends"});
  EXPECT_THAT(outcome.out, AllOf(HasSubstr("libyoke_backend_x?[2J.so"), Not(HasSubstr("\x1b"))));
}

TEST(YokeBackends, JsonIsOneLineWithEveryField) {
  const auto outcome = run({"backends", "--json"});
  EXPECT_EQ(outcome.code, 0);
  EXPECT_EQ(test::line_count(outcome.out), 1U);
  EXPECT_THAT(outcome.out, StartsWith("{\"backends\":[{\"name\":\"cc\",\"path\":\"/"));
  EXPECT_EQ(test::json_value(outcome.out, "usable"), "true");
  for (const char* key : {"stage", "verdict", "fix", "shadowed_by", "build_id", "probed", "warnings"}) {
    EXPECT_THAT(outcome.out, HasSubstr("\"" + std::string(key) + "\":"));
  }
  EXPECT_EQ(test::json_value(outcome.out, "probed"), "\"no: it is in the install folder\"");
}

TEST(YokeBackends, IgnoredSearchPathEntriesAreReported) {
  ::setenv("XDG_DATA_HOME", "data", 1);
  const auto listed = run({"backends"});
  const auto outcome = run({"backends", "--json"});
  const auto devices = run({"devices", "--json"});
  ::unsetenv("XDG_DATA_HOME");
  const std::string why = "XDG_DATA_HOME is 'data', which is not absolute, and is ignored";
  EXPECT_THAT(outcome.out, HasSubstr("{\"name\":\"\",\"path\":\"data\",\"stage\":\"found\",\"usable\":false,"
                                     "\"verdict\":\"" +
                                     why + "\",\"fix\":\"use an absolute path\""));
  EXPECT_THAT(listed.err, HasSubstr(why));
  EXPECT_THAT(listed.out, Not(HasSubstr("data")));
  EXPECT_THAT(devices.out, AllOf(HasSubstr("\"cc\""), Not(HasSubstr("\"backend\":\"\""))));
}

TEST(YokeBackends, ListsTheOptionsOfABackend) {
  const auto outcome = run({"backends", "--help-options", "cc"});
  EXPECT_EQ(outcome.code, 0);
  EXPECT_THAT(outcome.out, AllOf(StartsWith("backend cc "), HasSubstr("  threads  integer, "),
                                 HasSubstr(", default "), HasSubstr("--plugin-option cc.devices=VALUE")));
}

TEST(YokeBackends, OptionSchemaIsPrintedAsTextAndAsJson) {
  const test::UserFolder folder;
  folder.place("good");
  const auto shown = run({"--probe", "none", "backends", "--help-options", "good"});
  EXPECT_THAT(
      shown.out,
      AllOf(HasSubstr("  threads  integer, 1 to 8, default "), HasSubstr("  share  number, 0 to 1, default "),
            HasSubstr("  mode  text, fast|exact, default '"), HasSubstr("  pin  flag, default "),
            HasSubstr("  level  integer, 0 to 9, default 0, for the whole plugin\n")));
  const auto outcome = run({"--probe", "none", "backends", "--help-options", "good", "--json"});
  EXPECT_EQ(outcome.code, 0);
  EXPECT_EQ(test::line_count(outcome.out), 1U);
  EXPECT_THAT(outcome.out, AllOf(StartsWith("{\"backend\":\"good\",\"version\":\"1.2.3\",\"options\":"
                                            "[{\"name\":\"threads\",\"type\":\"integer\","),
                                 HasSubstr("\"min\":1,\"max\":8,\"default\":"),
                                 HasSubstr("\"choices\":[\"fast\",\"exact\"]"),
                                 HasSubstr("\"scope\":\"device\""), HasSubstr("\"scope\":\"plugin\"")));
}

TEST(YokeBackends, HelpOptionsFailsForAMissingBackend) {
  const auto outcome = run({"backends", "--help-options", "none"});
  EXPECT_EQ(outcome.code, 1);
  EXPECT_THAT(outcome.err, HasSubstr("no backend 'none': found cc"));
}

TEST(YokeDevices, CcPassesAndNullComputesNothing) {
  const auto outcome = run({"devices"});
  EXPECT_EQ(outcome.code, 0);
  EXPECT_THAT(outcome.out, AllOf(HasSubstr("PASS  cc:0"), HasSubstr("NONE  null:0"),
                                 HasSubstr("this backend computes nothing: wrong result: y[")));
}

TEST(YokeDevices, JsonReportsAPassingDevice) {
  const auto outcome = run({"devices", "--json", "--backend", "cc"});
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_EQ(test::line_count(outcome.out), 1U);
  EXPECT_EQ(test::json_value(outcome.out, "passed"), "true");
  EXPECT_EQ(test::json_value(outcome.out, "fallback"), "\"\"");
}

TEST(YokeDevices, BackendsThatIgnoreOffsetsFail) {
  const test::UserFolder folder;
  const auto tried = [&](const std::string& name) {
    folder.place(name);
    return run({"--probe", "none", "devices", "--backend", name});
  };
  const auto good = tried("good");
  EXPECT_EQ(good.code, 0) << good.out << good.err;
  EXPECT_THAT(good.out, AllOf(HasSubstr("PASS  good:0"), HasSubstr("; fallback: the program ran on cc:0\n")));
  const auto json = run({"--probe", "none", "devices", "--backend", "good", "--json"});
  EXPECT_EQ(test::json_value(json.out, "fallback"), "\"cc:0\"");
  EXPECT_NE(test::json_value(json.out, "fallback_reason"), "\"\"");
  for (const auto& [name, copy] :
       {std::pair("from_host_forgets_offset", "from_host of 16 bytes at offset 32"),
        std::pair("to_host_forgets_offset", "to_host of 16 bytes at offset 40"),
        std::pair("forgets_offsets", "from_host of 16 bytes at offset 32"),
        std::pair("copy_forgets_offset", "device_to_device of 16 bytes")}) {
    const auto outcome = tried(name);
    EXPECT_EQ(outcome.code, 1) << name;
    EXPECT_THAT(outcome.out, AllOf(HasSubstr("FAIL  " + std::string(name) + ":0"),
                                   HasSubstr("wrong copy: " + std::string(copy))));
  }
}

TEST(YokeDevices, PluginOptionsReachThePlugin) {
  const auto three = run({"--plugin-option", "cc.devices=3", "devices", "--backend", "cc"});
  EXPECT_EQ(three.code, 0) << three.err;
  EXPECT_THAT(three.out, AllOf(HasSubstr("PASS  cc:2"), Not(HasSubstr("cc:3"))));
  const auto none = run({"--plugin-option=null.devices=0", "devices", "--backend", "null"});
  EXPECT_EQ(none.code, 1);
  EXPECT_THAT(none.out,
              AllOf(HasSubstr("NONE  null"), HasSubstr("0 devices: the plugin option devices is 0")));
  const auto json = run({"--plugin-option=null.devices=0", "devices", "--backend", "null", "--json"});
  EXPECT_EQ(test::json_value(json.out, "compute_units"), "0");  // of a device that does not exist
  const auto usage = run({"--plugin-option", "cc", "devices"});
  EXPECT_EQ(usage.code, 2);
  EXPECT_EQ(usage.err, "yoke: --plugin-option takes BACKEND.NAME=VALUE (cc.devices=4), not 'cc'\n");
}

TEST(YokeDevices, PluginOptionsThatThePluginRefusesAreWrongUsage) {
  for (const auto& [option, why] :
       {std::pair("cc.device=3", "unknown option 'device'; known options: devices"),
        std::pair("cc.devices=x", "option 'devices' is 'x'")}) {
    for (const char* subcommand : {"devices", "train"}) {
      const auto outcome = run({"--plugin-option", option, subcommand});
      EXPECT_EQ(outcome.code, 2) << subcommand;
      EXPECT_EQ(outcome.out, "");
      EXPECT_THAT(outcome.err, AllOf(HasSubstr("yoke: --plugin-option: backend 'cc': "), HasSubstr(why)));
    }
  }
  const auto twice = run({"--plugin-option", "cc.devices=1", "--plugin-option", "cc.devices=2", "devices"});
  EXPECT_EQ(twice.code, 2);
  EXPECT_EQ(twice.err, "yoke: --plugin-option cc.devices is given twice; leave one of them out\n");
}

TEST(YokeDevices, PluginOptionsOfUnknownBackendsAreWrongUsage) {
  const auto outcome = run({"--plugin-option", "nul.devices=1", "devices"});
  EXPECT_EQ(outcome.code, 2);
  EXPECT_EQ(outcome.err,
            "yoke: --plugin-option nul.devices=1: no backend is named 'nul'; did you mean 'null'?\n");
}

TEST(YokeDevices, FailsIfNoDevicePasses) {
  const auto outcome = run({"devices", "--backend", "none"});
  EXPECT_EQ(outcome.code, 1);
  EXPECT_THAT(outcome.out, AllOf(HasSubstr("NONE  none"), HasSubstr("cc")));
  EXPECT_THAT(outcome.err, HasSubstr("no device passed"));
}

}  // namespace
}  // namespace yoke
