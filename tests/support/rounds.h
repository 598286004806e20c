// SPDX-License-Identifier: Apache-2.0
// tests/support/rounds.h: how often a test with random input repeats.
#pragma once

#include <cstdint>

namespace yoke::test {

// `full` in a release build, a sixth of it with a sanitizer or without optimization, which makes a round about ten
// times slower. There, a round is one more chance to find a wrong access; release shows that all results are right.
constexpr std::uint64_t rounds(std::uint64_t full) {
#if defined(NDEBUG)
  return full;
#else
  return (full + 5) / 6;
#endif
}

}  // namespace yoke::test
