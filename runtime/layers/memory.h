// SPDX-License-Identifier: Apache-2.0
// runtime/layers/memory.h: hashes of memory (XXH3), and reads of memory that may be unmapped.
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace yoke::layers {

struct Hash {
  std::uint64_t high = 0;
  std::uint64_t low = 0;
  // NOLINTNEXTLINE(modernize-use-nullptr): clang-tidy 14 reports a 0 in here
  friend auto operator<=>(const Hash&, const Hash&) = default;
};

Hash hash_of(const void* memory, std::uint64_t byte_count);
std::uint32_t checksum_of(const void* memory, std::uint64_t byte_count);

// Both return false if the memory is not mapped.
bool hash_mapped(const void* memory, std::uint64_t byte_count, Hash& hash);
bool copy_mapped(const void* memory, std::uint64_t byte_count, void* to);

}  // namespace yoke::layers
