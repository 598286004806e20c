// SPDX-License-Identifier: Apache-2.0
// tests/fake_gpu/engine/image.h: what the compiler hands to cuModuleLoadData.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace fake_gpu {

// An image is this header, then the shared object with the kernels.
struct ImageHeader {
  std::array<char, 16> magic = {};
  std::array<char, 16> architecture = {};  // such as sm_90 or gfx90a
  std::uint64_t byte_count = 0;            // of the shared object
  std::uint64_t hash = 0;                  // of the shared object
};
inline constexpr std::array<char, 16> kImageMagic = {'Y', 'O', 'K', 'E', ' ', 'F', 'A', 'K',
                                                     'E', ' ', 'G', 'P', 'U', ' ', '1', '\n'};

inline std::uint64_t hash_bytes(const char* bytes, std::size_t count,
                                std::uint64_t start = 0xcbf29ce484222325ULL) {
  std::uint64_t hash = start;
  for (std::size_t i = 0; i < count; ++i) {
    hash = (hash ^ static_cast<unsigned char>(bytes[i])) * 0x100000001b3ULL;
  }
  return hash;
}

}  // namespace fake_gpu
