// SPDX-License-Identifier: Apache-2.0
// frontends/cli/global_options.h: options before the subcommand's name; they hold for every plugin that the
// command loads.
#pragma once

#include <yoke/runtime/runtime.h>

#include "subcommands.h"

namespace yoke::cli {

// For the usage text, each line indented by two.
extern const char* const kGlobalOptionsHelp;

// Takes the global options off the front of what was typed. Throws UsageError.
Arguments take_global_options(Arguments arguments);

// Throws UsageError where one of them is typed behind the subcommand. `arguments`: the subcommand's.
void refuse_global_options(Arguments arguments);

// What every subcommand makes its Runtime with.
RuntimeOptions runtime_options();

}  // namespace yoke::cli
