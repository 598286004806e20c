// SPDX-License-Identifier: Apache-2.0
// frontends/cli/global_options.h: options before the subcommand; they
// apply to every plugin that the command loads.
#pragma once

#include <yoke/runtime/runtime.h>

#include <map>
#include <string>
#include <vector>

#include "subcommands.h"

namespace yoke::cli {

// Part of the usage text; each line is indented by two spaces.
extern const char* const kGlobalOptionsHelp;

// For suggestions: "--layers", ...
std::vector<std::string> global_option_names();

// Applies the global options at the front of `arguments` and returns the rest. Throws UsageError.
Arguments take_global_options(Arguments arguments);

// Throws UsageError if `arguments`, those of a subcommand, contain a global option, or if a global option has
// no effect on the subcommand.
void check_global_options(const std::string& subcommand, Arguments arguments);

// The options with which every subcommand creates its Runtime.
RuntimeOptions runtime_options();
// Throws UsageError if an environment variable has an unknown value.
Runtime make_runtime(const RuntimeOptions& options);

// The values of --plugin-option, "NAME=VALUE" by backend.
const std::map<std::string, std::vector<std::string>>& plugin_options();

// Why the trace of a Runtime that has ended is incomplete, one sentence; empty: it is complete, or there is none.
std::string trace_problem();

}  // namespace yoke::cli
