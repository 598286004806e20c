// SPDX-License-Identifier: Apache-2.0
// tests/conformance/driver/options.h: what was typed.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "kit.h"
#include "subcommands.h"  // UsageError, exit codes

namespace yoke::conformance {

struct Options {
  std::vector<std::string> plugins;  // as typed
  std::vector<std::string> filters;  // none: every test
  std::string expectations_file;
  std::string junit_file;
  bool json = false;
  bool list = false;
  bool verbose = false;
  unsigned jobs = 1;
  Settings settings;  // but for the plugin, which is one of `plugins` at a time
};

// Nothing: --help was asked for, and printed. Throws cli::UsageError.
std::optional<Options> parse_options(const std::vector<std::string>& words);

// The words that make the same run of one test again.
std::string repeat_command(const Options& options, const std::string& plugin, const std::string& test);

// The words that a test's process is started with, behind --run-one NAME.
std::vector<std::string> child_words(const Options& options, const std::string& plugin);

// Does "copy.fill" match one of the globs (or are there none)?
bool selected(const std::vector<std::string>& filters, const std::string& name);

}  // namespace yoke::conformance
