// SPDX-License-Identifier: Apache-2.0
// plugin_api/conformance/program/bound_parts.h: functions that the files of bound*.cpp share.
#pragma once

#include "bound.h"

namespace yoke::conformance {

// Widens the range by `units` on both sides, then rounds it.
Bound widened(program::Type type, Bound bound, double units);
Bound negated(const Bound& x);
// The possible results of operations with several float arguments that are not NaN.
Bound added(program::Type type, const Bound& x, const Bound& y);
Bound multiplied(program::Type type, const Bound& x, const Bound& y);
Bound divided(program::Type type, const Bound& x, const Bound& y);
Bound power(program::Type type, const Bound& x, const Bound& y);
Bound extreme(program::Op op, program::Type type, const Bound& x, const Bound& y);
Bound remainder(program::Type type, const Bound& x, const Bound& y);
Bound fused(program::Type type, const Bound& x, const Bound& y, const Bound& z);
// The possible results of an operation with one float argument that is not NaN; compare apply_bound. The
// first is for functions that never fall.
Bound rising(program::Op op, program::Type type, const Bound& x);
Bound float_of_one(program::Op op, program::Type type, const Bound& x);

}  // namespace yoke::conformance
