// SPDX-License-Identifier: Apache-2.0
// plugin_api/conformance/driver/run.h: runs each test in its own process with a deadline, several at once.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "options.h"
#include "outcome.h"

namespace yoke::conformance {

// The state of a run, for the progress line on the terminal.
struct Progress {
  std::size_t done = 0;
  std::size_t total = 0;
  std::size_t failed = 0;
  std::string running;  // "copy.random-ranges 40 of 100"
};

// `self` is the path of this program. Returns the outcomes in the order of `tests`, compared with the
// expected failures. A test that exceeds its deadline is killed together with the processes that it started.
// `on_progress` is called at least once a second. If it returns false, the running tests are killed, and they
// and the rest are reported as not run.
std::vector<Outcome> run_tests(const std::string& self, const Options& options, const std::string& plugin,
                               const std::vector<NamedTest>& tests, const Expectations& expectations,
                               const std::function<bool(const Progress&)>& on_progress);

// Runs a step in its own process as if it were a test, and returns its outcome. No test has the name of a step.
Outcome try_step(const std::string& self, const Options& options, const std::string& plugin,
                 const char* step);
inline constexpr const char* kLoading = "loading";  // loads and enters the plugin; passes if both succeed
inline constexpr const char* kOptions =
    "options";  // unsupported if the options of the command line are wrong

// The two descriptors that a test's process inherits.
inline constexpr int kReportDescriptor = 3;
inline constexpr int kFunctionDescriptor = 4;

}  // namespace yoke::conformance
