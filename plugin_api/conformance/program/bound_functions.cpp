// SPDX-License-Identifier: Apache-2.0
// plugin_api/conformance/program/bound_functions.cpp: the range of a function of one float.
#include <algorithm>
#include <cmath>

#include "bound_parts.h"
#include "error_units.h"

namespace yoke::conformance {

using program::Op;
using program::Scalar;
using program::Type;

namespace {

double exact_of(Op op, double x) {
  Scalar argument{x, 0};
  return program::apply(op, Type::kF64, &argument).number;
}

// Monotonic functions: the results at both ends. `falls`: the function is decreasing.
Bound monotonic(Op op, Type type, const Bound& x, bool falls, double units) {
  Bound result = point(exact_of(op, falls ? x.high : x.low));
  if (!x.is_point()) {
    result.high = exact_of(op, falls ? x.low : x.high);
    result.nan = x.nan;
  }
  return units > 0 ? widened(type, result, units) : rounded_to(type, result);
}

Bound sine(Op op, Type type, const Bound& x, double units) {
  if (x.is_point()) {
    const double value = exact_of(op, x.low);
    return std::isnan(value) ? point(value) : widened(type, point(value), units);
  }
  if (!std::isfinite(x.low) || !std::isfinite(x.high)) {
    return anything(type);
  }
  const double middle = exact_of(op, x.low / 2 + x.high / 2);
  const double reach = x.high - x.low;  // the slope is at most 1
  Bound result = point(middle);
  result.low = std::max(-1.0, middle - reach);
  result.high = std::min(1.0, middle + reach);
  result.nan = x.nan;
  return widened(type, result, units);
}

// Functions that are defined for arguments of at least `edge`.
Bound from_edge(Op op, Type type, const Bound& x, double edge, bool falls, double units) {
  if (x.is_point() || x.low >= edge) {
    const double value = exact_of(op, x.low);
    return x.is_point() && std::isnan(value) ? point(value) : monotonic(op, type, x, falls, units);
  }
  if (x.high < edge) {
    return point(std::numeric_limits<double>::quiet_NaN());
  }
  Bound inside = x;
  inside.low = edge;
  Bound result = monotonic(op, type, inside, falls, units);
  result.nan = true;
  return result;
}

Bound reciprocal(Type type, const Bound& x, double units) {
  if (x.low <= 0 && x.high >= 0) {
    if (!x.is_point()) {
      return anything(type);
    }
    Bound result = point(1 / x.low);
    if (!x.zero_is_signed) {
      result.low = -kInfinity;
      result.high = kInfinity;
    }
    return result;
  }
  return monotonic(Op::kRecip, type, x, true, units);
}

Bound absolute(const Bound& x) {
  Bound result = x;
  if (x.low <= 0 && x.high >= 0) {
    result.low = 0;
    result.high = std::max(std::fabs(x.low), std::fabs(x.high));
  } else if (x.high < 0) {
    result.low = -x.high;
    result.high = -x.low;
  }
  if (result.low == 0) {
    result.low = 0;
    result.high = std::fabs(result.high);
    result.zero_is_signed = true;  // it is a positive zero
  }
  return result;
}

// For functions that are never negative, in any implementation.
Bound not_negative(Bound result) {
  result.low = std::max(result.low, result.low > result.high ? result.low : 0.0);
  return result;
}

}  // namespace

Bound negated(const Bound& x) {
  Bound result = x;
  result.low = -x.high;
  result.high = -x.low;
  result.rounded = -x.rounded;
  return result;
}

Bound rising(Op op, Type type, const Bound& x) {
  return monotonic(op, type, x, false, error_units(op, type));
}

Bound float_of_one(Op op, Type type, const Bound& x) {
  const double units = error_units(op, type);
  switch (op) {
    case Op::kNeg:
      return negated(x);
    case Op::kAbs:
      return absolute(x);
    case Op::kSin:
    case Op::kCos:
      return sine(op, type, x, units);
    case Op::kLog:
    case Op::kLog2:
    case Op::kSqrt:
      return from_edge(op, type, x, 0, false, units);
    case Op::kRsqrt:
      if (x.low <= 0 && x.high >= 0 && !x.zero_is_signed) {
        return x.is_point() ? hull(point(kInfinity), point(-kInfinity)) : anything(type);
      }
      return from_edge(op, type, x, 0, true, units);
    case Op::kLog1p:
      return from_edge(op, type, x, -1, false, units);
    case Op::kRecip:
      return reciprocal(type, x, units);
    case Op::kErfc:
      return not_negative(monotonic(op, type, x, true, units));
    case Op::kExp:
    case Op::kExp2:
    case Op::kSigmoid:
      return not_negative(monotonic(op, type, x, false, units));
    default:
      return anything(type);
  }
}

}  // namespace yoke::conformance
