// SPDX-License-Identifier: Apache-2.0
// runtime/device/options.h: checks a device's options against the
// backend's schema before they reach the plugin.
#pragma once

#include <yoke/runtime/runtime.h>

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "loader/memory_reader.h"

namespace yoke::detail {

// Converts a row of the plugin's schema. Returns nothing if a text is
// not readable memory, or if the name is empty.
std::optional<OptionSpec> to_spec(const loader::MemoryReader& memory, const yoke_option_spec& row);

// Converts options for the plugin. The result borrows names and texts from `given`.
// Throws Error kInvalidArgument for an unknown name (listing the known ones), a wrong
// type, a value out of range, or a name given twice.
std::vector<yoke_option> check_options(const std::string& device, std::span<const Option> given,
                                       std::span<const OptionSpec> specs);

// Parses "name=value" for one of `specs`. Throws Error kInvalidArgument if there is no '=', the name is
// unknown, or the value has a wrong type.
Option parse_option(const std::string& backend, const std::string& text, std::span<const OptionSpec> specs);

}  // namespace yoke::detail
