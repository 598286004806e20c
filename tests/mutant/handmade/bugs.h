// SPDX-License-Identifier: Apache-2.0
// tests/mutant/handmade/bugs.h: the bugs of the handmade backends. YOKE_HANDMADE_BUG=<name> turns one on.
#pragma once

#include <cstddef>
#include <initializer_list>
#include <span>
#include <string_view>

#include "sets_10.h"

namespace yoke::handmade {

inline constexpr std::size_t kNoBug = ~std::size_t{0};

constexpr std::size_t number_of(std::string_view name) {
  std::size_t number = 0;
  for (const auto set : std::initializer_list<std::span<const BugRow>>{kSet1, kSet2, kSet3, kSet4, kSet5,
                                                                       kSet6, kSet7, kSet8, kSet9, kSet10}) {
    for (const BugRow& row : set) {
      if (row.name == name) {
        return number;
      }
      ++number;
    }
  }
  return kNoBug;
}

struct BugName {
  // Does not compile for a name that is not in a table.
  consteval BugName(const char* name) : number(number_of(name)) {  // NOLINT(google-explicit-constructor)
    if (number == kNoBug) {
      throw name;
    }
  }
  std::size_t number;
};

// The number of the bug that YOKE_HANDMADE_BUG names; kNoBug if it is not set.
// Throws std::invalid_argument if the name is not in a table.
std::size_t read_bug();
extern std::size_t active_bug;  // set when the plugin is entered

inline bool bug(BugName name) noexcept {
  return active_bug == name.number;
}

}  // namespace yoke::handmade
