// SPDX-License-Identifier: Apache-2.0
// runtime/device/options.h: a device's options against the backend's schema, before the plugin sees them.
#pragma once

#include <yoke/runtime/runtime.h>

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "loader/memory_reader.h"

namespace yoke::detail {

// A row as the plugin gave it, its texts read within bounds. Nothing: a text lies where no memory is, or the
// name is empty.
std::optional<OptionSpec> to_spec(const loader::MemoryReader& memory, const yoke_option_spec& row);

// The options as they cross; they borrow names and texts from `given`. Throws Error kInvalidArgument: unknown
// name (the known ones are listed), wrong type, value out of range, a name given twice.
std::vector<yoke_option> check_options(const std::string& device, std::span<const Option> given,
                                       std::span<const OptionSpec> specs);

// "name=value" for one of `specs`. Throws Error kInvalidArgument: no '=', unknown name, a value of another
// type.
Option parse_option(const std::string& backend, const std::string& text, std::span<const OptionSpec> specs);

}  // namespace yoke::detail
