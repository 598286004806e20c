// SPDX-License-Identifier: Apache-2.0
// tests/conformance/program/bound_parts.h: what the files of bound.h share.
#pragma once

#include "bound.h"

namespace yoke::conformance {

Bound point(double value);
// `units` more on both sides, then rounded.
Bound widened(program::Type type, Bound bound, double units);
Bound negated(const Bound& x);
// What an operation on one float may give; as apply_bound.
Bound float_of_one(program::Op op, program::Type type, const Bound& x);

}  // namespace yoke::conformance
