// SPDX-License-Identifier: Apache-2.0
// plugin_api/conformance/program/shrink.h: reduces a failing program to a small one.
#pragma once

#include <cstdint>
#include <functional>

#include "case.h"

namespace yoke::conformance {

struct ShrinkLimits {
  double seconds = 15;
  std::uint64_t tries = 20000;  // calls of `fails`
};

// Returns the smallest case found for which `fails` returns true, starting from `failing`. Every
// candidate is valid. Exceeds the limits by at most one call of `fails`.
Case shrink(Case failing, const std::function<bool(const Case&)>& fails, const ShrinkLimits& limits = {});

}  // namespace yoke::conformance
