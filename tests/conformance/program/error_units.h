// SPDX-License-Identifier: Apache-2.0
// tests/conformance/program/error_units.h: how far a right backend's result of one operation may lie from the
// exact one.
#pragma once

#include <yoke/program/program.h>

#include <span>
#include <string_view>

namespace yoke::conformance {

// In units in the last place of the exact result, in the type that the operation is computed in: f64, else
// f32 (16-bit floats compute in f32 and round). Whatever is not in the table is exact: moves, gathers,
// integers, bool, random bits, comparisons, min, max, rounding to an integer, + - * and casts (correctly
// rounded; a product that feeds a + or - may stay unrounded), fma.
struct ErrorUnits {
  program::Op op;
  double f32;
  double f64;
  std::string_view source;
};
std::span<const ErrorUnits> error_table();

// The row's budget for an operation on `type`; 0: exact.
double error_units(program::Op op, program::Type type);

// Sums of n terms x, in any order and grouping: n * u * sum|x|, where u is half a unit of 1 in the type that
// is summed in, and nothing where every partial sum is exact. Products of n factors: 2 * n * u of the result.
inline constexpr double kSumUnits = 1.0;
inline constexpr double kProductUnits = 2.0;

// Bits of the type's mantissa, the leading one included.
int digits(program::Type type);
// The largest finite number.
double largest(program::Type type);
// A function's result below the smallest normal number may be flushed to zero.
double smallest_normal(program::Type type);

// Half a unit in the last place of 1: 2^-53, 2^-24, 2^-11, 2^-8.
double half_unit(program::Type type);
// The distance of neighbours around x, |x| >= smallest normal; for 16-bit types that of f32 where `computed`.
double unit_at(program::Type type, double x);

}  // namespace yoke::conformance
