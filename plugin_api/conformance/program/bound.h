// SPDX-License-Identifier: Apache-2.0
// plugin_api/conformance/program/bound.h: the set of values that one element may have on a
// correct backend, and operations on such sets.
#pragma once

#include <yoke/program/program.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>

#include "scalar.h"

namespace yoke::conformance {

inline constexpr double kInfinity = std::numeric_limits<double>::infinity();

// Floats: every value in [low, high], and NaN if `nan` is set. An exact value has low == high; a certain
// NaN has an empty range. Integers and bool: `integer`, or any value if `unknown` is set.
struct Bound {
  double low = 0;
  double high = 0;
  // The rounded value of a product, whose range also contains the unrounded value; see `product`.
  double rounded = 0;
  std::int64_t integer = 0;
  bool nan = false;
  bool unknown = false;
  bool product = false;         // set until the next operation calls settled()
  bool zero_is_signed = false;  // the value was only moved, so a zero keeps its sign

  bool is_point() const { return low == high && !nan; }
  bool is_nan() const { return low > high && nan; }
};

// Exact; a NaN has an empty range.
inline Bound point(double value) {
  Bound bound;
  bound.nan = value != value;
  bound.low = bound.nan ? kInfinity : value;
  bound.high = bound.nan ? -kInfinity : value;
  return bound;
}
inline Bound bound_of(program::Type type, const program::Scalar& value) {
  if (program::is_float(type)) {
    Bound bound = point(value.number);
    bound.zero_is_signed = true;
    return bound;
  }
  Bound bound;
  bound.integer = value.integer;
  return bound;
}
Bound anything(program::Type type);

// Rounds a product, as happens when it is stored or used by anything except a sum.
inline Bound settled(const Bound& bound) {
  Bound result = bound;
  if (bound.product) {
    result.product = false;
    result.low = bound.rounded;
    result.high = bound.rounded;
  }
  return result;
}
// Rounds both ends to the type.
Bound rounded_to(program::Type type, Bound bound);
Bound hull(const Bound& a, const Bound& b);

// The possible results of `op` on arguments of type `type`, one pointer for each; compare program::apply.
Bound apply_bound(program::Op op, program::Type type, const Bound* const* arguments);
Bound convert_bound(program::Type from, program::Type to, const Bound& value);

// The exponent of the lowest set bit of a finite value, and the number of bits from there to the highest one.
struct MantissaBits {
  int lowest = 4096;
  int span = 0;
};
inline MantissaBits mantissa_bits(double value) {
  const auto raw = std::bit_cast<std::uint64_t>(value);
  const int field = static_cast<int>(raw >> 52U & 0x7FFU);
  const std::uint64_t mantissa = (raw & 0xFFFFFFFFFFFFFU) | (field != 0 ? 1ULL << 52U : 0);
  if (mantissa == 0) {
    return {};
  }
  const int zeros = std::countr_zero(mantissa);
  return {std::max(field, 1) - 1075 + zeros, 64 - std::countl_zero(mantissa) - zeros};
}

// Whether the f64 `product` of finite numbers is not rounded. std::fma computes the error, which is 0 also if it is too
// small for f64; then the exact product has a bit below the lowest one of f64.
inline bool is_exact_product(double x, double y, double product) {
  constexpr int kLowestBit = -1074;
  return x == 0 || y == 0 ||
         (std::fma(x, y, -product) == 0 && mantissa_bits(x).lowest + mantissa_bits(y).lowest >= kLowestBit);
}

// Terms of a sum of floats, taken together.
struct SumTerms {
  double low = 0;  // the range of their exact sum
  double high = 0;
  double magnitude = 0;  // sum of |x|
  double count = 0;
  int lowest_bit = 4096;  // a bit of this exponent or higher is the lowest one of each term
  bool points = true;     // each term is one value
  bool nan = false;
  bool plus_infinity = false;
  bool minus_infinity = false;
};

// Folds values in any order and grouping, as a reduction or a scatter may. Sums and products of floats
// collect the figures for their error bound; every other fold is computed directly.
class Fold {
 public:
  Fold(program::Op op, program::Type type);  // kAdd, kMul, kMin, kMax, kAnd, kOr
  void add(const Bound& value);
  void add_terms(const SumTerms& terms);  // precondition: a sum of floats
  Bound result() const;

 private:
  void add_float(const Bound& value);
  void add_factor(const Bound& value);
  Bound sum() const;
  Bound prod() const;

  program::Op op_;
  program::Type type_;
  Bound folded_;    // the result of every other fold
  double low_ = 0;  // range of the sum or product so far
  double high_ = 0;
  double magnitude_ = 0;  // sums: sum of |x|; products: the largest |partial product|
  double smallest_ = 1;   // products: the smallest |partial product| in any order
  double count_ = 0;
  int lowest_bit_ = 4096;  // exponent of the lowest bit set in any term
  int bits_ = 0;           // products: total bits of the factors' mantissas
  bool points_ = true;
  bool nan_ = false;
  bool maybe_nan_ = false;
  bool plus_infinity_ = false;
  bool minus_infinity_ = false;
  bool zero_ = false;
};

}  // namespace yoke::conformance
