// SPDX-License-Identifier: Apache-2.0
// tests/unit/cli/command_test.cpp: help, wrong usage, and the subcommands about backends and devices.
#include "command.h"

#include <gmock/gmock.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "test_paths.h"

namespace yoke {
namespace {

using test::run;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

TEST(YokeCommand, NoArgumentsPrintUsageAndExitWithTwo) {
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

TEST(YokeCommand, UnknownSubcommandsAndOptionsAreReported) {
  const auto subcommand = run({"trian"});
  EXPECT_EQ(subcommand.code, 2);
  EXPECT_EQ(subcommand.err,
            "yoke: unknown subcommand 'trian'; did you mean 'train'? yoke --help lists the subcommands\n");
  EXPECT_EQ(run({"fly"}).err, "yoke: unknown subcommand 'fly'; yoke --help lists the subcommands\n");
  EXPECT_EQ(
      run({"--layer", "trace", "train"}).err,
      "yoke: unknown global option '--layer'; did you mean '--layers'? yoke --help lists the options\n");
  for (const std::string name : {"backends", "devices", "program", "replay", "train"}) {
    const auto outcome = run({name, "--Help"});
    EXPECT_EQ(outcome.code, 2);
    EXPECT_EQ(outcome.err, "yoke: unknown option '--Help'; did you mean '--help'? yoke " + name +
                               " --help lists the options\n");
    EXPECT_EQ(run({name, "--quickly", "2"}).err,
              "yoke: unknown option '--quickly'; yoke " + name + " --help lists the options\n");
  }
}

TEST(YokeCommand, HelpIsPrintedDespiteOtherErrors) {
  const auto outcome = run({"train", "extra", "--epoch", "--help"});
  EXPECT_EQ(outcome.code, 0);
  EXPECT_THAT(outcome.out, StartsWith("usage: yoke train"));
}

TEST(YokeCommand, EmptyValuesAreWrongUsageForEverySubcommand) {
  for (const auto& [words, option] : std::vector<std::pair<std::vector<std::string>, std::string>>{
           {{"--layers", "", "devices"}, "--layers"},
           {{"--plugin-allow-list=", "devices"}, "--plugin-allow-list"},
           {{"devices", "--backend", ""}, "--backend"},
           {{"backends", "--help-options", ""}, "--help-options"},
           {{"program", ""}, "FILE"},
           {{"program", "x", "--symbol", ""}, "--symbol"},
           {{"replay", "x", "--chrome", ""}, "--chrome"}}) {
    const auto outcome = run(words);
    EXPECT_EQ(outcome.code, 2) << option;
    EXPECT_EQ(outcome.err, "yoke: " + option + " has an empty value; is a shell variable not set?\n");
  }
}

// Runs a command line of a shell; "yoke" is the command, "kit" the conformance kit beside it.
test::Outcome shell(const std::string& line) {
  const std::string kit =
      (std::filesystem::path(YOKE_TEST_COMMAND).parent_path() / "yoke-conformance").string();
  const std::string names = "yoke() { " YOKE_TEST_COMMAND " \"$@\"; }; kit() { " + kit + " \"$@\"; }; ";
  return test::Command({"-c", names + line}, std::nullopt, false, "/bin/sh").wait();
}

TEST(YokeCommand, OutputThatCannotBeWrittenIsAnError) {
  EXPECT_EQ(shell("yoke backends >&-").code, 1);
  EXPECT_EQ(shell("yoke backends >&-").err, "yoke: standard output is closed\n");
  EXPECT_EQ(shell("yoke backends >/dev/full").err,
            "yoke: cannot write to standard output; is the disk full?\n");
  for (const std::string command : {"yoke backends", "yoke check-plugin --list", "kit --list"}) {
    const auto full = shell(command + " >/dev/full");
    EXPECT_EQ(full.code, 1) << command;
    EXPECT_THAT(full.err, HasSubstr("cannot write to standard output")) << command;
    // The loop ends when the reader has gone.
    const auto closed = shell("{ trap '' PIPE; while echo; do :; done 2>/dev/null; trap - PIPE; " + command +
                              "; echo code $? >&2; } | :");
    EXPECT_THAT(closed.err, AllOf(HasSubstr("standard output"), HasSubstr("closed"), HasSubstr("code 1\n")))
        << command;
  }
}

TEST(YokeCommand, HelpOfASubcommandIsItsOwnHelp) {
  EXPECT_EQ(run({"help", "train"}).out, run({"train", "--help"}).out);
  EXPECT_EQ(run({"help", "trian"}).err,
            "yoke: unknown subcommand 'trian'; did you mean 'train'? yoke --help lists the subcommands\n");
}

TEST(YokeCommand, LayersAreListedOnceAndAddUp) {
  const test::TemporaryFolder folder;
  ::setenv("YOKE_TRACE_FILE", (folder / "a.yoketrace").c_str(), 1);
  EXPECT_THAT(run({"--layers", "validate", "--layers", "trace", "devices", "--backend", "null"}).err,
              AllOf(HasSubstr("layer.on name=validate"), HasSubstr("layer.on name=trace")));
  ::unsetenv("YOKE_TRACE_FILE");
  for (const auto& [words, message] : std::vector<std::pair<std::vector<std::string>, std::string>>{
           {{"--layers"}, "--layers needs a value: validate, trace or validate,trace"},
           {{"--layers", "--data", "devices"}, "--layers needs a value: validate, trace or validate,trace"},
           {{"--layers=trace", "--layers", "trace", "devices"}, "--layers names the layer 'trace' twice"},
           {{"--layers", "trace,validat", "devices"},
            "--layers takes validate, trace or validate,trace, not 'trace,validat'; did you mean "
            "'validate'?"},
           {{"--layers", "trace", "check-plugin", "x.so"},
            "--layers has no effect on check-plugin, which loads the plugin without a runtime; leave it out"},
           {{"--data", "devices"},
            "--data before the subcommand needs --layers trace, whose records it extends"}}) {
    const auto outcome = run(words);
    EXPECT_EQ(outcome.code, 2) << message;
    EXPECT_EQ(outcome.err, "yoke: " + message + "\n");
  }
}

TEST(YokeCommand, TraceThatIsIncompleteIsAnError) {
  const test::TemporaryFolder folder;
  const std::string file = (folder / "a.yoketrace").string();
  ::setenv("YOKE_TRACE_FILE", file.c_str(), 1);
  const auto full = test::Command({"--layers", "trace", "devices", "--backend", "null"}, 4096).wait();
  ::setenv("YOKE_TRACE_DATA", "maybe", 1);
  const auto maybe = run({"--layers", "trace", "devices"});
  ::unsetenv("YOKE_TRACE_DATA");
  ::unsetenv("YOKE_TRACE_FILE");
  EXPECT_EQ(full.code, 1);
  EXPECT_THAT(full.err, HasSubstr("yoke: the trace " + file + " is incomplete: File too large\n"));
  EXPECT_EQ(maybe.code, 1);
  EXPECT_THAT(maybe.err, HasSubstr("yoke: YOKE_TRACE_DATA is 'maybe'; it takes 1 or 0\n"));
}

TEST(YokeCheckPlugin, PluginOptionsWorkBeforeAndAfterTheSubcommand) {
  const std::string null = test::plugin_folder() + "/libyoke_backend_null.so";
  const std::vector<std::string> check = {"check-plugin", null, "--filter", "copy.round-trip", "--json"};
  const auto devices = [&](std::vector<std::string> before, const std::vector<std::string>& after) {
    before.insert(before.end(), check.begin(), check.end());
    before.insert(before.end(), after.begin(), after.end());
    return run(before);
  };
  const auto none = [](const test::Outcome& outcome) {
    return outcome.out.find("the plugin option devices is 0") != std::string::npos;
  };
  EXPECT_FALSE(none(devices({}, {})));
  EXPECT_TRUE(none(devices({"--plugin-option", "null.devices=0"}, {})));
  EXPECT_TRUE(none(devices({}, {"--plugin-option", "devices=0"})));
  EXPECT_TRUE(none(devices({}, {"--plugin-option=null.devices=0"})));
  EXPECT_THAT(devices({"--plugin-option", "cc.devices=0"}, {}).err,
              HasSubstr("--plugin-option cc.devices=0 is not for " + null));
}

TEST(YokeCheckPlugin, MessagesNameTheCommandThatWasTyped) {
  EXPECT_THAT(shell("yoke check-plugin --help").out,
              ::testing::StartsWith("usage: yoke check-plugin PLUGIN... "));
  EXPECT_THAT(shell("kit --help").out, ::testing::StartsWith("usage: yoke-conformance PLUGIN... "));
  EXPECT_EQ(
      shell("yoke check-plugin --lits").err,
      "yoke check-plugin: unknown option '--lits'; did you mean '--list'? yoke check-plugin --help lists the "
      "options\n");
}

TEST(YokeCheckPlugin, MessagesNameWhatCannotBeUsed) {
  const std::string null = test::plugin_folder() + "/libyoke_backend_null.so";
  const auto full = run({"check-plugin", null, "--filter", "load.enters", "--junit", "/dev/full"});
  EXPECT_EQ(full.code, 1);
  EXPECT_EQ(full.err,
            "yoke check-plugin: cannot write the JUnit file /dev/full: No space left on device; give --junit "
            "another "
            "file\n");
  const auto folder = run({"check-plugin", null, "--filter", "load.enters", "--junit", "/nowhere/a.xml"});
  EXPECT_THAT(folder.err,
              HasSubstr("cannot write the JUnit file /nowhere/a.xml: No such file or directory; "));
  const auto device = run({"check-plugin", null, "--filter", "copy.round-trip", "--device", "99"});
  EXPECT_EQ(device.code, 2);
  EXPECT_EQ(device.err,
            "yoke check-plugin: --device 99 is out of range: the plugin has 1 device; leave out --device\n");
}

TEST(YokeCheckPlugin, RunWithoutTestsIsNotPassed) {
  const auto outcome = run({"--plugin-option", "null.devices=0", "check-plugin",
                            test::plugin_folder() + "/libyoke_backend_null.so", "--filter", "copy.*"});
  EXPECT_EQ(outcome.code, 3);
  EXPECT_THAT(outcome.out, AllOf(HasSubstr("NOTHING TESTED "), Not(HasSubstr("PASSED"))));
}

TEST(YokeCommand, BackendsThatMightBeMeantAreSuggested) {
  for (const std::vector<std::string>& words :
       std::vector<std::vector<std::string>>{{"train", "--backend", "nulll"},
                                             {"backends", "--help-options", "nulll"},
                                             {"devices", "--backend", "nulll"},
                                             {"train", "--backend", "NULL"}}) {
    const auto outcome = run(words);
    EXPECT_EQ(outcome.code, 1);
    EXPECT_THAT(outcome.out + outcome.err, HasSubstr("'; did you mean 'null'? Found cc"));
  }
}

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

TEST(YokeCommand, WordsWithoutEffectAreWrongUsage) {
  const auto expect_usage = [](const std::vector<std::string>& words, const std::string& sentence) {
    const auto outcome = run(words);
    EXPECT_EQ(outcome.code, 2) << sentence;
    EXPECT_EQ(outcome.err, "yoke: " + sentence + "\n");
  };
  expect_usage({"--version", "extra"}, "--version takes no arguments; leave out 'extra'");
  expect_usage({"--probe", "none", "--probe", "all", "backends"},
               "--probe is given twice; leave one of them out");
  expect_usage({"replay", "x", "--backend", "cc", "--no-compare", "--tolerance", "1"},
               "--tolerance has no effect with --no-compare; leave one of them out");
  const test::TemporaryFolder folder;
  test::write_file(folder / "a.yoketrace", "trace");
  expect_usage(
      {"replay", folder / "a.yoketrace", "--chrome", folder / "a.yoketrace"},
      "--chrome " + (folder / "a.yoketrace").string() + " would replace the trace; give another file");
  EXPECT_EQ(test::read_whole(folder / "a.yoketrace"), "trace");
}

TEST(YokeBackends, HelpOptionsFailsForAMissingBackend) {
  const auto outcome = run({"backends", "--help-options", "none"});
  EXPECT_EQ(outcome.code, 1);
  EXPECT_THAT(outcome.err, HasSubstr("no backend 'none': found cc"));
}

TEST(YokeCommand, HelpShowsThePlaceholdersOfOptionValues) {
  EXPECT_THAT(run({"train", "--help"}).out,
              AllOf(HasSubstr("--save FILE"), HasSubstr("--data DIR"), HasSubstr("--backend NAME")));
  EXPECT_THAT(run({"program", "--help"}).out, HasSubstr("--symbol NAME=VALUE"));
  EXPECT_THAT(run({"replay", "--help"}).out, HasSubstr("--chrome FILE"));
}

TEST(YokeDevices, CcPassesAndNullFails) {
  const auto outcome = run({"devices"});
  EXPECT_EQ(outcome.code, 0);
  EXPECT_THAT(outcome.out,
              AllOf(HasSubstr("PASS  cc:0"), HasSubstr("FAIL  null:0"), HasSubstr("wrong result: y[")));
}

TEST(YokeDevices, JsonReportsAPassingDevice) {
  const auto outcome = run({"devices", "--json", "--backend", "cc"});
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_EQ(test::line_count(outcome.out), 1U);
  EXPECT_EQ(test::json_value(outcome.out, "passed"), "true");
}

TEST(YokeDevices, BackendsThatIgnoreOffsetsFail) {
  const test::UserFolder folder;
  const auto tried = [&](const std::string& name) {
    folder.place(name);
    return run({"--probe", "none", "devices", "--backend", name});
  };
  const auto good = tried("good");
  EXPECT_EQ(good.code, 0) << good.out << good.err;
  EXPECT_THAT(good.out, HasSubstr("PASS  good:0"));
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
