// SPDX-License-Identifier: Apache-2.0
// tests/support/rounds.h: the number of repetitions of a test with random input.
#pragma once

#include <cstdint>

namespace yoke::test {

// Returns `full` in a release build, and a sixth of it in other builds, where sanitizers or missing
// optimization make a repetition about ten times slower. Release builds check the results; the others look
// for invalid accesses.
constexpr std::uint64_t rounds(std::uint64_t full) {
#if defined(NDEBUG)
  return full;
#else
  return (full + 5) / 6;
#endif
}

}  // namespace yoke::test
