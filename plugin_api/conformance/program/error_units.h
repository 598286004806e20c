// SPDX-License-Identifier: Apache-2.0
// plugin_api/conformance/program/error_units.h: the error budget of each operation.
#pragma once

#include <yoke/program/program.h>

namespace yoke::conformance {

// The budget of an operation on `type` according to ops.def; 0 if it must be exact or correctly rounded,
// except that a product may stay unrounded in a following + or -.
double error_units(program::Op op, program::Type type);

// Sums of n terms x, in any order and grouping: n * u * sum|x|, where u is half a unit of 1 in the type
// of the sum; 0 if every partial sum is exact. Products of n factors: 2 * n * u of the result.
inline constexpr double kSumUnits = 1.0;
inline constexpr double kProductUnits = 2.0;

// 2^exponent, which is at most 1023; 0 below the smallest subnormal number.
double power_of_two(int exponent);

// Bits of the mantissa, including the leading one.
int digits(program::Type type);
// The largest finite number.
double largest(program::Type type);
// The smallest normal number. A function's result below it may be flushed to zero.
double smallest_normal(program::Type type);

// Half a unit in the last place of 1: 2^-53, 2^-24, 2^-11, 2^-8.
double half_unit(program::Type type);
// The distance between adjacent numbers around x.
double unit_at(program::Type type, double x);

}  // namespace yoke::conformance
