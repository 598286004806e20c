// SPDX-License-Identifier: Apache-2.0
// tests/mutant/handmade/bugs.cpp: which bug is on.
#include "bugs.h"

#include <cstdlib>
#include <stdexcept>
#include <string>

namespace yoke::handmade {

std::size_t active_bug = kNoBug;

std::size_t read_bug() {
  const char* name = std::getenv("YOKE_HANDMADE_BUG");
  if (name == nullptr || *name == '\0') {
    return kNoBug;
  }
  if (const std::size_t number = number_of(name); number != kNoBug) {
    return number;
  }
  throw std::invalid_argument("YOKE_HANDMADE_BUG is '" + std::string(name) +
                              "', which is not a bug of tests/mutant/handmade/sets_*.h");
}

}  // namespace yoke::handmade
