// SPDX-License-Identifier: Apache-2.0
// tests/unit/loader/probe_test.cpp: yoke-probe finds plugins that end or change
// their process, and its verdicts are remembered.
#include <sys/stat.h>
#include <sys/wait.h>

#include <cfenv>
#include <clocale>
#include <csignal>

#include "loader_test.h"
#include "test_paths.h"

namespace yoke::test {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

class ProbeTest : public LoaderTest {
 protected:
  ~ProbeTest() override {  // undo what a plugin changed that was loaded without the probe
    std::fesetround(FE_TONEAREST);
    std::setlocale(LC_ALL, "C");
    std::signal(SIGUSR1, SIG_DFL);
    ::unsetenv("YOKE_TEST_CHANGED");
    std::filesystem::current_path(working_directory_);
  }

  std::vector<std::string> verdicts() const {
    std::vector<std::string> names;
    if (std::filesystem::exists(cache())) {
      for (const auto& entry : std::filesystem::directory_iterator(cache())) {
        names.push_back(entry.path().filename());
      }
    }
    return names;
  }
  Path cache() const { return root_ / "cache"; }
  std::string probed(const RuntimeOptions& given) {
    Runtime runtime(given);
    return load(runtime, "good").report.probed;
  }
  // The number of times that the plugin was loaded since the last call.
  std::size_t loads() {
    const auto text = loaded();
    std::filesystem::remove(root_ / "loaded");
    return static_cast<std::size_t>(std::count(text.begin(), text.end(), '\n'));
  }

 private:
  const Path working_directory_ = std::filesystem::current_path();
};

constexpr Defect kHarms[] = {
    {"throw_in_constructor", "one of its constructors threw an exception: oops\\x1b[2J", "checked"},
    {"crash_in_constructor", "one of its constructors crashed: signal 11 (Segmentation fault)", "checked"},
    {"exit_in_constructor", "one of its constructors ended the process with exit code 3", "checked"},
    {"fork_in_constructor", "one of its constructors changed the number of processes (it started one)",
     "checked"},
    {"crash_in_entry", "its entry crashed: signal 11 (Segmentation fault)", "entered"},
    {"crash_in_get_table", "its get_table crashed: signal 11 (Segmentation fault)", "entered"},
    {"crash_in_device_count", "its device_count crashed: signal 11 (Segmentation fault)", "entered"},
    {"crash_in_destroy", "its destroy crashed: signal 11 (Segmentation fault)", "entered"},
    {"throw_in_destroy", "its destroy threw an exception: oops\\x1b[2J", "entered"},
    {"prints", "it printed 25 bytes ('hello from a plugin\\x1b[31m\\x0a')", "entered"},
    {"prints_into_a_buffer", "it printed 5 bytes ('hello')", "entered"},
    {"float_mode", "one of its constructors changed the floating-point mode", "checked"},
    {"locale", "one of its constructors changed the locale (from 'C' to 'C.UTF-8')", "checked"},
    {"working_directory", "one of its constructors changed the working directory (from ", "checked"},
    {"environment", "one of its constructors changed the environment (YOKE_TEST_CHANGED)", "checked"},
    {"signal_handler", "one of its constructors changed the handler of SIGUSR1", "checked"},
    {"thread", "one of its constructors changed the number of threads (from ", "checked"},
};

class HarmTest : public ProbeTest, public ::testing::WithParamInterface<Defect> {};
INSTANTIATE_TEST_SUITE_P(Harms, HarmTest, ::testing::ValuesIn(kHarms), ::testing::PrintToStringParamName());

TEST_P(HarmTest, IsStoppedByTheProbe) {
  const Defect& harm = GetParam();
#if defined(__SANITIZE_ADDRESS__)
  if (std::string_view(harm.name) == "throw_in_constructor") {
    GTEST_SKIP() << "the address sanitizer's dlopen turns the exception into an error of the linker";
  }
#endif
  const auto outcome = load(with_probe(), harm.name);
  EXPECT_THAT(outcome.error, AllOf(HasSubstr(harm.error), HasSubstr("report it to the plugin's author")));
  EXPECT_EQ(outcome.report.stage, harm.stage);
  EXPECT_EQ(outcome.report.probed, "yes");
  EXPECT_FALSE(is_mapped(file(harm.name)));
  int status = 0;
  EXPECT_EQ(::waitpid(-1, &status, WNOHANG), -1) << "a child process is left";
}

// The other cases would end this test.
class UnprobedTest : public ProbeTest, public ::testing::WithParamInterface<const char*> {};
INSTANTIATE_TEST_SUITE_P(Harms, UnprobedTest,
                         ::testing::Values("throw_in_destroy", "prints", "float_mode", "locale",
                                           "working_directory", "environment", "signal_handler"),
                         [](const auto& given) { return std::string(given.param); });

TEST_P(UnprobedTest, IsLoaded) {
  const auto outcome = load(options(), GetParam());
  EXPECT_EQ(outcome.error, "");
  EXPECT_EQ(outcome.report.probed, "no: probing is turned off");
}

class HangTest : public ProbeTest, public ::testing::WithParamInterface<const char*> {};
INSTANTIATE_TEST_SUITE_P(Hangs, HangTest, ::testing::Values("hang_in_constructor", "hang_in_entry"),
                         [](const auto& given) { return std::string(given.param); });

// On a busy machine the probe may need longer to start the plugin,
// so the timeout increases until it succeeds.
TEST_P(HangTest, EndsAtTheTimeoutAndIsNotRemembered) {
  const std::string name = GetParam();
  const std::string subject = name == "hang_in_entry" ? "its entry" : "one of its constructors";
  auto given = with_probe();
  place(name);
  Outcome outcome;
  std::string error;
  for (int timeout_ms = 2500; timeout_ms <= 40000; timeout_ms *= 2) {
    given.probe.timeout = std::chrono::milliseconds(timeout_ms);
    Runtime runtime(given);
    outcome = load(runtime, name);
    error = subject + " did not return within " + std::to_string(timeout_ms) + " ms";
    if (outcome.error.find(error) != std::string::npos) {
      break;
    }
  }
  EXPECT_THAT(outcome.error, HasSubstr(error));
  EXPECT_EQ(outcome.report.stage, name == "hang_in_entry" ? "entered" : "checked");
  EXPECT_TRUE(verdicts().empty());
  Runtime runtime(with_probe());
  use_good_backend(runtime);
}

TEST_F(ProbeTest, ProcessThatAConstructorForkedIsKilled) {
  const Variable forked("YOKE_TEST_FORKED", (root_ / "forked").string());
  EXPECT_NE(load(with_probe(), "fork_in_constructor").error, "");
  const auto text = read_whole(root_ / "forked");
  ASSERT_NE(text, "");
  const auto stat = "/proc/" + text.substr(0, text.size() - 1) + "/stat";
  // Killed, but its new parent may not have reaped it yet.
  const auto alive = [&] {
    const auto status = read_whole(stat);
    return !status.empty() && status.find(") Z ") == std::string::npos &&
           status.find(") X ") == std::string::npos;
  };
  for (int i = 0; i < 3000 && alive(); ++i) {
    ::usleep(10'000);
  }
  EXPECT_FALSE(alive());
}

TEST_F(ProbeTest, VerdictIsRememberedUntilTheFileOrTheOptionsChange) {
  const Variable record("YOKE_TEST_LOADED", (root_ / "loaded").string());
  place("good");
  EXPECT_EQ(probed(with_probe()), "yes");
  EXPECT_EQ(loads(), 2U) << "in the probe and in this process";
  EXPECT_EQ(probed(with_probe()), "cached");
  EXPECT_EQ(loads(), 0U) << "it is already mapped";
  EXPECT_EQ(verdicts().size(), 1U);
  std::filesystem::last_write_time(file("good"), std::filesystem::file_time_type::clock::now());
  EXPECT_EQ(probed(with_probe()), "yes");
  EXPECT_EQ(loads(), 1U);
  EXPECT_EQ(verdicts().size(), 1U) << "the new verdict replaces the old one";
  auto given = with_probe();
  given.plugin_options["good"] = {"level=7"};
  EXPECT_EQ(probed(given), "yes");
  EXPECT_EQ(probed(given), "cached");
}

TEST_F(ProbeTest, RememberedRefusalExplainsHowToProbeAgain) {
  const std::string name = "exit_in_constructor";
  place(name);
  {
    Runtime runtime(with_probe());
    load(runtime, name);
    EXPECT_EQ(load(runtime, name).report.probed, "cached") << "in memory";
  }
  Runtime runtime(with_probe());
  EXPECT_FALSE(report_of(runtime, name).usable);
  EXPECT_EQ(report_of(runtime, name).probed, "cached") << "on disk, before the first request";
  EXPECT_THAT(load(runtime, name).error, AllOf(HasSubstr("ended the process with exit code 3"),
                                               HasSubstr("to probe it again, remove " + cache().string())));
}

TEST_F(ProbeTest, RefusalThatDependsOnTheSystemIsNotRemembered) {
  place("missing_dependency");
  Runtime runtime(with_probe());
  EXPECT_EQ(load(runtime, "missing_dependency").report.probed, "yes");
  EXPECT_EQ(load(runtime, "missing_dependency").report.probed, "yes");
  EXPECT_TRUE(verdicts().empty());
}

TEST_F(ProbeTest, DamagedOrForeignVerdictIsIgnored) {
  place("good");
  EXPECT_EQ(probed(with_probe()), "yes");
  const auto verdict = cache() / verdicts().at(0);
  const auto whole = read_whole(verdict);
  write_file(verdict, whole.substr(0, whole.size() - 2));
  EXPECT_EQ(probed(with_probe()), "yes");
  auto unknown = whole;
  write_file(verdict, unknown.replace(unknown.find("passed"), 6, "sure"));
  EXPECT_EQ(probed(with_probe()), "yes");
  write_file(verdict, whole);
  EXPECT_EQ(probed(with_probe()), "cached");
  ::chmod(verdict.c_str(), 0622);
  EXPECT_EQ(probed(with_probe()), "yes") << "another user may have written it";
  std::filesystem::remove(verdict);
  std::filesystem::create_symlink("/dev/zero", verdict);
  EXPECT_EQ(probed(with_probe()), "yes");
}

TEST_F(ProbeTest, OldVerdictsAreRemovedAndOtherFilesAreKept) {
  std::filesystem::create_directory(cache());
  for (int i = 0; i < 300; ++i) {
    write_file(cache() / ("letter-" + std::to_string(i)), "mine");
  }
  write_file(cache() / "new.notes", "mine");
  place("one");
  place("two");
  Runtime runtime(with_probe());
  EXPECT_EQ(load(runtime, "one").report.probed, "yes");
  EXPECT_EQ(verdicts().size(), 302U);
  for (int i = 0; i < 300; ++i) {
    write_file(cache() / ("fd00-" + std::to_string(i)), "of a deleted file");
  }
  EXPECT_EQ(load(runtime, "two").report.probed, "yes");
  EXPECT_EQ(verdicts().size(), 303U);
  EXPECT_TRUE(std::filesystem::exists(cache() / "letter-299"));
  EXPECT_TRUE(std::filesystem::exists(cache() / "new.notes"));
}

TEST_F(ProbeTest, MissingProgramIsARefusalOnlyIfTheProbeIsRequired) {
  place("good");
  auto given = with_probe();
  given.probe.program = root_ / "absent";
  const auto reason = (root_ / "absent").string() + " does not exist";
  Runtime required(given);
  EXPECT_THAT(load(required, "good").error,
              AllOf(HasSubstr("it could not be probed: " + reason), HasSubstr("ProbeOptions::program")));
  given.probe.required = false;
  EXPECT_EQ(probed(given), "no: " + reason);
  given.probe.program = "/bin/true";
  EXPECT_THAT(probed(given),
              AllOf(HasSubstr("no: /"), HasSubstr("ended the process with exit code 0 without a report")));
}

TEST_F(ProbeTest, InstallFolderIsProbedOnlyOnRequest) {
  if (!std::filesystem::exists(Path(test::plugin_folder()) / file_name("cc"))) {
    GTEST_SKIP() << "the cc backend was not built";
  }
  auto given = with_probe();
  {
    Runtime runtime(given);
    EXPECT_EQ(load(runtime, "cc").report.probed, "no: it is in the install folder");
  }
  given.probe.which = ProbeOptions::Which::kAll;
  Runtime runtime(given);
  const auto outcome = load(runtime, "cc");
  EXPECT_EQ(outcome.error, "");
  EXPECT_EQ(outcome.report.probed, "yes");
}

}  // namespace
}  // namespace yoke::test
