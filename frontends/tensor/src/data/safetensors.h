// SPDX-License-Identifier: Apache-2.0
// frontends/tensor/src/data/safetensors.h: writes a .safetensors file, and parses one in memory.
#pragma once

#include <yoke/safetensors.h>

#include <cstddef>
#include <filesystem>
#include <map>
#include <span>
#include <string>

namespace yoke::detail {

// As save_safetensors, but flushes the folder only if asked to.
void write_safetensors(const std::filesystem::path& path, std::span<const NamedArray> arrays,
                       const std::map<std::string, std::string>& metadata, bool flushes_folder);
// As load_safetensors; messages begin with `where`.
Safetensors parse_safetensors(std::span<const std::byte> file, const std::string& where);

}  // namespace yoke::detail
