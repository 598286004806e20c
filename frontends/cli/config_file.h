// SPDX-License-Identifier: Apache-2.0
// frontends/cli/config_file.h: options of a subcommand from a TOML file.
#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "subcommands.h"

namespace yoke::cli {

// Arguments in which the options of a file replace --config FILE.
struct ConfiguredArguments {
  std::vector<std::string> words;
  std::map<std::string, std::string> places;  // "a.toml, line 3" of each option from the file, such as "--lr"
  std::vector<std::string> warnings;          // about options of the file that were left out

  // The text of an error, after the place of the first option in it that is from the file.
  std::string with_place(const std::string& text) const;
};

// Reads a file or a pipe, at most 1 MiB. Leaves out options of the file that `arguments` give themselves. If they give
// --backend, also leaves out the file's --option values for other backends, with a warning. A key is an option's name:
// text or a number is its value, true is a flag, and a list repeats the option. Throws UsageError for a file that is
// not valid TOML, with line and column, and for other values.
ConfiguredArguments with_config(Arguments arguments);

// Name of the file with the options of a run, in its folder of checkpoints.
inline constexpr const char* kConfigFile = "config.toml";

// The text of such a file with the options in `arguments`, without `except`. A comment contains the command that
// continues the run whose checkpoints are in `folder`. Throws UsageError for a value that is not UTF-8.
std::string config_text(const std::filesystem::path& file, Arguments arguments,
                        const std::vector<std::string>& except, const std::string& folder);

// Whether the first line marks the file as written by config_text.
bool is_config_of_run(const std::filesystem::path& file);

}  // namespace yoke::cli
