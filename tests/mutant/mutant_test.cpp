// SPDX-License-Identifier: Apache-2.0
// tests/mutant/mutant_test.cpp: the kit passes the mutant, and finds each bug that is switched on.
#include <fcntl.h>
#include <fnmatch.h>
#include <gtest/gtest.h>
#include <spawn.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cctype>
#include <map>
#include <nlohmann/json.hpp>
#include <ostream>
#include <regex>
#include <set>
#include <string>
#include <vector>

#include "bugs.h"
#ifdef YOKE_MUTANT_HANDMADE
#include "handmade/found.h"
#endif

namespace yoke::mutant {

void PrintTo(const Bug& bug, std::ostream* out) {
  *out << bug.name;
}

namespace {

struct KitTest {
  std::string name;
  std::string verdict;
  std::string text;
};

struct KitRun {
  int code = -1;  // 128 + the number of the signal that killed the kit
  std::string command;
  std::vector<KitTest> tests;

  std::vector<KitTest> with(const std::string& verdict) const {
    std::vector<KitTest> found;
    for (const KitTest& test : tests) {
      if (test.verdict == verdict) {
        found.push_back(test);
      }
    }
    return found;
  }
};

std::string list_of(const std::vector<KitTest>& tests) {
  std::string text;
  for (const KitTest& test : tests) {
    text += "  " + test.name + ": " + test.text + "\n";
  }
  return text.empty() ? "  (no test)\n" : text;
}

std::vector<char*> pointers_to(std::vector<std::string>& texts) {
  std::vector<char*> pointers;
  for (std::string& text : texts) {
    pointers.push_back(text.data());
  }
  pointers.push_back(nullptr);
  return pointers;
}

std::string read_from_start(int file) {
  std::string text(static_cast<std::size_t>(::lseek(file, 0, SEEK_END)), '\0');
  const ssize_t count = ::pread(file, text.data(), text.size(), 0);
  text.resize(count > 0 ? static_cast<std::size_t>(count) : 0);
  return text;
}

std::vector<KitTest> parse_report(const std::string& text) {
  std::vector<KitTest> tests;
  const auto json = nlohmann::json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (json.is_discarded()) {
    ADD_FAILURE() << "the kit's report is not JSON:\n" << text;
    return tests;
  }
  for (const auto& test : json["plugins"][0]["tests"]) {
    tests.push_back({test["name"], test["verdict"], test["text"]});
  }
  return tests;
}

// Runs the kit with these arguments and a bug, which `variable` names. The seed is fixed, so every run has the same
// result.
KitRun run_kit_on(const std::string& plugin, const std::string& variable, std::string_view bug,
                  const std::vector<std::string>& options, double timeout_s) {
  std::vector<std::string> words = {YOKE_MUTANT_KIT,          plugin, "--json", "--seed", "7", "--timeout",
                                    std::to_string(timeout_s)};
  words.insert(words.end(), options.begin(), options.end());
  KitRun run;
  run.command = variable + "=" + std::string(bug);
  for (const std::string& word : words) {
    run.command += " " + word;
  }
  ::setenv(variable.c_str(), std::string(bug).c_str(), 1);
  const int out = ::memfd_create("out", MFD_CLOEXEC);
  posix_spawn_file_actions_t actions;
  ::posix_spawn_file_actions_init(&actions);
  ::posix_spawn_file_actions_adddup2(&actions, out, STDOUT_FILENO);
  pid_t process = -1;
  const int failed =
      ::posix_spawn(&process, YOKE_MUTANT_KIT, &actions, nullptr, pointers_to(words).data(), environ);
  ::posix_spawn_file_actions_destroy(&actions);
  if (failed == 0) {
    int status = 0;
    ::waitpid(process, &status, 0);
    run.code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    run.tests = parse_report(read_from_start(out));
  }
  ::close(out);
  return run;
}

// Runs the kit on the mutant.
KitRun run_kit(std::string_view bug, const std::vector<std::string>& options, double timeout_s = 120) {
  const bool is_second = bug == "second_symbol_is_exported";
  return run_kit_on(is_second ? YOKE_MUTANT_SECOND_SYMBOL_PLUGIN : YOKE_MUTANT_PLUGIN, "YOKE_MUTANT_BUG", bug,
                    options, timeout_s);
}

// Whether a test that `pattern` names failed with a message that matches.
void expect_found(const KitRun& run, std::string_view pattern, std::string_view message) {
  const std::string found_by(pattern);
  EXPECT_EQ(run.code, 1) << run.command;
  const std::regex says(std::string(message), std::regex::icase);
  bool is_found = false;
  for (const KitTest& test : run.with("failed")) {
    is_found = is_found ||
               (::fnmatch(found_by.c_str(), test.name.c_str(), 0) == 0 && std::regex_search(test.text, says));
  }
  EXPECT_TRUE(is_found) << "no failure of " << found_by << " matches '" << message << "'; all tests:\n"
                        << list_of(run.tests);
}

TEST(Mutant, PassesTheKitWithoutABug) {
  const KitRun run = run_kit("", {"--jobs", "2", "--programs", "120", "--option", "memory_limit=4000000000",
                                  "--require", "yoke.profile/1"});

  EXPECT_EQ(run.code, 0) << run.command << "\nfailed:\n" << list_of(run.with("failed"));
  auto unsupported = run.with("unsupported");
  std::erase_if(unsupported, [](const auto& test) {  // they need more than the limit of memory
    return test.name.ends_with(".beyond-32-bits");
  });
  EXPECT_TRUE(unsupported.empty()) << "the mutant claims every tier, but the kit reports as unsupported:\n"
                                   << list_of(unsupported);
  std::set<std::string> groups;
  for (const KitTest& test : run.tests) {
    groups.insert(test.name.substr(0, test.name.find('.')));
  }
  EXPECT_EQ(groups.size(), 17U)
      << "load args device buffer copy memory stream event program contraction routine fault "
         "profile collectives thread lifetime train";
}

TEST(Mutant, PassesTheKitWithPluginOptions) {
  const KitRun run =
      run_kit("", {"--plugin-option", "devices=3", "--filter", "device.*", "--filter", "load.*"});

  EXPECT_EQ(run.code, 0) << run.command << "\nfailed:\n" << list_of(run.with("failed"));
}

TEST(Mutant, PassesTheKitWhenWorkStartsOnDemand) {
  const KitRun run = run_kit("", {"--option", "start=demanded", "--filter", "stream.calls-during-work",
                                  "--filter", "stream.in-order", "--filter", "event.completion"});

  EXPECT_EQ(run.code, 0) << run.command << "\nfailed:\n" << list_of(run.with("failed"));
}

constexpr std::string_view kElementwise = "statements=elementwise";

TEST(Mutant, TestsOfRoutinesNeedOnlyElementwiseStatements) {
  const KitRun run = run_kit("", {"--option", std::string(kElementwise), "--filter", "routine.*"});

  EXPECT_EQ(run.code, 0) << run.command << "\nfailed:\n" << list_of(run.with("failed"));
  std::set<std::string> passed;
  for (const KitTest& test : run.with("passed")) {
    passed.insert(test.name);
  }
  for (const std::string name :
       {"many-links", "repeated-launch", "streams", "outlives-code", "adjacent-ranges", "peer-buffers",
        "invalid-bindings", "overlaps", "shared-inputs", "alignments", "symbol-values", "failed-launch"}) {
    EXPECT_EQ(passed.count("routine." + name), 1U) << name;
  }
}

TEST(Mutant, BugsAreFoundWithElementwiseStatementsOnly) {
  for (const Bug& bug : kBugs) {
    for (const std::string_view name :
         {"additions_overwrite", "link_takes_overlaps", "link_takes_small_buffers",
          "routine_forgets_binding_offset", "stated_alignment_is_not_checked", "symbol_range_is_not_checked",
          "code_destroy_breaks_routines"}) {
      if (bug.name == name) {
        const KitRun run = run_kit(name, {"--option", std::string(kElementwise), "--filter",
                                          std::string(bug.found_by), "--programs", "100"});
        EXPECT_EQ(run.code, 1) << run.command << "\n" << list_of(run.tests);
      }
    }
  }
}

TEST(Mutant, RejectsAnUnknownBug) {
  const KitRun run = run_kit("no_such_bug", {"--filter", "load.enters"});

  EXPECT_EQ(run.code, 1);
  EXPECT_NE(list_of(run.with("failed")).find("bugs.h"), std::string::npos) << list_of(run.tests);
}

TEST(Mutant, BugNamesAreUnique) {
  std::set<std::string_view> names;
  for (const Bug& bug : kBugs) {
    EXPECT_TRUE(names.insert(bug.name).second) << bug.name << " is in the table twice";
  }
  EXPECT_GE(names.size(), 140U);
}

class PlantedBug : public testing::TestWithParam<Bug> {};

TEST_P(PlantedBug, IsFound) {
  const Bug& bug = GetParam();
  const std::string found_by(bug.found_by);

  const KitRun run = run_kit(
      bug.name, {"--filter", found_by, "--programs", "400", "--fail-fast", "--jobs", "1"}, bug.timeout_s);

  expect_found(run, bug.found_by, bug.says);
}

INSTANTIATE_TEST_SUITE_P(Mutant, PlantedBug, testing::ValuesIn(kBugs),
                         [](const testing::TestParamInfo<Bug>& row) { return std::string(row.param.name); });

#ifdef YOKE_MUTANT_HANDMADE
// Bugs that were chosen without reading the kit, for tests that find no bug of the mutant.
class HandmadeBug : public testing::TestWithParam<handmade::FoundBug> {};

KitRun run_kit_on_handmade(std::string_view backend, std::string_view bug,
                           const std::vector<std::string>& options, int programs = 60) {
  const std::string file = YOKE_MUTANT_HANDMADE "/libyoke_backend_" + std::string(backend) + ".so";
  std::vector<std::string> words = {"--programs", std::to_string(programs)};
  words.insert(words.end(), options.begin(), options.end());
  return run_kit_on(file, "YOKE_HANDMADE_BUG", bug, words, 120);
}

TEST_P(HandmadeBug, IsFound) {
  const handmade::FoundBug& bug = GetParam();

  const KitRun run =
      run_kit_on_handmade(bug.backend, bug.name, {"--filter", std::string(bug.found_by)}, bug.programs);

  expect_found(run, bug.found_by, bug.says);
}

INSTANTIATE_TEST_SUITE_P(Mutant, HandmadeBug, testing::ValuesIn(handmade::kFoundBugs),
                         [](const testing::TestParamInfo<handmade::FoundBug>& row) {
                           std::string name(row.param.name);
                           for (const char c : std::string(row.param.found_by)) {
                             name += std::isalnum(static_cast<unsigned char>(c)) != 0 ? c : '_';
                           }
                           return name;
                         });

// The tests fail because of the bugs: without one they pass.
TEST(Handmade, PassesTheseTestsWithoutABug) {
  std::map<std::string_view, std::vector<std::string>> filters;
  for (const handmade::FoundBug& bug : handmade::kFoundBugs) {
    filters[bug.backend].insert(filters[bug.backend].end(), {"--filter", std::string(bug.found_by)});
  }
  for (const auto& [backend, options] : filters) {
    const KitRun run = run_kit_on_handmade(backend, "", options);
    EXPECT_EQ(run.code, 0) << run.command << "\n" << list_of(run.with("failed"));
    EXPECT_TRUE(run.with("unsupported").empty()) << list_of(run.with("unsupported"));
  }
}
#endif

}  // namespace
}  // namespace yoke::mutant
