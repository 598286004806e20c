// SPDX-License-Identifier: Apache-2.0
// plugin_api/conformance/driver/options.h: the command line of yoke-conformance.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "kit.h"
#include "usage.h"

namespace yoke::conformance {

struct Options {
  std::string command;               // as messages name this program
  std::vector<std::string> plugins;  // as typed
  std::vector<std::string> filters;  // empty: every test
  std::vector<std::string> excludes;
  std::string expectations_file;
  std::string junit_file;
  bool json = false;
  bool list = false;
  bool verbose = false;
  bool fail_fast = false;
  unsigned jobs = 1;
  Settings settings;  // all but `plugin`, which is set to each of `plugins` in turn
};

// Returns nothing if --help was typed; the help is then printed. Throws UsageError.
std::optional<Options> parse_options(const std::vector<std::string>& words,
                                     const std::string& command = "yoke-conformance");

// The command that repeats one test with the same settings.
std::string repeat_command(const Options& options, const std::string& plugin, const std::string& test);

// The arguments that follow `--run-one NAME` for a test's process.
std::vector<std::string> child_words(const Options& options, const std::string& plugin);

// Whether a test's name matches one of the globs.
bool matches(const std::vector<std::string>& globs, const std::string& name);

}  // namespace yoke::conformance
