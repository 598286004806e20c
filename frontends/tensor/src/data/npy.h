// SPDX-License-Identifier: Apache-2.0
// frontends/tensor/src/data/npy.h: numpy's .npy format: a line of Python that says what the bytes behind it
// are.
#pragma once

#include <yoke/npz.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace yoke::detail {

// Nothing when it does not fit in 63 bits.
std::optional<std::uint64_t> byte_count_of(program::Type type, std::span<const std::uint64_t> dims);

// Version 1.0, padded to 64 bytes as numpy does.
std::string npy_header(program::Type type, std::span<const std::uint64_t> dims);

// The array without its name; uint16 comes back as bf16, the only 16-bit type it can stand for here. Errors
// begin with `where`.
NamedArray parse_npy(std::span<const std::byte> file, const std::string& where);

}  // namespace yoke::detail
