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

// Loads and enters the plugin in its own process; passes if both succeed.
Outcome try_loading(const std::string& self, const Options& options, const std::string& plugin);
inline constexpr const char* kLoading = "loading";  // the name of that step; no test has it

// The two descriptors that a test's process inherits.
inline constexpr int kReportDescriptor = 3;
inline constexpr int kFunctionDescriptor = 4;

}  // namespace yoke::conformance
