// SPDX-License-Identifier: Apache-2.0
// frontends/cli/config_file.h: options of a subcommand from a TOML file.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "subcommands.h"

namespace yoke::cli {

// Replaces --config FILE by the file's options, except those that `arguments` give themselves. A key is an option's
// name: text or a number is its value, true is a flag, and a list repeats the option. Throws UsageError for a file that
// is not valid TOML, with line and column, and for other values.
std::vector<std::string> with_config(Arguments arguments);

// Writes such a file with the options in `arguments`, without `except`.
void write_config(const std::filesystem::path& file, Arguments arguments,
                  const std::vector<std::string>& except);

}  // namespace yoke::cli
