// SPDX-License-Identifier: Apache-2.0
// plugin_api/conformance/driver/main.cpp: yoke-conformance: the driver of a run
// and, with --run-one, the process of one test.
#include <sys/prctl.h>
#include <sys/resource.h>
#include <unistd.h>
#include <yoke/runtime/closest.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <exception>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <system_error>

#include "options.h"
#include "outcome.h"
#include "report.h"
#include "run.h"

namespace {

namespace fs = std::filesystem;
using namespace yoke::conformance;  // NOLINT(google-build-using-namespace): the program of this namespace

constexpr const char* kRunOne = "--run-one";

// Runs in the process of one test.
int run_one_main(const std::vector<std::string>& words) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  std::signal(SIGPIPE, SIG_DFL);
  const rlimit no_core{0, 0};
  ::setrlimit(RLIMIT_CORE, &no_core);
  constexpr rlim_t kMostOutput = rlim_t{1} << 30U;
  const rlimit file_size{kMostOutput, kMostOutput};
  ::setrlimit(RLIMIT_FSIZE, &file_size);

  const std::string& name = words.at(1);
  const auto options = parse_options({words.begin() + 2, words.end()});
  Settings settings = options.value().settings;
  settings.plugin = options->plugins.at(0);
  share_current_function(kFunctionDescriptor);
  Kit kit(settings, name, kReportDescriptor);
  if (name == kLoading) {
    ::_exit(load_only(kit));
  }
  if (name == kOptions) {
    ::_exit(check_options(kit));
  }
  for (const NamedTest& test : all_tests()) {
    if (test.name == name) {
      const int code = run_one(test.test, kit);
      if (code != 0) {
        ::_exit(code);  // skips the destructors of a plugin that failed
      }
      return code;
    }
  }
  throw UsageError("no test is named '" + name + "'");
}

volatile std::sig_atomic_t stop_signal = 0;

// The first SIGINT, SIGTERM or SIGHUP ends the run with a report, the second one the process.
void stop_on_signals() {
  for (const int number : {SIGINT, SIGTERM, SIGHUP}) {
    const auto note = [](int received) {
      stop_signal = received;
      std::signal(received, SIG_DFL);
    };
    if (std::signal(number, note) == SIG_IGN) {
      std::signal(number, SIG_IGN);  // as with nohup
    }
  }
}

// TERM=dumb and an unset TERM mean a terminal that cannot redraw a line.
bool can_redraw() {
  const char* const type = std::getenv("TERM");  // NOLINT(concurrency-mt-unsafe): no thread sets it
  return type != nullptr && *type != '\0' && std::string_view(type) != "dumb" && ::isatty(STDERR_FILENO) == 1;
}

// The progress line: at most ten updates a second, and only on a terminal.
class ProgressLine {
 public:
  explicit ProgressLine(std::string plugin) : plugin_(std::move(plugin)), on_terminal_(can_redraw()) {}
  ~ProgressLine() {
    if (on_terminal_) {
      std::cerr << "\r\033[K" << std::flush;
    }
  }
  ProgressLine(const ProgressLine&) = delete;
  ProgressLine& operator=(const ProgressLine&) = delete;

  void draw(const Progress& progress) {
    constexpr std::chrono::milliseconds kBetween(100);
    const auto now = std::chrono::steady_clock::now();
    if (!on_terminal_ || now - drawn_ < kBetween) {
      return;
    }
    drawn_ = now;
    constexpr std::size_t kWidth = 24;
    const std::size_t filled = progress.total == 0 ? kWidth : kWidth * progress.done / progress.total;
    std::string line = plugin_ + " [" + std::string(filled, '#') + std::string(kWidth - filled, '.') + "] " +
                       std::to_string(progress.done) + "/" + std::to_string(progress.total);
    if (progress.failed != 0) {
      line += ", " + std::to_string(progress.failed) + " failed";
    }
    line += "  " + progress.running;
    constexpr std::size_t kColumns = 100;
    std::cerr << "\r\033[K" << line.substr(0, kColumns) << std::flush;
  }

 private:
  std::string plugin_;
  bool on_terminal_;
  std::chrono::steady_clock::time_point drawn_;
};

// The results of a plugin that cannot be loaded: load.enters fails and no other test is run.
std::vector<Result> not_run(const std::vector<NamedTest>& tests, Outcome why) {
  std::vector<Result> results(1);
  results[0].test = {"load", "load.enters", {}};
  for (const NamedTest& test : tests) {
    if (test.name == results[0].test.name) {
      results[0].test = test;
      continue;
    }
    Result result;
    result.test = test;
    result.outcome.verdict = Verdict::kNotRun;
    result.outcome.text = "the plugin cannot be loaded";
    results.push_back(std::move(result));
  }
  results[0].outcome = std::move(why);
  return results;
}

Report run_plugin(const std::string& self, const Options& options, const std::string& plugin,
                  const std::vector<NamedTest>& tests, const Expectations& expectations) {
  const auto begin = std::chrono::steady_clock::now();
  const auto seconds = [&] {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  };
  Report report;
  report.plugin = plugin;
  Outcome loading = try_step(self, options, plugin, kLoading);
  report.loads = loading.verdict == Verdict::kPassed;
  if (!report.loads) {
    report.results = not_run(tests, std::move(loading));
    report.seconds = seconds();
    return report;
  }
  ProgressLine line(fs::path(plugin).filename().string());
  std::vector<Outcome> outcomes =
      run_tests(self, options, plugin, tests, expectations, [&](const Progress& progress) {
        line.draw(progress);
        return stop_signal == 0;
      });
  report.interrupted = stop_signal != 0;
  for (std::size_t i = 0; i < tests.size(); ++i) {
    report.results.push_back({tests[i], std::move(outcomes[i])});
  }
  for (Result& result : unknown_entries(expectations, all_tests())) {
    report.results.push_back(std::move(result));
  }
  report.seconds = seconds();
  return report;
}

// "; did you mean 'copy.*'?", or ";".
std::string suggested_glob(const std::string& glob) {
  std::vector<std::string> globs;
  const std::string ending = glob.find('.') == std::string::npos ? "" : ".*";
  for (const NamedTest& test : all_tests()) {
    globs.push_back(test.name);
    globs.push_back(test.group + ending);
  }
  std::string suggestion = yoke::closest(glob, globs);
  if (suggestion.empty()) {
    return ";";
  }
  suggestion += suggestion.find('.') == std::string::npos ? ".*" : "";
  return "; did you mean '" + suggestion + "'?";
}

void check_globs(const std::string& option, const std::vector<std::string>& globs) {
  const std::vector<NamedTest> tests = all_tests();
  for (const std::string& glob : globs) {
    if (std::none_of(tests.begin(), tests.end(),
                     [&](const NamedTest& test) { return matches({glob}, test.name); })) {
      throw UsageError(std::string("no test matches ")
                           .append(option)
                           .append(" '")
                           .append(glob)
                           .append("'")
                           .append(suggested_glob(glob))
                           .append(" --list prints all tests"));
    }
  }
}

// A required table is checked whatever the filters are.
std::vector<NamedTest> selected_tests(const Options& options) {
  check_globs("--filter", options.filters);
  check_globs("--exclude", options.excludes);
  std::vector<NamedTest> tests;
  const bool requires_tables = !options.settings.required_tables.empty();
  for (NamedTest& test : all_tests()) {
    const bool is_selected = (options.filters.empty() || matches(options.filters, test.name)) &&
                             !matches(options.excludes, test.name);
    if (is_selected || (requires_tables && test.name == "load.required-tables")) {
      tests.push_back(std::move(test));
    }
  }
  if (tests.empty()) {
    throw UsageError("--exclude leaves out every test; --list prints all tests");
  }
  return tests;
}

std::string existing_file(const std::string& typed) {
  std::error_code failed;
  const fs::path path = fs::canonical(typed, failed);
  if (failed) {
    throw UsageError("cannot find the plugin '" + typed + "': " + failed.message());
  }
  return path.string();
}

void write_junit(const std::string& path, const std::string& content) {
  errno = 0;
  std::ofstream file(path, std::ios::binary);
  file << content;
  if (!file.flush()) {
    const std::string why = errno == 0 ? "" : ": " + std::generic_category().message(errno);
    throw std::runtime_error("cannot write the JUnit file " + path + why + "; give --junit another file");
  }
}

// Throws UsageError for a device or an option that the plugin does not have, before any test runs.
void check_usage(const std::string& self, const Options& options, const std::string& plugin) {
  const Settings& settings = options.settings;
  const auto refuse_unsupported = [](const Outcome& outcome) {
    if (outcome.verdict == Verdict::kUnsupported) {
      throw UsageError(outcome.text);
    }
  };
  if (!settings.options.empty() || !settings.plugin_options.empty()) {
    refuse_unsupported(try_step(self, options, plugin, kOptions));
  }
  if (settings.device != 0) {
    refuse_unsupported(try_step(self, options, plugin, kLoading));
  }
}

int run_all(Options options) {
  const std::vector<NamedTest> tests = selected_tests(options);
  if (options.list) {
    std::cout << (options.json ? list_json(tests) : list_text(tests));
    return kAllPassed;
  }
  const Expectations expectations =
      options.expectations_file.empty() ? Expectations{} : read_expectations(options.expectations_file);
  const std::string self = fs::read_symlink("/proc/self/exe").string();
  for (std::string& plugin : options.plugins) {
    plugin = existing_file(plugin);
  }
  if (!options.junit_file.empty()) {
    write_junit(options.junit_file, "");  // report an unwritable file before running any test
  }
  std::vector<Report> reports;
  bool passed = true;
  bool is_empty = false;
  stop_on_signals();
  for (const std::string& plugin : options.plugins) {
    check_usage(self, options, plugin);
  }
  for (const std::string& plugin : options.plugins) {
    reports.push_back(run_plugin(self, options, plugin, tests, expectations));
    passed = passed && reports.back().passed();
    is_empty = is_empty || reports.back().is_empty();
    (options.json ? std::cerr : std::cout) << as_text(reports.back(), options) << std::flush;
    if (reports.back().interrupted) {
      break;
    }
  }
  if (options.json) {
    std::cout << as_json(reports, options);
  }
  if (!options.junit_file.empty()) {
    write_junit(options.junit_file, as_junit(reports, options));
  }
  return !passed ? kSomeFailed : is_empty ? kNothingTested : kAllPassed;
}

}  // namespace

int main(int argc, char** argv) {
  const std::vector<std::string> words(argv + 1, argv + argc);
  // `yoke check-plugin` starts this program under its own name.
  const std::string command =
      argc > 0 && std::string_view(argv[0]) == "yoke check-plugin" ? argv[0] : "yoke-conformance";
  try {
    if (words.size() > 1 && words[0] == kRunOne) {
      return run_one_main(words);
    }
    auto options = parse_options(words, command);
    std::signal(SIGPIPE, SIG_IGN);  // writing to a closed pipe then fails instead of ending the process
    const int code = options ? run_all(std::move(*options)) : kAllPassed;
    if (!std::cout.flush()) {
      throw std::runtime_error("cannot write to standard output; it was closed, or the disk is full");
    }
    return code;
  } catch (const UsageError& error) {
    std::cerr << command << ": " << error.what() << '\n';
    return kWrongUsage;
  } catch (const std::exception& error) {
    std::cerr << command << ": " << error.what() << '\n';
  }
  return kSomeFailed;
}
