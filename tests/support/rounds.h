// SPDX-License-Identifier: Apache-2.0
// tests/support/rounds.h: how many repetitions and settings a test tries.
#pragma once

#include <cstdint>
#include <cstdlib>

namespace yoke::test {

// Whether tests try every combination of their settings: only in release builds. In other builds, sanitizers or
// missing optimization make a repetition about ten times slower, and the purpose is to find invalid accesses and races.
#if defined(NDEBUG)
inline constexpr bool kTriesAll = true;
#else
inline constexpr bool kTriesAll = false;
#endif

// Returns `full`, or a sixth of it, rounded up, if kTriesAll is false.
constexpr std::uint64_t rounds(std::uint64_t full) {
  return kTriesAll ? full : (full + 5) / 6;
}

// The number of seeds of a test with random delays: YOKE_DELAY_SEEDS if it is set, otherwise `few`.
inline std::uint64_t delay_seeds(std::uint64_t few) {
  const char* text = std::getenv("YOKE_DELAY_SEEDS");
  return text != nullptr ? std::strtoull(text, nullptr, 10) : rounds(few);
}

}  // namespace yoke::test
