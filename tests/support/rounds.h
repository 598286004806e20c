// SPDX-License-Identifier: Apache-2.0
// tests/support/rounds.h: the number of repetitions of a test with random input.
#pragma once

#include <cstdint>
#include <cstdlib>

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

// The number of seeds of a test with random delays: YOKE_DELAY_SEEDS if it is set, otherwise `few`.
inline std::uint64_t delay_seeds(std::uint64_t few) {
  const char* text = std::getenv("YOKE_DELAY_SEEDS");
  return text != nullptr ? std::strtoull(text, nullptr, 10) : rounds(few);
}

}  // namespace yoke::test
