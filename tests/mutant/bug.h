// SPDX-License-Identifier: Apache-2.0
// tests/mutant/bug.h: whether a bug is switched on, by the
// environment variable YOKE_MUTANT_BUG. At most one is.
#pragma once

#include <cstddef>
#include <string_view>

#include "bugs.h"

namespace yoke::mutant {

// The row of kBugs; kNoBug if the variable is not set; kUnknownBug
// for an unknown name. Reads the variable once.
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
  // NOLINTNEXTLINE(google-explicit-constructor): converts from a string literal
  constexpr BugName(const char (&literal)[kLength]) {
    for (std::size_t i = 0; i < kLength; ++i) {
      text[i] = literal[i];
    }
  }
  char text[kLength] = {};
};

// if (on<"copy_loses_last_byte">()) { ... }. A name that is not in the table does not compile.
template <BugName kName>
bool on() noexcept {
  constexpr std::size_t kRow = row_of(kName.text);
  static_assert(kRow < std::size(kBugs), "no such row in bugs.h");
  return planted() == kRow;
}

}  // namespace yoke::mutant
