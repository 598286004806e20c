// SPDX-License-Identifier: Apache-2.0
// plugin_api/conformance/program/bound_arithmetic.cpp: the range of + * / % min max pow and fma.
#include <algorithm>
#include <cmath>
#include <limits>

#include "bound_parts.h"
#include "error_units.h"
#include "number.h"

namespace yoke::conformance {

using program::Op;
using program::Scalar;
using program::Type;

namespace {

bool contains(const Bound& x, double value) {
  return x.low <= value && x.high >= value;
}
bool spans_zero(const Bound& x) {
  return contains(x, 0);
}

// Whether x * y may be 0 * infinity, which is NaN. The 0 may lie between the ends.
bool may_be_zero_times_infinity(const Bound& x, const Bound& y) {
  return (spans_zero(x) && (y.low == -kInfinity || y.high == kInfinity)) ||
         (spans_zero(y) && (x.low == -kInfinity || x.high == kInfinity));
}

template <class Apply>
bool corners(const Bound& x, const Bound& y, Bound& result, Apply apply) {
  const double values[] = {apply(x.low, y.low), apply(x.low, y.high), apply(x.high, y.low),
                           apply(x.high, y.high)};
  result = point(*std::min_element(std::begin(values), std::end(values)));
  result.high = *std::max_element(std::begin(values), std::end(values));
  result.nan = x.nan || y.nan;
  return std::none_of(std::begin(values), std::end(values), [](double value) { return std::isnan(value); });
}

}  // namespace

// The range of a sum: the sums of the ends, widened by one double because they are rounded themselves.
Bound added(Type type, const Bound& x, const Bound& y) {
  if (x.is_point() && y.is_point()) {
    return rounded_to(type, point(x.low + y.low));
  }
  const double low = x.low + y.low;
  const double high = x.high + y.high;
  const bool opposite =
      (x.high == kInfinity && y.low == -kInfinity) || (x.low == -kInfinity && y.high == kInfinity);
  if (opposite || std::isnan(low) || std::isnan(high)) {
    return anything(type);
  }
  Bound result = point(std::nextafter(low, -kInfinity));
  result.high = std::nextafter(high, kInfinity);
  result.nan = x.nan || y.nan;
  return rounded_to(type, result);
}

Bound multiplied(Type type, const Bound& x, const Bound& y) {
  Bound result;
  if (!x.is_point() || !y.is_point()) {
    if (may_be_zero_times_infinity(x, y) ||
        !corners(x, y, result, [](double a, double b) { return a * b; })) {
      return anything(type);
    }
    result.low = std::nextafter(result.low, -kInfinity);
    result.high = std::nextafter(result.high, kInfinity);
    return rounded_to(type, result);
  }
  const double whole = x.low * y.low;  // exact for all but f64
  result = point(program::round_to_type(type, whole));
  if (program::byte_size(type) == 2 || !std::isfinite(x.low) || !std::isfinite(y.low)) {
    return result;
  }
  result.rounded = result.low;
  if (!std::isfinite(result.low)) {  // without rounding, the product is finite
    result.product = true;
    (whole > 0 ? result.low : result.high) = std::copysign(largest(type), whole);
    return result;
  }
  if (type == Type::kF32 && whole != result.low) {
    result.product = true;
    result.low = std::min(whole, result.rounded);
    result.high = std::max(whole, result.rounded);
  } else if (type == Type::kF64 && !is_exact_product(x.low, y.low, whole)) {
    result.product = true;
    result.low = std::nextafter(whole, -kInfinity);
    result.high = std::nextafter(whole, kInfinity);
  }
  return result;
}

Bound divided(Type type, const Bound& x, const Bound& y) {
  const double units = error_units(Op::kDiv, type);
  if (x.is_point() && y.is_point()) {
    const double value = x.low / y.low;
    if (y.low == 0 && !std::isnan(value) && !(y.zero_is_signed && (x.low != 0))) {
      return hull(point(kInfinity), point(-kInfinity));
    }
    const bool special =
        value == 0 ? x.low == 0 || std::isinf(y.low)
                   : !std::isfinite(value) && (std::isinf(x.low) || y.low == 0 || std::isnan(value));
    return special ? point(value) : widened(type, point(value), units);
  }
  Bound result;
  if ((y.low <= 0 && y.high >= 0) || !corners(x, y, result, [](double a, double b) { return a / b; })) {
    return anything(type);
  }
  return widened(type, result, units);
}

Bound power(Type type, const Bound& x, const Bound& y) {
  const auto apply = [](double a, double b) { return std::pow(a, b); };
  const double units = error_units(Op::kPow, type);
  if ((x.is_point() && x.low == 1) || (y.is_point() && y.low == 0)) {
    return point(1);  // also if the other operand is NaN, as in C
  }
  if ((x.is_nan() && !contains(y, 0)) || (y.is_nan() && !contains(x, 1))) {
    return point(std::numeric_limits<double>::quiet_NaN());
  }
  if (x.is_point() && y.is_point()) {
    const double value = std::pow(x.low, y.low);
    const bool odd_zero = x.low == 0 && y.low < 0 && !x.zero_is_signed;
    if (odd_zero) {
      return hull(point(kInfinity), point(-kInfinity));
    }
    const bool special =
        std::isnan(value) || y.low == 0 || x.low == 1 || x.low == 0 || std::isinf(x.low) || std::isinf(y.low);
    return special ? point(program::round_to_type(type, value)) : widened(type, point(value), units);
  }
  Bound result;
  if (x.is_nan() || y.is_nan() || x.low <= 0 || !corners(x, y, result, apply)) {
    return anything(type);
  }
  return widened(type, result, units);
}

Bound extreme(Op op, Type type, const Bound& x, const Bound& y) {
  const bool has_sign = (x.low != 0 || x.zero_is_signed) && (y.low != 0 || y.zero_is_signed);
  if (x.is_point() && y.is_point() && has_sign) {
    const Scalar arguments[] = {{x.low, 0}, {y.low, 0}};
    return bound_of(type, program::apply(op, type, arguments));
  }
  Bound result;
  const bool highest = op == Op::kMax;
  result.low = highest ? std::max(x.low, y.low) : std::min(x.low, y.low);
  result.high = highest ? std::max(x.high, y.high) : std::min(x.high, y.high);
  result.nan = x.nan || y.nan;
  return result;
}

// x % y of floats is exact, but it jumps: a range of operands may give any remainder.
Bound remainder(Type type, const Bound& x, const Bound& y) {
  if (!x.is_point() || !y.is_point()) {
    return anything(type);
  }
  const Scalar arguments[] = {{x.low, 0}, {y.low, 0}};
  return point(program::apply(Op::kMod, type, arguments).number);
}

Bound fused(Type type, const Bound& x, const Bound& y, const Bound& z) {
  if (x.is_point() && y.is_point() && z.is_point()) {
    const Scalar arguments[] = {{x.low, 0}, {y.low, 0}, {z.low, 0}};
    return point(program::apply(Op::kFma, type, arguments).number);
  }
  Bound product;
  if (may_be_zero_times_infinity(x, y) || !corners(x, y, product, [](double p, double q) { return p * q; })) {
    return anything(type);
  }
  product.low = std::nextafter(product.low, -kInfinity);
  product.high = std::nextafter(product.high, kInfinity);
  return added(type, product, z);
}

}  // namespace yoke::conformance
