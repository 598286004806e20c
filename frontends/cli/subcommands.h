// SPDX-License-Identifier: Apache-2.0
// frontends/cli/subcommands.h: the subcommands, their arguments and their exit codes.
#pragma once

#include <span>
#include <stdexcept>
#include <string>

namespace yoke::cli {

// Exit codes of the command.
constexpr int kDone = 0;
constexpr int kFailed = 1;
constexpr int kWrongUsage = 2;

// The command line is invalid. main prints the message and exits with kWrongUsage.
class UsageError : public std::runtime_error {
  using std::runtime_error::runtime_error;
};

using Arguments = std::span<const std::string>;  // the words after the subcommand's name

int backends_command(Arguments arguments);
int check_plugin_command(Arguments arguments);
int devices_command(Arguments arguments);
int generate_command(Arguments arguments);
int predict_command(Arguments arguments);
int program_command(Arguments arguments);
int replay_command(Arguments arguments);
int train_command(Arguments arguments);

}  // namespace yoke::cli
