// SPDX-License-Identifier: Apache-2.0
// tests/conformance/driver/run.h: runs each test in a process of its own, several at once, each with its
// deadline.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "options.h"
#include "outcome.h"

namespace yoke::conformance {

// Where a run is; for the line on the terminal.
struct Progress {
  std::size_t done = 0;
  std::size_t total = 0;
  std::size_t failed = 0;
  std::string running;  // "copy.random-ranges 40 of 100"
};

// `self`: this program's file. The outcomes are in the order of `tests`, and not yet set against a list.
// Nothing that a plugin does gets out of its process; what does not end is killed with all that it started.
std::vector<Outcome> run_tests(const std::string& self, const Options& options, const std::string& plugin,
                               const std::vector<NamedTest>& tests,
                               const std::function<void(const Progress&)>& on_progress);

// Maps the plugin and enters it, in a process of its own; passed where both can be done.
Outcome try_loading(const std::string& self, const Options& options, const std::string& plugin);
inline constexpr const char* kLoading = "loading";  // what that process is asked for; no test has the name

// The two descriptors that a test's process is started with.
inline constexpr int kReportDescriptor = 3;
inline constexpr int kFunctionDescriptor = 4;

}  // namespace yoke::conformance
