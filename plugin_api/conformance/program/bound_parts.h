// SPDX-License-Identifier: Apache-2.0
// plugin_api/conformance/program/bound_parts.h: functions shared by bound.cpp and bound_functions.cpp.
#pragma once

#include "bound.h"

namespace yoke::conformance {

Bound point(double value);
// Widens the range by `units` on both sides, then rounds it.
Bound widened(program::Type type, Bound bound, double units);
Bound negated(const Bound& x);
// The possible results of an operation with one float argument that is not NaN; compare apply_bound. The
// first is for functions that never fall.
Bound rising(program::Op op, program::Type type, const Bound& x);
Bound float_of_one(program::Op op, program::Type type, const Bound& x);

}  // namespace yoke::conformance
