// SPDX-License-Identifier: Apache-2.0
// tests/unit/conformance/command_test.cpp: the command line of yoke-conformance,
// on a correct plugin and on one with a bug.
#include "command.h"

#include <gmock/gmock.h>

#include <nlohmann/json.hpp>

namespace {

using ::testing::HasSubstr;
using ::testing::Not;
using yoke::test::Command;
using yoke::test::line_count;
using yoke::test::Outcome;
using yoke::test::read_whole;
using yoke::test::run;
using yoke::test::write_file;
using Folder = yoke::test::TemporaryFolder;
namespace fs = std::filesystem;

// The mutant has this bug as long as the object lives.
struct Bug {
  explicit Bug(const char* name) { ::setenv("YOKE_MUTANT_BUG", name, 1); }
  ~Bug() { ::unsetenv("YOKE_MUTANT_BUG"); }
  Bug(const Bug&) = delete;
  Bug& operator=(const Bug&) = delete;
};

const std::string kGood = CONFORMANCE_GOOD;
const std::string kMutant = CONFORMANCE_MUTANT;

// Runs copy.round-trip on the mutant, whose copies lose their last byte.
Outcome lossy_round_trip(std::vector<std::string> more = {}) {
  const Bug bug("copy_loses_last_byte");
  more.insert(more.begin(), {kMutant, "--filter", "copy.round-trip"});
  return run(more);
}

TEST(Conformance, WrongUsageExitsWithTwo) {
  EXPECT_EQ(run({}).code, 2);
  EXPECT_EQ(run({"--no-such-option"}).code, 2);
  EXPECT_EQ(run({"/no/such/file.so"}).code, 2);
  EXPECT_EQ(run({kGood, "--filter", "nothing.at-all"}).code, 2);
  EXPECT_EQ(run({kGood, "--jobs", "0"}).code, 2);
  EXPECT_EQ(run({kGood, "--timeout", "0"}).code, 2);
  EXPECT_EQ(run({kGood, "--seed", "many"}).code, 2);
  EXPECT_EQ(run({kGood, "--option", "nameless"}).code, 2);
  EXPECT_EQ(run({kGood, "--expect", "/no/such/list"}).code, 2);
  EXPECT_THAT(run({kGood, "--filter", "nothing.at-all"}).err,
              HasSubstr("no test matches --filter 'nothing.at-all'; --list prints all tests"));
  EXPECT_EQ(run({kGood, "--filter", ""}).code, 2);
}

TEST(Conformance, EveryFilterMustMatchAndSimilarTestsAreSuggested) {
  const auto suggestion = [](const std::string& filter) {
    const Outcome outcome = run({"--list", "--filter", "load.*", "--filter", filter});
    EXPECT_EQ(outcome.code, 2);
    return outcome.err;
  };
  EXPECT_THAT(suggestion("cpoy.*"),
              HasSubstr("no test matches --filter 'cpoy.*'; did you mean 'copy.*'? --list"));
  EXPECT_THAT(suggestion("copy"), HasSubstr("did you mean 'copy.*'?"));
  EXPECT_THAT(suggestion("cpoy"), HasSubstr("did you mean 'copy.*'?"));
  EXPECT_THAT(suggestion("copy.round_trip"), HasSubstr("did you mean 'copy.round-trip'?"));
}

TEST(Conformance, UnknownOptionsAndEmptyValuesAreExplained) {
  EXPECT_THAT(run({kGood, "--filtre", "x"}).err,
              HasSubstr("unknown option '--filtre'; did you mean '--filter'?"));
  EXPECT_THAT(run({kGood, "--expect", ""}).err, HasSubstr("--expect has an empty value"));
}

// Waits, at most a minute, until the kit runs a test whose name starts with `name`.
bool wait_for_test(pid_t kit, const std::string& name) {
  const std::string words = std::string("--run-one") + '\0' + name;
  const std::string parent = "\nPPid:\t" + std::to_string(kit) + "\n";
  for (int i = 0; i < 6000; ++i) {
    for (const auto& entry : fs::directory_iterator("/proc")) {
      if (read_whole(entry.path() / "cmdline").find(words) != std::string::npos &&
          read_whole(entry.path() / "status").find(parent) != std::string::npos) {
        return true;
      }
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  return false;
}

TEST(Conformance, InterruptedRunPrintsWhatPassed) {
  for (const int signal : {SIGINT, SIGTERM, SIGHUP}) {
    const Folder folder;
    Command command({kMutant, "--filter", "load.enters", "--filter", "program.random-*", "--programs",
                     "100000000", "--jobs", "1", "--verbose", "--junit", folder / "report.xml"});
    ASSERT_TRUE(wait_for_test(command.process(), "program.random"));
    command.signal(signal);
    const Outcome outcome = command.wait();
    EXPECT_EQ(outcome.code, 1);
    EXPECT_THAT(outcome.out, HasSubstr("passed            load.enters"));
    EXPECT_THAT(outcome.out, HasSubstr("INTERRUPTED " + kMutant + ": "));
    EXPECT_THAT(outcome.out, HasSubstr(" tests were not run\n"));
    EXPECT_THAT(read_whole(folder / "report.xml"), HasSubstr("the run was interrupted"));
  }
}

TEST(Conformance, ReportsAFileThatCannotBeLoadedInOneSentence) {
  const Folder folder;
  write_file(folder / "text.so", "GROUP ( libreal.so )\n");
  write_file(folder / "cut.so", read_whole(kGood).substr(0, 5000));
  const std::size_t tests = line_count(run({"--list"}).out);
  const std::string ending = "; " + std::to_string(tests - 1) + " tests were not run\n";
  const auto report_of = [&](const std::string& file) {
    const Outcome outcome = run({file});
    EXPECT_EQ(outcome.code, 1);
    EXPECT_EQ(line_count(outcome.out), 1U) << outcome.out;
    EXPECT_THAT(outcome.out, ::testing::StartsWith("FAILED " + fs::canonical(file).string() + ": "));
    EXPECT_THAT(outcome.out, ::testing::EndsWith(ending));
    return outcome.out;
  };

  EXPECT_THAT(report_of(folder / "text.so"), HasSubstr("it is a text file, not an ELF shared object; "));
  EXPECT_THAT(report_of(folder / "cut.so"), HasSubstr("it is truncated"));
  EXPECT_THAT(report_of(CONFORMANCE_YOKE), HasSubstr("the dynamic linker refused it: "));
  const Bug bug("constructor_crashes");
  EXPECT_THAT(report_of(kMutant), HasSubstr("SIGSEGV (Segmentation fault), in dlopen"));
}

TEST(Conformance, ReportsAFileThatCannotBeLoadedAsJsonAndJunit) {
  const Folder folder;
  write_file(folder / "text.so", "no plugin\n");
  const Outcome outcome =
      run({folder / "text.so", "--filter", "copy.r*", "--json", "--junit", folder / "report.xml"});
  EXPECT_EQ(outcome.code, 1);
  const auto plugin = nlohmann::json::parse(outcome.out)["plugins"][0];
  EXPECT_EQ(plugin["loads"], false);
  EXPECT_EQ(plugin["counts"]["failed"], 1);
  EXPECT_EQ(plugin["tests"][0]["name"], "load.enters");
  EXPECT_EQ(plugin["tests"][0]["verdict"], "failed");
  EXPECT_THAT(plugin["tests"][0]["text"].get<std::string>(), HasSubstr("it is a text file"));
  EXPECT_EQ(plugin["tests"][1]["name"], "copy.round-trip");
  EXPECT_EQ(plugin["tests"][1]["verdict"], "not run");
  const std::string junit = read_whole(folder / "report.xml");
  EXPECT_THAT(junit, HasSubstr("tests=\"3\" failures=\"1\" errors=\"0\" skipped=\"2\""));
  EXPECT_THAT(junit, HasSubstr("<failure message=\"it is a text file"));
}

TEST(Conformance, ListsTestsWithoutAPlugin) {
  const Outcome listed = run({"--list", "--filter", "copy.*"});
  EXPECT_EQ(listed.code, 0);
  EXPECT_THAT(listed.out, HasSubstr("copy.round-trip"));
  EXPECT_THAT(listed.out, Not(HasSubstr("buffer.")));
}

TEST(Conformance, ExcludedTestsAreLeftOut) {
  const Outcome listed =
      run({"--list", "--filter", "copy.*", "--exclude", "copy.l*", "--exclude", "copy.round-trip"});
  EXPECT_EQ(listed.code, 0);
  EXPECT_THAT(listed.out, HasSubstr("copy.border-sizes"));
  EXPECT_THAT(listed.out, Not(HasSubstr("copy.large")));
  EXPECT_THAT(listed.out, Not(HasSubstr("copy.round-trip")));
  EXPECT_THAT(run({"--list", "--exclude", "stream.*"}).out, HasSubstr("copy.large"));
  EXPECT_THAT(run({kGood, "--exclude", "nothing.at-all"}).err,
              HasSubstr("no test matches --exclude 'nothing.at-all'; --list prints all tests"));
  const Outcome none = run({kGood, "--filter", "copy.*", "--exclude", "c*"});
  EXPECT_EQ(none.code, 2);
  EXPECT_THAT(none.err, HasSubstr("--exclude leaves out every test"));
}

TEST(Conformance, PassesACorrectPluginAndListsWhatIsUnsupported) {
  const Outcome outcome = run({kMutant, "--filter", "load.*", "--filter", "copy.*", "--filter",
                               "buffer.memory-limit", "--seed", "5"});
  EXPECT_EQ(outcome.code, 0) << outcome.out;
  EXPECT_THAT(outcome.out, HasSubstr("seed 5"));
  EXPECT_THAT(outcome.out, HasSubstr("unsupported: the device has no memory limit"));
}

TEST(Conformance, PluginOptionsReachEveryProcessOfATest) {
  const Outcome three = run({kGood, "--plugin-option", "devices=3", "--filter", "device.[du]*"});
  EXPECT_EQ(three.code, 0) << three.out;
  const Outcome none = run({kGood, "--plugin-option", "devices=0", "--filter", "[ds]*"});
  EXPECT_EQ(none.code, 0) << none.out;
  EXPECT_THAT(none.out, HasSubstr("unsupported: the plugin has no devices: the plugin option devices is 0"));
}

TEST(Conformance, DeviceThatThePluginLacksIsWrongUsage) {
  const Outcome one = run({kGood, "--device", "7", "--filter", "copy.round-trip"});
  EXPECT_EQ(one.code, 2) << one.out;
  EXPECT_THAT(one.err, HasSubstr("--device 7 is out of range: the plugin has 1 device; leave out --device"));
  const Outcome three =
      run({kGood, "--plugin-option", "devices=3", "--device", "3", "--filter", "copy.round-trip"});
  EXPECT_EQ(three.code, 2) << three.out;
  EXPECT_THAT(three.err, HasSubstr("the plugin has 3 devices, numbered from 0"));
  const Outcome last =
      run({kGood, "--plugin-option", "devices=3", "--device", "2", "--filter", "copy.round-trip"});
  EXPECT_EQ(last.code, 0) << last.out;
}

TEST(Conformance, PluginOptionGivenToTheDeviceIsExplained) {
  const Outcome outcome = run({kGood, "--option", "devices=3", "--filter", "copy.round-trip"});
  EXPECT_EQ(outcome.code, 2) << outcome.out;
  EXPECT_THAT(outcome.err,
              HasSubstr("'devices' is an option of the whole plugin; set it with --plugin-option"));
}

TEST(Conformance, OptionThatThePluginRefusesIsWrongUsageWithItsText) {
  const auto err_of = [](const std::string& word, const std::string& option) {
    const Outcome outcome = run({kGood, word, option, "--filter", "copy.*"});
    EXPECT_EQ(outcome.code, 2) << outcome.out;
    EXPECT_EQ(outcome.out, "");
    EXPECT_EQ(line_count(outcome.err), 1U) << outcome.err;
    return outcome.err;
  };
  EXPECT_THAT(err_of("--option", "slab=x"),
              HasSubstr("--option slab=x: unknown option 'slab'; known options: memory_limit"));
  EXPECT_THAT(err_of("--plugin-option", "devices=x"), HasSubstr("--plugin-option devices=x: "));
  EXPECT_THAT(err_of("--plugin-option", "device=1"),
              HasSubstr("unknown option 'device'; known options: devices"));
}

TEST(Conformance, WrongCopyIsNamed) {
  const Bug bug("copy_loses_last_byte");
  EXPECT_THAT(run({kMutant, "--filter", "copy.border-sizes"}).out,
              HasSubstr(" wrote wrong bytes, in or beside its range, or to_host reads them wrongly"));
}

TEST(Conformance, PrintsTheCommandThatRepeatsAFailure) {
  const Outcome outcome = lossy_round_trip({"--seed", "77", "--timeout", "90.5"});
  EXPECT_EQ(outcome.code, 1);
  EXPECT_THAT(outcome.out, HasSubstr("FAILED copy.round-trip"));
  EXPECT_THAT(outcome.out, HasSubstr("--seed 77 --timeout 90.5 --filter copy.round-trip"));
}

TEST(Conformance, FailFastStopsAfterTheFirstFailure) {
  const Bug bug("copy_loses_last_byte");
  const Outcome outcome = run({kMutant, "--filter", "copy.*", "--fail-fast", "--jobs", "1", "--json"});
  EXPECT_EQ(outcome.code, 1);
  const auto counts = nlohmann::json::parse(outcome.out)["plugins"][0]["counts"];
  EXPECT_EQ(counts["failed"], 1);
  EXPECT_GT(counts["not run"], 5);
}

// Whether a process exists whose command line names this file.
bool has_process_of(const fs::path& file) {
  const std::string path = fs::canonical(file);
  for (const fs::directory_entry& process : fs::directory_iterator("/proc")) {
    if (read_whole(process.path() / "cmdline").find(path) != std::string::npos) {
      return true;
    }
  }
  return false;
}

TEST(Conformance, KillsTheChildrenOfATestThatHangs) {
  const Folder folder;
  const fs::path copy = folder / "libyoke_backend_mutant.so";  // its path is unique among all processes
  fs::copy_file(kMutant, copy);
  const Bug bug("from_host_starts_processes");
  EXPECT_EQ(run({copy, "--filter", "copy.round-trip", "--timeout", "8"}).code, 1);
  const auto begin = std::chrono::steady_clock::now();
  while (has_process_of(copy) && std::chrono::steady_clock::now() - begin < std::chrono::seconds(60)) {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  EXPECT_FALSE(has_process_of(copy));
}

TEST(Conformance, AppliesTheListOfExpectedFailures) {
  const Folder folder;
  write_file(folder / "list", "copy.round-trip = \"loses a byte on purpose\"\n");
  const Outcome expected = lossy_round_trip({"--expect", folder / "list"});
  EXPECT_EQ(expected.code, 0) << expected.out;
  EXPECT_THAT(expected.out, HasSubstr("expected failure: loses a byte on purpose"));
  const auto run_good = [&] {
    return run({kGood, "--filter", "copy.round-trip", "--expect", folder / "list"});
  };
  const Outcome unexpected = run_good();
  EXPECT_EQ(unexpected.code, 1);
  EXPECT_THAT(unexpected.out, HasSubstr("remove the line"));
  write_file(folder / "list", "copy.no-such-test = \"typo\"\n");
  const Outcome unknown = run_good();
  EXPECT_EQ(unknown.code, 1);
  EXPECT_THAT(unknown.out, HasSubstr("no such test exists"));
}

TEST(Conformance, TheSameSeedRepeatsARandomFailure) {
  const auto failure = [](const std::string& seed) {
    const Bug bug("copy_loses_last_byte");
    const Outcome outcome = run({kMutant, "--filter", "copy.random-ranges", "--seed", seed, "--json"});
    return nlohmann::json::parse(outcome.out)["plugins"][0]["tests"][0]["text"].get<std::string>();
  };
  EXPECT_EQ(failure("3"), failure("3"));
}

TEST(Conformance, PrintsOneJsonObjectAndNothingElse) {
  const Outcome outcome = lossy_round_trip({"--json"});
  EXPECT_EQ(outcome.code, 1);
  EXPECT_EQ(line_count(outcome.out), 1U);
  const auto test = nlohmann::json::parse(outcome.out)["plugins"][0]["tests"][0];
  EXPECT_EQ(test["name"], "copy.round-trip");
  EXPECT_EQ(test["group"], "copy");
  EXPECT_EQ(test["verdict"], "failed");
  EXPECT_THAT(outcome.err, HasSubstr("FAILED copy.round-trip"));
}

TEST(Conformance, WritesWellFormedJunit) {
  const Folder folder;
  const fs::path file = folder / "report.xml";
  EXPECT_EQ(lossy_round_trip({"--filter", "buffer.memory-limit", "--junit", file}).code, 1);
  const std::string text = read_whole(file);
  std::vector<std::string> open;
  for (std::size_t at = text.find('<'); at != std::string::npos; at = text.find('<', at + 1)) {
    const std::string tag = text.substr(at + 1, text.find('>', at) - at - 1);
    const std::string name = tag.substr(0, tag.find_first_of(" /", 1));
    if (tag[0] == '/') {
      ASSERT_FALSE(open.empty());
      EXPECT_EQ("/" + open.back(), tag);
      open.pop_back();
    } else if (tag[0] != '?' && tag.back() != '/') {
      open.push_back(name);
    }
  }
  EXPECT_TRUE(open.empty());
  EXPECT_THAT(text, HasSubstr("<failure message="));
  EXPECT_THAT(text, HasSubstr("<skipped message="));
}

TEST(Conformance, FailsIfARequiredTableIsMissing) {
  EXPECT_EQ(run({kGood, "--filter", "load.required-tables", "--require", "yoke.program/1"}).code, 0);
  const Outcome outcome = run({kGood, "--filter", "load.required-tables", "--require", "yoke.nothing/1"});
  EXPECT_EQ(outcome.code, 1);
  EXPECT_THAT(outcome.out,
              HasSubstr("the plugin does not have the table yoke.nothing/1, which --require names"));
  EXPECT_EQ(run({kGood, "--filter", "args.*", "--require", "yoke.nothing/1"}).code, 1);
}

TEST(Conformance, YokeCheckPluginRunsTheKit) {
  EXPECT_EQ(Command({"check-plugin"}, {}, false, CONFORMANCE_YOKE).wait().code, 2);
  const Bug bug("copy_loses_last_byte");
  const Outcome outcome =
      Command({"check-plugin", kGood, kMutant, "--filter", "copy.round-trip"}, {}, false, CONFORMANCE_YOKE)
          .wait();
  EXPECT_EQ(outcome.code, 1);
  EXPECT_THAT(outcome.out, HasSubstr("PASSED " + fs::canonical(kGood).string()));
  EXPECT_THAT(outcome.out, HasSubstr("FAILED " + fs::canonical(kMutant).string()));
}

}  // namespace
