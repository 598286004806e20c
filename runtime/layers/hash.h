// SPDX-License-Identifier: Apache-2.0
// runtime/layers/hash.h: hashes of memory (XXH3), also of memory that nobody vouches for.
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace yoke::layers {

struct Hash {
  std::uint64_t high = 0;
  std::uint64_t low = 0;
  // NOLINTNEXTLINE(modernize-use-nullptr): clang-tidy 14 sees a 0 in there
  friend auto operator<=>(const Hash&, const Hash&) = default;
};

Hash hash128(const void* memory, std::uint64_t byte_count);
std::uint64_t hash_of(const void* memory, std::uint64_t byte_count);
// The same of memory that may be gone: false then.
bool hash_of_foreign(const void* memory, std::uint64_t byte_count, std::uint64_t& hash);
bool hash128_of_foreign(const void* memory, std::uint64_t byte_count, Hash& hash);
bool copy_of_foreign(const void* memory, std::uint64_t byte_count, std::vector<std::byte>& copy);

}  // namespace yoke::layers
