// SPDX-License-Identifier: Apache-2.0
// frontends/tensor/src/data/safetensors.h: parses a .safetensors file in memory.
#pragma once

#include <yoke/safetensors.h>

#include <cstddef>
#include <span>
#include <string>

namespace yoke::detail {

// As load_safetensors; messages begin with `where`.
Safetensors parse_safetensors(std::span<const std::byte> file, const std::string& where);

}  // namespace yoke::detail
