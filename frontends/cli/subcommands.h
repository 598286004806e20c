// SPDX-License-Identifier: Apache-2.0
// frontends/cli/subcommands.h: what each subcommand is called with, and what it gives back.
#pragma once

#include <span>
#include <stdexcept>
#include <string>

namespace yoke::cli {

// Exit codes of the command.
constexpr int kDone = 0;
constexpr int kFailed = 1;
constexpr int kWrongUsage = 2;

// What was typed makes no sense; main prints it and exits with kWrongUsage.
class UsageError : public std::runtime_error {
  using std::runtime_error::runtime_error;
};

using Arguments = std::span<const std::string>;  // behind the subcommand's name

int backends_command(Arguments arguments);
int check_plugin_command(Arguments arguments);
int devices_command(Arguments arguments);
int program_command(Arguments arguments);
int replay_command(Arguments arguments);
int train_command(Arguments arguments);

}  // namespace yoke::cli
