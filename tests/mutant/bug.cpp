// SPDX-License-Identifier: Apache-2.0
// tests/mutant/bug.cpp: reads YOKE_MUTANT_BUG.
#include "bug.h"

#include <cstdlib>

namespace yoke::mutant {
namespace {

std::size_t read_planted() {
  const char* name = std::getenv("YOKE_MUTANT_BUG");
  if (name == nullptr || *name == '\0') {
    return kNoBug;
  }
  const std::size_t row = row_of(name);
  return row < std::size(kBugs) ? row : kUnknownBug;
}

}  // namespace

std::size_t planted() noexcept {
  static const std::size_t row = read_planted();
  return row;
}

}  // namespace yoke::mutant
