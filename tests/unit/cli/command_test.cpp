// SPDX-License-Identifier: Apache-2.0
// tests/unit/cli/command_test.cpp: help, wrong usage, options before the subcommand, and check-plugin.
#include <gmock/gmock.h>

#include <filesystem>
#include <string>

#include "test_paths.h"
#include "words.h"

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

TEST(YokeCommand, OneBackendHasNoNumberOfShards) {
  for (const std::string command : {"devices", "program --run -", "replay none",
                                    "predict --from none --data none", "generate --from none"}) {
    const auto outcome = shell("yoke " + command + " --backend cc:0 < /dev/null");
    EXPECT_EQ(outcome.code, 2) << command;
    EXPECT_EQ(
        outcome.err,
        "yoke: --backend takes the name of one backend, without a number of shards, not 'cc:0'; use cc\n")
        << command;
  }
}

TEST(YokeCommand, SeedsSayWhetherTheyMayBeNegative) {
  const test::TemporaryFolder folder;
  test::write_file(folder / "p.yoke",
                   "yoke.program 1\nprogram p() {\n  arg x : f32[1] inout\n  x[i] = x[i]\n}\n");
  EXPECT_THAT(run({"program", "--run", "--seed", "-1", folder / "p.yoke"}).out, HasSubstr("seed -1\n"));
  EXPECT_THAT(run({"program", "--help"}).out, HasSubstr("may be negative"));
  for (const std::vector<std::string>& words :
       {std::vector<std::string>{"train"},
        {"generate"},
        {"check-plugin", test::plugin_folder() + "/libyoke_backend_null.so"}}) {
    EXPECT_THAT(run({words[0], "--help"}).out, HasSubstr("not negative")) << words[0];
    const auto outcome = run(test::joined(words, {"--seed", "-1"}));
    EXPECT_EQ(outcome.code, 2) << words[0];
    EXPECT_THAT(outcome.err,
                AllOf(HasSubstr("--seed takes a "), HasSubstr("number from 0 to "), HasSubstr("not '-1'")))
        << words[0];
  }
}

TEST(YokeCommand, OutputThatCannotBeWrittenIsAnError) {
  EXPECT_EQ(shell("yoke backends >&-").code, 1);
  EXPECT_EQ(shell("yoke backends >&-").err, "yoke: standard output is closed\n");
  EXPECT_EQ(shell("yoke backends >/dev/full").err,
            "yoke: cannot write to standard output; is the disk full?\n");
  const test::TemporaryFolder folder;
  const std::string program = folder / "p.yoke";
  test::write_file(program, "yoke.program 1\nprogram p() {\n  arg y : f32[1] out\n  y[i] = 1.0\n}\n");
  for (const std::string& command :
       {std::string("yoke train --steps 1"), std::string("yoke devices --backend cc"),
        "yoke program " + program, "yoke program --run " + program}) {
    const auto full = shell(command + " >/dev/full");
    EXPECT_EQ(full.code, 1) << command;
    EXPECT_THAT(full.err, HasSubstr("cannot write to standard output")) << command;
  }
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
  ::setenv("YOKE_LAYERS", "nope", 1);
  for (const auto& words : std::vector<std::vector<std::string>>{
           {"backends"}, {"devices"}, {"train"}, {"backends", "--help-options", "cc"}}) {
    const auto outcome = run(words);
    EXPECT_EQ(outcome.code, 2) << words[0];
    EXPECT_EQ(outcome.err, "yoke: YOKE_LAYERS: unknown layer 'nope'; the layers are validate and trace\n");
  }
  ::unsetenv("YOKE_LAYERS");
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
  EXPECT_EQ(maybe.code, 2);
  EXPECT_THAT(maybe.err, HasSubstr("yoke: YOKE_TRACE_DATA is 'maybe'; it takes 1 or 0\n"));
}

TEST(YokeCommand, ReplayOfNoCallsIsAnError) {
  const test::TemporaryFolder folder;
  const std::string file = folder / "a.yoketrace";
  ::setenv("YOKE_TRACE_FILE", file.c_str(), 1);
  ASSERT_EQ(run({"--layers", "trace", "devices", "--backend", "cc"}).code, 0);
  ::unsetenv("YOKE_TRACE_FILE");
  const std::vector<std::string> replay = {"replay", file, "--backend", "cc"};
  EXPECT_EQ(run(replay).code, 0);
  std::uint64_t size = std::filesystem::file_size(file);
  test::Outcome outcome;
  do {  // until the first call is cut
    std::filesystem::resize_file(file, size /= 2);
    outcome = run(replay);
  } while (outcome.out.find("replayed 0 of 0 calls") == std::string::npos && size > 64);
  EXPECT_THAT(outcome.out,
              HasSubstr("the trace is incomplete: the file ends at byte " + std::to_string(size)));
  EXPECT_EQ(outcome.code, 1);
  EXPECT_EQ(outcome.err, "yoke: " + file + ": no call was replayed, so nothing was compared\n");
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

TEST(YokeCommand, HelpShowsThePlaceholdersOfOptionValues) {
  EXPECT_THAT(run({"train", "--help"}).out,
              AllOf(HasSubstr("--save FILE"), HasSubstr("--data DIR"), HasSubstr("--backend NAME")));
  EXPECT_THAT(run({"program", "--help"}).out, HasSubstr("--symbol NAME=VALUE"));
  EXPECT_THAT(run({"replay", "--help"}).out, HasSubstr("--chrome FILE"));
}

}  // namespace
}  // namespace yoke
