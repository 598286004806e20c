// SPDX-License-Identifier: Apache-2.0
// plugin_api/conformance/program/bound.cpp: interval arithmetic with the error budgets of error_units.h.
#include "bound.h"

#include <algorithm>
#include <cmath>

#include "bound_parts.h"
#include "error_units.h"
#include "number.h"

namespace yoke::conformance {

using program::Op;
using program::Scalar;
using program::Type;

Bound point(double value) {
  Bound bound;
  if (std::isnan(value)) {
    bound.low = kInfinity;
    bound.high = -kInfinity;
    bound.nan = true;
  } else {
    bound.low = value;
    bound.high = value;
  }
  return bound;
}

Bound widened(Type type, Bound bound, double units) {
  const Type in = type == Type::kF64 ? Type::kF64 : Type::kF32;  // 16-bit floats compute in f32
  const double tiny = smallest_normal(in);
  if (std::isfinite(bound.low)) {
    bound.low -= units * unit_at(in, bound.low) + (std::fabs(bound.low) < tiny && bound.low != 0 ? tiny : 0);
  } else if (bound.low == kInfinity && bound.high == kInfinity) {
    bound.low = type == Type::kF64 ? std::numeric_limits<double>::max() : bound.low;
  }
  if (std::isfinite(bound.high)) {
    bound.high +=
        units * unit_at(in, bound.high) + (std::fabs(bound.high) < tiny && bound.high != 0 ? tiny : 0);
  }
  return rounded_to(type, bound);
}

namespace {

Bound truth(bool value) {
  return bound_of(Type::kBool, {0, value ? 1 : 0});
}

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

bool spans_zero(const Bound& x) {
  return x.low <= 0 && x.high >= 0;
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
  } else if (type == Type::kF64 && std::fma(x.low, y.low, -whole) != 0) {
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

Bound extreme(Op op, Type type, const Bound* a) {
  const bool has_sign = (a[0].low != 0 || a[0].zero_is_signed) && (a[1].low != 0 || a[1].zero_is_signed);
  if (a[0].is_point() && a[1].is_point() && has_sign) {
    const Scalar arguments[] = {{a[0].low, 0}, {a[1].low, 0}};
    return bound_of(type, program::apply(op, type, arguments));
  }
  Bound result;
  const bool highest = op == Op::kMax;
  result.low = highest ? std::max(a[0].low, a[1].low) : std::min(a[0].low, a[1].low);
  result.high = highest ? std::max(a[0].high, a[1].high) : std::min(a[0].high, a[1].high);
  result.nan = a[0].nan || a[1].nan;
  return result;
}

// x % y of floats is exact, but it jumps: a range of operands may give any remainder.
Bound remainder(Type type, const Bound* a) {
  if (!a[0].is_point() || !a[1].is_point()) {
    return anything(type);
  }
  const Scalar arguments[] = {{a[0].low, 0}, {a[1].low, 0}};
  return point(program::apply(Op::kMod, type, arguments).number);
}

Bound fused(Type type, const Bound* a) {
  if (a[0].is_point() && a[1].is_point() && a[2].is_point()) {
    const Scalar arguments[] = {{a[0].low, 0}, {a[1].low, 0}, {a[2].low, 0}};
    return point(program::apply(Op::kFma, type, arguments).number);
  }
  Bound product;
  if (may_be_zero_times_infinity(a[0], a[1]) ||
      !corners(a[0], a[1], product, [](double x, double y) { return x * y; })) {
    return anything(type);
  }
  product.low = std::nextafter(product.low, -kInfinity);
  product.high = std::nextafter(product.high, kInfinity);
  return added(type, product, a[2]);
}

enum class Truth { kNever, kAlways, kMaybe };

Bound truth(Truth value) {
  return value == Truth::kMaybe ? anything(Type::kBool) : truth(value == Truth::kAlways);
}

// A comparison that holds if `always`, unless an operand is NaN, and does not hold if `never`.
Truth decided(bool always, bool never, const Bound& x, const Bound& y) {
  if (never || x.is_nan() || y.is_nan()) {
    return Truth::kNever;
  }
  return always && !x.nan && !y.nan ? Truth::kAlways : Truth::kMaybe;
}
Truth less(const Bound& x, const Bound& y) {
  return decided(x.high < y.low, x.low >= y.high, x, y);
}
Truth less_equal(const Bound& x, const Bound& y) {
  return decided(x.high <= y.low, x.low > y.high, x, y);
}
Truth equal(const Bound& x, const Bound& y) {
  return decided(x.is_point() && y.is_point() && x.low == y.low, x.high < y.low || y.high < x.low, x, y);
}
Truth opposite(Truth value) {
  return value == Truth::kAlways ? Truth::kNever : value == Truth::kNever ? Truth::kAlways : value;
}

// NaN if an argument is; an operation for which this is not so checks its arguments before.
bool any_is_nan(const Bound* a, int arity) {
  return std::any_of(a, a + arity, [](const Bound& x) { return x.is_nan(); });
}

// NOLINTNEXTLINE(readability-function-size): one line per operation
Bound bound_of_floats(Op op, Type type, const Bound* a) {
  const bool propagates = program::op_info(op).result == program::Result::kSame && op != Op::kPow;
  if (propagates && any_is_nan(a, program::op_info(op).arity)) {
    return point(std::numeric_limits<double>::quiet_NaN());
  }
  switch (op) {
    case Op::kAdd:
      return added(type, a[0], a[1]);
    case Op::kSub:
      return added(type, a[0], negated(a[1]));
    case Op::kMul:
      return multiplied(type, a[0], a[1]);
    case Op::kDiv:
      return divided(type, a[0], a[1]);
    case Op::kMod:
      return remainder(type, a);
    case Op::kMin:
    case Op::kMax:
      return extreme(op, type, a);
    case Op::kPow:
      return power(type, a[0], a[1]);
    case Op::kFma:
      return fused(type, a);
    case Op::kLess:
      return truth(less(a[0], a[1]));
    case Op::kLessEqual:
      return truth(less_equal(a[0], a[1]));
    case Op::kGreater:
      return truth(less(a[1], a[0]));
    case Op::kGreaterEqual:
      return truth(less_equal(a[1], a[0]));
    case Op::kEqual:
      return truth(equal(a[0], a[1]));
    case Op::kNotEqual:
      return truth(opposite(equal(a[0], a[1])));
    case Op::kSign:
    case Op::kFloor:
    case Op::kCeil:
    case Op::kRound:
    case Op::kTrunc:
    case Op::kExpm1:
    case Op::kTanh:
    case Op::kErf:
      return rising(op, type, a[0]);
    case Op::kNeg:
    case Op::kAbs:
    case Op::kExp:
    case Op::kExp2:
    case Op::kLog:
    case Op::kLog2:
    case Op::kLog1p:
    case Op::kSqrt:
    case Op::kRsqrt:
    case Op::kRecip:
    case Op::kSin:
    case Op::kCos:
    case Op::kSigmoid:
    case Op::kErfc:
      return float_of_one(op, type, a[0]);
    case Op::kConst:
    case Op::kRead:
    case Op::kIndex:
    case Op::kCast:
    case Op::kGuard:
    case Op::kAnd:
    case Op::kOr:
    case Op::kNot:
    case Op::kBitAnd:
    case Op::kBitOr:
    case Op::kBitXor:
    case Op::kBitNot:
    case Op::kShiftLeft:
    case Op::kShiftRight:
    case Op::kSelect:
    case Op::kRandomBits:
      break;  // not operations on floats only
  }
  return anything(type);
}

Bound logic(Op op, const Bound* a) {
  const bool decides = op == Op::kOr;
  for (int i = 0; i < 2; ++i) {
    if (!a[i].unknown && (a[i].integer != 0) == decides) {
      return truth(decides);
    }
  }
  return a[0].unknown || a[1].unknown ? anything(Type::kBool) : truth(!decides);
}

}  // namespace

Bound bound_of(Type type, const Scalar& value) {
  Bound bound;
  if (program::is_float(type)) {
    bound = point(value.number);
    bound.zero_is_signed = true;
  } else {
    bound.integer = value.integer;
  }
  return bound;
}

Bound anything(Type type) {
  Bound bound;
  bound.unknown = true;
  if (program::is_float(type)) {
    bound.low = -kInfinity;
    bound.high = kInfinity;
    bound.nan = true;
  }
  return bound;
}

Bound settled(const Bound& bound) {
  if (!bound.product) {
    return bound;
  }
  Bound result = bound;
  result.product = false;
  result.low = bound.rounded;
  result.high = bound.rounded;
  return result;
}

Bound rounded_to(Type type, Bound bound) {
  if (bound.low > bound.high) {
    return bound;
  }
  const bool is_point = bound.low == bound.high;
  bound.low = program::round_to_type(type, bound.low);
  bound.high = is_point ? bound.low : program::round_to_type(type, bound.high);
  return bound;
}

Bound hull(const Bound& a, const Bound& b) {
  if (a.unknown || b.unknown) {
    return a.unknown ? a : b;
  }
  Bound result = a;
  result.low = std::min(a.low, b.low);
  result.high = std::max(a.high, b.high);
  result.nan = a.nan || b.nan;
  result.zero_is_signed = false;
  return result;
}

Bound apply_bound(Op op, Type type, const Bound* given) {
  Bound a[3];
  const int arity = program::op_info(op).arity;
  const bool keeps_products = op == Op::kAdd || op == Op::kSub || op == Op::kNeg;
  bool unknown = false;
  for (int i = 0; i < arity; ++i) {
    a[i] = keeps_products ? given[i] : settled(given[i]);
    unknown = unknown || a[i].unknown;
  }
  if (op == Op::kSelect) {
    if (!a[0].unknown) {
      return a[0].integer != 0 ? a[1] : a[2];
    }
    if (program::is_float(type)) {
      return hull(a[1], a[2]);
    }
    return !a[1].unknown && !a[2].unknown && a[1].integer == a[2].integer ? a[1] : anything(type);
  }
  if (op == Op::kAnd || op == Op::kOr) {
    return logic(op, a);
  }
  if (program::is_float(type)) {
    return bound_of_floats(op, type, a);
  }
  if (unknown) {
    return anything(program::op_info(op).result == program::Result::kBool ? Type::kBool : type);
  }
  const Scalar arguments[] = {{0, a[0].integer}, {0, a[1].integer}, {0, a[2].integer}};
  return bound_of(Type::kI64, program::apply(op, type, arguments));
}

Bound convert_bound(Type from, Type to, const Bound& given) {
  const Bound value = settled(given);
  if (from == to) {
    return value;
  }
  if (!program::is_float(from)) {
    return value.unknown ? anything(to) : bound_of(to, program::convert(from, to, {0, value.integer}));
  }
  if (program::is_float(to)) {
    return rounded_to(to, value);
  }
  if (value.is_nan()) {
    return bound_of(to, program::convert(from, to, {std::numeric_limits<double>::quiet_NaN(), 0}));
  }
  const Scalar low = program::convert(from, to, {value.low, 0});
  const Scalar high = program::convert(from, to, {value.high, 0});
  // Conversion to bool: only 0 is false, so a range that contains 0 and other values has both results.
  const bool crosses = to == Type::kBool && value.low < 0 && value.high > 0;
  return value.nan || low.integer != high.integer || crosses ? anything(to) : bound_of(to, low);
}

}  // namespace yoke::conformance
