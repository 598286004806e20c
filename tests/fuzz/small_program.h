// SPDX-License-Identifier: Apache-2.0
// tests/fuzz/small_program.h: programs that fuzzers run; of others, which might take an hour, they only look
// at the text.
#pragma once

#include <yoke/program/program.h>

#include <algorithm>
#include <cstdint>

namespace yoke::fuzz {

inline bool small_enough(const program::Program& program) {
  constexpr std::uint64_t kMostBytes = 1U << 14U;
  constexpr std::uint64_t kMostIterations = 2000;
  std::uint64_t bytes = 0;
  std::uint64_t iterations = 0;
  for (const program::Tensor& tensor : program.tensors) {
    bytes += std::min(tensor.byte_count(), kMostBytes + 1);
  }
  for (const program::Statement& statement : program.statements) {
    std::uint64_t count = 1;
    for (const auto& loop : statement.loops) {
      count = loop.extent > kMostIterations ? kMostIterations + 1
                                            : std::min(count * loop.extent, kMostIterations + 1);
    }
    iterations += count;
  }
  return bytes <= kMostBytes && iterations <= kMostIterations && program.tensors.size() <= 64;
}

}  // namespace yoke::fuzz
