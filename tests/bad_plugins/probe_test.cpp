// SPDX-License-Identifier: Apache-2.0
// tests/bad_plugins/probe_test.cpp: plugins that take a process down or change what is not theirs: the probe
// dies of them, the application goes on; and what is remembered of it.
#include <sys/stat.h>
#include <sys/wait.h>

#include <algorithm>
#include <fstream>
#include <string>

#include "bad_plugin_test.h"

namespace yoke::test {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::Not;

struct Case {
  const char* name;
  const char* sentence;
  const char* stage;
};

void PrintTo(const Case& bad, std::ostream* out) {
  *out << bad.name;
}

class BadBehaviour : public BadPluginTest, public ::testing::WithParamInterface<Case> {};

TEST_P(BadBehaviour, EndsInTheProbe) {
  const Case& bad = GetParam();
#if defined(__SANITIZE_ADDRESS__)
  if (std::string_view(bad.name) == "throw_in_constructor") {
    GTEST_SKIP() << "the address sanitizer's dlopen makes a linker's refusal of it";
  }
#endif
  const auto outcome = ask(with_probe(), bad.name);
  EXPECT_THAT(outcome.sentence, HasSubstr(bad.sentence));
  EXPECT_THAT(outcome.sentence, HasSubstr("report it to the plugin's author"));
  EXPECT_EQ(outcome.report.stage, bad.stage);
  EXPECT_EQ(outcome.report.probed, "yes");
  EXPECT_FALSE(is_mapped(file(bad.name).string()));
  int status = 0;
  EXPECT_EQ(::waitpid(-1, &status, WNOHANG), -1) << "no process is left";
}

// What its author gets away with where embedders turn the probe off; the others would take this test down.
class BadHabit : public BadPluginTest, public ::testing::WithParamInterface<const char*> {};

TEST_P(BadHabit, IsNotStoppedWithoutAProbe) {
  const auto outcome = ask(without_probe(), GetParam());
  EXPECT_EQ(outcome.sentence, "");
  EXPECT_EQ(outcome.report.probed, "no: probing is turned off");
}
INSTANTIATE_TEST_SUITE_P(Every, BadHabit,
                         ::testing::Values("throw_in_destroy", "prints", "float_mode", "locale",
                                           "working_directory", "environment", "signal_handler"),
                         [](const auto& given) { return std::string(given.param); });

constexpr Case kCases[] = {
    {"throw_in_constructor", "one of its constructors threw an exception: no license\\x0a", "checked"},
    {"crash_in_constructor", "one of its constructors crashed: signal 11 (Segmentation fault)", "checked"},
    {"exit_in_constructor", "one of its constructors ended the process with exit code 3", "checked"},
    {"fork_in_constructor", "one of its constructors changed the number of processes (it started one)",
     "checked"},
    {"crash_in_entry", "its entry crashed: signal 11 (Segmentation fault)", "entered"},
    {"crash_in_get_table", "its get_table crashed: signal 11 (Segmentation fault)", "entered"},
    {"crash_in_destroy", "its destroy crashed: signal 11 (Segmentation fault)", "entered"},
    {"throw_in_destroy", "its destroy threw an exception: still busy", "entered"},
    {"prints", "it printed 25 bytes ('hello from a plugin\\x1b[31m\\x0a')", "entered"},
    {"prints_into_a_buffer", "it printed 5 bytes ('hello')", "entered"},
    {"float_mode", "one of its constructors changed the floating-point mode", "checked"},
    {"locale", "one of its constructors changed the locale (from 'C' to 'C.UTF-8')", "checked"},
    {"working_directory", "one of its constructors changed the working directory (from ", "checked"},
    {"environment", "one of its constructors changed the environment (YOKE_BAD_PLUGIN)", "checked"},
    {"signal_handler", "one of its constructors changed the handler of SIGUSR1", "checked"},
    {"thread", "one of its constructors changed the number of threads (from ", "checked"},
};
INSTANTIATE_TEST_SUITE_P(Every, BadBehaviour, ::testing::ValuesIn(kCases),
                         [](const auto& given) { return std::string(given.param.name); });

class ProbeTest : public BadPluginTest {
 protected:
  std::vector<std::string> remembered() const {
    std::vector<std::string> names;
    if (std::filesystem::exists(root_ / "cache")) {
      for (const auto& entry : std::filesystem::directory_iterator(root_ / "cache")) {
        names.push_back(entry.path().filename());
      }
    }
    return names;
  }
  // How often the recording plugin was loaded since the last call.
  std::size_t loads() {
    const auto count = read(root_ / "loaded").size() / 4;
    std::filesystem::remove(root_ / "loaded");
    return count;
  }
  std::string probed(const RuntimeOptions& given) {
    Runtime runtime(given);
    return ask(runtime, "good").report.probed;
  }
};

class BadHang : public ProbeTest, public ::testing::WithParamInterface<const char*> {};

// A machine that is too busy to bring the probe to the plugin in time gets longer; `required` keeps the
// plugin out meanwhile.
TEST_P(BadHang, IsEndedByTheDeadlineAndNotHeldAgainstTheFileForever) {
  const std::string name = GetParam();
  const std::string who = name == "hang_in_entry" ? "its entry" : "one of its constructors";
  auto given = with_probe();
  place(name);
  Outcome outcome;
  std::string sentence;
  for (int timeout_ms = 2500; timeout_ms <= 40000; timeout_ms *= 2) {
    given.probe.timeout = std::chrono::milliseconds(timeout_ms);
    Runtime runtime(given);
    outcome = ask(runtime, name);
    sentence = who + " did not return within " + std::to_string(timeout_ms) + " ms";
    if (outcome.sentence.find(sentence) != std::string::npos) {
      break;
    }
  }
  EXPECT_THAT(outcome.sentence, HasSubstr(sentence));
  EXPECT_EQ(outcome.report.stage, name == "hang_in_entry" ? "entered" : "checked");
  EXPECT_TRUE(remembered().empty()) << "perhaps the machine was busy";
  use_a_good_one_of(with_probe());
}
INSTANTIATE_TEST_SUITE_P(Every, BadHang, ::testing::Values("hang_in_constructor", "hang_in_entry"),
                         [](const auto& given) { return std::string(given.param); });

TEST_F(ProbeTest, WhatAConstructorForkedIsKilledToo) {
  const Variable record("YOKE_TEST_FORKED", (root_ / "forked").string());
  EXPECT_NE(ask(with_probe(), "fork_in_constructor").sentence, "");
  const std::string process = read(root_ / "forked");
  ASSERT_NE(process, "");
  // Killed, but perhaps not yet reaped by whoever inherited it.
  const auto alive = [&] {
    const auto status = read("/proc/" + process + "/stat");
    return !status.empty() && status.find(") Z ") == std::string::npos &&
           status.find(") X ") == std::string::npos;
  };
  for (int i = 0; i < 3000 && alive(); ++i) {
    ::usleep(10'000);
  }
  EXPECT_FALSE(alive());
}

TEST_F(ProbeTest, AVerdictIsRememberedUntilTheFileChanges) {
  const Variable record("YOKE_TEST_LOADED", (root_ / "loaded").string());
  place("good");
  EXPECT_EQ(probed(with_probe()), "yes");
  EXPECT_EQ(loads(), 2U);
  EXPECT_EQ(probed(with_probe()), "cached");
  EXPECT_EQ(loads(), 0U) << "it is mapped already, and was not probed";
  EXPECT_EQ(remembered().size(), 1U);
  std::filesystem::last_write_time(file("good"), std::filesystem::file_time_type::clock::now());
  EXPECT_EQ(probed(with_probe()), "yes");
  EXPECT_EQ(loads(), 1U);
  EXPECT_EQ(remembered().size(), 1U) << "the new verdict took the place of the old one";
}

TEST_F(ProbeTest, ARefusalIsRememberedAndSaysHowToAskAgain) {
  place("exit_in_constructor");
  {
    Runtime runtime(with_probe());
    ask(runtime, "exit_in_constructor");
    EXPECT_EQ(ask(runtime, "exit_in_constructor").report.probed, "cached") << "in memory";
  }
  Runtime runtime(with_probe());
  const auto listed = of(runtime, "exit_in_constructor").at(0);
  EXPECT_FALSE(listed.usable) << "a listing knows it too";
  EXPECT_EQ(listed.probed, "cached");
  EXPECT_THAT(ask(runtime, "exit_in_constructor").sentence,
              AllOf(HasSubstr("ended the process with exit code 3"),
                    HasSubstr("to have it probed again, remove " + (root_ / "cache").string())));
}

TEST_F(ProbeTest, ARefusalThatDependsOnTheSystemIsNotRemembered) {
  place("missing_dependency");
  Runtime runtime(with_probe());
  EXPECT_EQ(ask(runtime, "missing_dependency").report.probed, "yes");
  EXPECT_EQ(ask(runtime, "missing_dependency").report.probed, "yes");
  EXPECT_TRUE(remembered().empty());
}

TEST_F(ProbeTest, ADamagedOrForeignVerdictIsNotBelieved) {
  place("good");
  EXPECT_EQ(probed(with_probe()), "yes");
  const auto kept = root_ / "cache" / remembered().at(0);
  const auto whole = read(kept);
  write(kept, whole.substr(0, whole.size() - 2));
  EXPECT_EQ(probed(with_probe()), "yes");
  write(kept, whole);
  EXPECT_EQ(probed(with_probe()), "cached");
  ::chmod(kept.c_str(), 0622);
  EXPECT_EQ(probed(with_probe()), "yes") << "somebody else may have written it";
  std::filesystem::remove(kept);
  std::filesystem::create_symlink("/dev/zero", kept);
  EXPECT_EQ(probed(with_probe()), "yes");
}

TEST_F(ProbeTest, OldVerdictsAreRemovedAndNothingElse) {
  const auto cache = root_ / "cache";
  std::filesystem::create_directory(cache);
  for (int i = 0; i < 300; ++i) {
    write(cache / ("letter-" + std::to_string(i)), "mine");
  }
  place("older_minor");
  place("newer_minor");
  Runtime runtime(with_probe());
  EXPECT_EQ(ask(runtime, "older_minor").report.probed, "yes");
  EXPECT_EQ(remembered().size(), 301U) << "300 letters and a verdict";
  for (int i = 0; i < 300; ++i) {
    write(cache / ("fd00-" + std::to_string(i)), "of a file that is gone");
  }
  EXPECT_EQ(ask(runtime, "newer_minor").report.probed, "yes");
  EXPECT_EQ(remembered().size(), 302U);
  EXPECT_TRUE(std::filesystem::exists(cache / "letter-299"));
}

TEST_F(ProbeTest, WithoutItsProgramAPluginIsRefusedOrReportedAsNotProbed) {
  place("good");
  auto given = with_probe();
  given.probe.program = root_ / "absent";
  Runtime required(given);
  EXPECT_THAT(ask(required, "good").sentence,
              AllOf(HasSubstr("it could not be probed: " + (root_ / "absent").string() + " is not there"),
                    HasSubstr("ProbeOptions::program")));
  given.probe.required = false;
  EXPECT_EQ(probed(given), "no: " + (root_ / "absent").string() + " is not there");
  given.probe.program = "/bin/true";
  EXPECT_THAT(probed(given), HasSubstr("no: /"));
  EXPECT_THAT(probed(given), HasSubstr("ended the process with exit code 0 before it answered"));
}

TEST_F(ProbeTest, TheInstallFolderIsTrustedUnlessAllAreProbed) {
  if (!std::filesystem::exists(std::filesystem::path(YOKE_TEST_PLUGIN_DIR) / "libyoke_backend_cc.so")) {
    GTEST_SKIP() << "the cc backend was not built";
  }
  auto given = with_probe();
  {
    Runtime runtime(given);
    EXPECT_EQ(ask(runtime, "cc").report.probed, "no: it lies in the install folder");
  }
  given.probe.which = ProbeOptions::Which::kAll;
  Runtime runtime(given);
  const auto outcome = ask(runtime, "cc");
  EXPECT_EQ(outcome.sentence, "");
  EXPECT_EQ(outcome.report.probed, "yes");
}

}  // namespace
}  // namespace yoke::test
