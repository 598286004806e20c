// SPDX-License-Identifier: Apache-2.0
// frontends/tensor/src/data/npy.h: numpy's .npy format: a
// header that describes the array, followed by its bytes.
#pragma once

#include <yoke/npz.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace yoke::detail {

// Returns nullopt if the size does not fit in 63 bits.
std::optional<std::uint64_t> byte_count_of(program::Type type, std::span<const std::uint64_t> dims);

// "8 bytes, but its type and dims need 12", for an array of which byte_count_of() is `needed`.
std::string bytes_but_needs(std::uint64_t byte_count, std::optional<std::uint64_t> needed);

// A header of version 1.0, padded to a multiple of 64 bytes, as numpy writes it.
std::string npy_header(program::Type type, std::span<const std::uint64_t> dims);

// Parses a .npy file. The result has no name, and uint16 elements have the type bf16, because save_npz
// stores bf16 as uint16. Messages begin with `where`.
NamedArray parse_npy(std::span<const std::byte> file, const std::string& where);

}  // namespace yoke::detail
