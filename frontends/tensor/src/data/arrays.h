// SPDX-License-Identifier: Apache-2.0
// frontends/tensor/src/data/arrays.h: checks that files of named arrays share.
#pragma once

#include <yoke/npz.h>

#include <filesystem>
#include <span>

namespace yoke::detail {

// Throws Error kInvalidArgument: a name is empty, too long or repeated, or the bytes do not match type and dims.
void check_arrays(const std::filesystem::path& path, std::span<const NamedArray> arrays);

}  // namespace yoke::detail
