// SPDX-License-Identifier: Apache-2.0
// tests/conformance/mutant/bug.h: asks whether a bug is switched on. One at a time, by the environment
// variable YOKE_MUTANT_BUG.
#pragma once

#include <cstddef>
#include <string_view>

#include "bugs.h"

namespace yoke::mutant {

// The row of kBugs, or kNoBug where the variable is not set, or kUnknownBug. Read once.
std::size_t planted() noexcept;
inline constexpr std::size_t kNoBug = std::size(kBugs);
inline constexpr std::size_t kUnknownBug = kNoBug + 1;

constexpr std::size_t row_of(std::string_view name) {
  std::size_t row = 0;
  while (row < std::size(kBugs) && kBugs[row].name != name) {
    ++row;
  }
  return row;
}

template <std::size_t kLength>
struct BugName {
  // NOLINTNEXTLINE(google-explicit-constructor): a literal is meant to become one.
  constexpr BugName(const char (&literal)[kLength]) {
    for (std::size_t i = 0; i < kLength; ++i) {
      text[i] = literal[i];
    }
  }
  char text[kLength] = {};
};

// if (on<"copy_loses_last_byte">()) { ... }; a name that is not in the table does not compile.
template <BugName kName>
bool on() noexcept {
  constexpr std::size_t kRow = row_of(kName.text);
  static_assert(kRow < std::size(kBugs), "no such row in bugs.h");
  return planted() == kRow;
}

}  // namespace yoke::mutant
