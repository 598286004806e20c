// SPDX-License-Identifier: Apache-2.0
// plugin_api/sdk/include/yoke/sdk/program.h: parses programs and
// describes them to the SDK. Needs yoke::program.
#pragma once

#include <yoke/program/text.h>
#include <yoke/sdk/plugin.h>

#include <string>
#include <string_view>

namespace yoke::sdk {

// Parses and verifies a text. Throws YOKE_STATUS_INVALID_ARGUMENT with line, column and reason.
inline program::Module read_program(std::string_view text) {
  try {
    return program::parse_and_verify(text);
  } catch (const program::ProgramError& error) {
    throw Failure(YOKE_STATUS_INVALID_ARGUMENT, std::string("invalid program: ") + error.what());
  }
}

// Describes a verified program. The caller sets the workspace. The fingerprint is that of the program; a
// backend whose code also depends on options or on the version of a driver must append them. Arguments need
// only the alignment of their elements.
inline Entry entry_of(const program::Program& source) {
  Entry entry;
  entry.name = source.name;
  for (const std::uint32_t id : source.arguments()) {
    const program::Tensor& tensor = source.tensors[id];
    entry.arguments.push_back({tensor.name, static_cast<std::int32_t>(tensor.type),
                               static_cast<std::int32_t>(tensor.role), tensor.dims, tensor.byte_count(),
                               static_cast<std::uint32_t>(program::byte_size(tensor.type))});
  }
  for (std::size_t i = 0; i < source.launch_symbol_count(); ++i) {
    const program::Symbol& symbol = source.symbols[i];
    entry.symbols.push_back({symbol.name, symbol.low, symbol.high, symbol.step});
  }
  entry.fingerprint = program::fingerprint(program::Module{{source}});
  return entry;
}

}  // namespace yoke::sdk
