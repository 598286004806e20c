// SPDX-License-Identifier: Apache-2.0
// tests/conformance/program/shrink.h: makes a failing program small.
#pragma once

#include <cstdint>
#include <functional>

#include "case.h"

namespace yoke::conformance {

struct ShrinkLimits {
  double seconds = 15;
  std::uint64_t tries = 20000;  // calls of `fails`
};

// The smallest case that was found for which `fails` still holds, starting from one for which it does. Every
// candidate is valid. Ends within the limits, plus one call.
Case shrink(Case failing, const std::function<bool(const Case&)>& fails, const ShrinkLimits& limits = {});

}  // namespace yoke::conformance
