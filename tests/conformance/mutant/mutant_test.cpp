// SPDX-License-Identifier: Apache-2.0
// tests/conformance/mutant/mutant_test.cpp: the kit passes the mutant, and finds each bug that is switched
// on.
#include <fcntl.h>
#include <fnmatch.h>
#include <gtest/gtest.h>
#include <spawn.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <boost/property_tree/json_parser.hpp>
#include <boost/property_tree/ptree.hpp>
#include <fstream>
#include <iterator>
#include <ostream>
#include <regex>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "bugs.h"

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
  int code = -1;  // 128 + signal where one ended it
  std::string words;
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
  return text.empty() ? "  none\n" : text;
}

// The environment of this process, with one bug switched on, or none.
std::vector<std::string> environment_with(std::string_view bug) {
  std::vector<std::string> all;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    if (std::string_view(*entry).substr(0, 16) != "YOKE_MUTANT_BUG=") {
      all.emplace_back(*entry);
    }
  }
  all.push_back("YOKE_MUTANT_BUG=" + std::string(bug));
  return all;
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

void read_report(KitRun& run, const std::string& json) {
  std::istringstream stream(json);
  boost::property_tree::ptree tree;
  try {
    boost::property_tree::read_json(stream, tree);
    for (const auto& plugin : tree.get_child("plugins")) {
      for (const auto& [key, test] : plugin.second.get_child("tests")) {
        run.tests.push_back(
            {test.get<std::string>("name"), test.get<std::string>("verdict"), test.get<std::string>("text")});
      }
    }
  } catch (const boost::property_tree::ptree_error& error) {
    ADD_FAILURE() << "the kit's report cannot be read: " << error.what() << "\n" << json;
  }
}

// Runs the kit over the mutant with a bug on. The seed is fixed, so that what is found once is always found.
KitRun run_kit(std::string_view bug, std::vector<std::string> words) {
  const bool is_second = bug == "second_symbol_is_exported";
  std::vector<std::string> arguments = {YOKE_MUTANT_KIT,
                                        is_second ? YOKE_MUTANT_SECOND_SYMBOL_PLUGIN : YOKE_MUTANT_PLUGIN,
                                        "--json",
                                        "--seed",
                                        "7",
                                        "--timeout",
                                        "120"};
  arguments.insert(arguments.end(), words.begin(), words.end());
  KitRun run;
  for (const std::string& word : arguments) {
    run.words += word + " ";
  }
  std::vector<std::string> variables = environment_with(bug);
  const int out = ::memfd_create("out", MFD_CLOEXEC);
  posix_spawn_file_actions_t actions;
  ::posix_spawn_file_actions_init(&actions);
  ::posix_spawn_file_actions_adddup2(&actions, out, STDOUT_FILENO);
  pid_t process = -1;
  const int failed = ::posix_spawn(&process, YOKE_MUTANT_KIT, &actions, nullptr,
                                   pointers_to(arguments).data(), pointers_to(variables).data());
  ::posix_spawn_file_actions_destroy(&actions);
  if (failed == 0) {
    int status = 0;
    ::waitpid(process, &status, 0);
    run.code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    read_report(run, read_from_start(out));
  }
  ::close(out);
  return run;
}

TEST(Mutant, WithoutABugPassesTheWholeKit) {
  const KitRun run = run_kit("", {"--jobs", "2", "--programs", "400", "--option", "memory_limit=4000000000"});

  EXPECT_EQ(run.code, 0) << run.words << "\nfailed:\n" << list_of(run.with("failed"));
  EXPECT_TRUE(run.with("unsupported").empty()) << "it claims every tier, and yet these were not asked:\n"
                                               << list_of(run.with("unsupported"));
  std::set<std::string> groups;
  for (const KitTest& test : run.tests) {
    groups.insert(test.name.substr(0, test.name.find('.')));
  }
  EXPECT_EQ(groups.size(), 12U)
      << "load device buffer copy stream event program routine fault thread lifetime train";
}

TEST(Mutant, RefusesTheNameOfABugThatItDoesNotHave) {
  const KitRun run = run_kit("no_such_bug", {"--filter", "load.enters"});

  EXPECT_EQ(run.code, 1);
  EXPECT_NE(list_of(run.with("failed")).find("bugs.h"), std::string::npos) << list_of(run.tests);
}

TEST(Mutant, HasOneNameForEachBug) {
  std::set<std::string_view> names;
  for (const Bug& bug : kBugs) {
    EXPECT_TRUE(names.insert(bug.name).second) << bug.name << " is in the table twice";
  }
  EXPECT_GE(names.size(), 40U);
}

// "| name | what goes wrong | found by |", in the order of the table.
TEST(Mutant, ReadmeHasTheTableOfBugs) {
  std::ifstream file(YOKE_TEST_SOURCE_DIR "/tests/conformance/mutant/README.md");
  const std::string readme{std::istreambuf_iterator<char>(file), {}};
  std::string table;
  for (const Bug& bug : kBugs) {
    table += "| `" + std::string(bug.name) + "` | " + std::string(bug.does) + " | `" +
             std::string(bug.found_by) + "` |\n";
  }

  EXPECT_NE(readme.find(table), std::string::npos) << "README.md should hold these rows:\n" << table;
}

class PlantedBug : public testing::TestWithParam<Bug> {};

TEST_P(PlantedBug, IsFound) {
  const Bug& bug = GetParam();
  const std::string found_by(bug.found_by);

  const KitRun run = run_kit(bug.name, {"--filter", found_by, "--programs", "400"});

  EXPECT_EQ(run.code, 1) << "YOKE_MUTANT_BUG=" << bug.name << " " << run.words;
  const std::regex says(std::string(bug.says), std::regex::icase);
  bool is_found = false;
  for (const KitTest& test : run.with("failed")) {
    is_found = is_found ||
               (::fnmatch(found_by.c_str(), test.name.c_str(), 0) == 0 && std::regex_search(test.text, says));
  }
  EXPECT_TRUE(is_found) << "no failure of " << found_by << " says '" << bug.says << "'; failed:\n"
                        << list_of(run.with("failed"));
}

INSTANTIATE_TEST_SUITE_P(Mutant, PlantedBug, testing::ValuesIn(kBugs),
                         [](const testing::TestParamInfo<Bug>& row) { return std::string(row.param.name); });

}  // namespace
}  // namespace yoke::mutant
