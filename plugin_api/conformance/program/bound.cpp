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
bool any_is_nan(const Bound* const* a, int arity) {
  return std::any_of(a, a + arity, [](const Bound* x) { return x->is_nan(); });
}

// NOLINTNEXTLINE(readability-function-size): one line per operation
Bound bound_of_floats(Op op, const program::OpInfo& info, Type type, const Bound* const* a) {
  if (info.result == program::Result::kSame && op != Op::kPow && any_is_nan(a, info.arity)) {
    return point(std::numeric_limits<double>::quiet_NaN());
  }
  switch (op) {
    case Op::kAdd:
      return added(type, *a[0], *a[1]);
    case Op::kSub:
      return added(type, *a[0], negated(*a[1]));
    case Op::kMul:
      return multiplied(type, *a[0], *a[1]);
    case Op::kDiv:
      return divided(type, *a[0], *a[1]);
    case Op::kMod:
      return remainder(type, *a[0], *a[1]);
    case Op::kMin:
    case Op::kMax:
      return extreme(op, type, *a[0], *a[1]);
    case Op::kPow:
      return power(type, *a[0], *a[1]);
    case Op::kFma:
      return fused(type, *a[0], *a[1], *a[2]);
    case Op::kLess:
      return truth(less(*a[0], *a[1]));
    case Op::kLessEqual:
      return truth(less_equal(*a[0], *a[1]));
    case Op::kGreater:
      return truth(less(*a[1], *a[0]));
    case Op::kGreaterEqual:
      return truth(less_equal(*a[1], *a[0]));
    case Op::kEqual:
      return truth(equal(*a[0], *a[1]));
    case Op::kNotEqual:
      return truth(opposite(equal(*a[0], *a[1])));
    case Op::kSign:
    case Op::kFloor:
    case Op::kCeil:
    case Op::kRound:
    case Op::kTrunc:
    case Op::kExpm1:
    case Op::kTanh:
    case Op::kErf:
      return rising(op, type, *a[0]);
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
      return float_of_one(op, type, *a[0]);
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

Bound logic(Op op, const Bound* const* a) {
  const bool decides = op == Op::kOr;
  for (int i = 0; i < 2; ++i) {
    if (!a[i]->unknown && (a[i]->integer != 0) == decides) {
      return truth(decides);
    }
  }
  return a[0]->unknown || a[1]->unknown ? anything(Type::kBool) : truth(!decides);
}

}  // namespace

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

Bound apply_bound(Op op, Type type, const Bound* const* a) {
  const program::OpInfo& info = program::op_info(op);
  const bool keeps_products = op == Op::kAdd || op == Op::kSub || op == Op::kNeg;
  bool unknown = false;
  bool rounds = false;
  for (int i = 0; i < info.arity; ++i) {
    unknown = unknown || a[i]->unknown;
    rounds = rounds || (a[i]->product && !keeps_products);
  }
  if (rounds) {
    Bound rounded[3];
    const Bound* pointers[] = {&rounded[0], &rounded[1], &rounded[2]};
    for (int i = 0; i < info.arity; ++i) {
      rounded[i] = settled(*a[i]);
    }
    return apply_bound(op, type, pointers);
  }
  if (op == Op::kSelect) {
    if (!a[0]->unknown) {
      return a[0]->integer != 0 ? *a[1] : *a[2];
    }
    if (program::is_float(type)) {
      return hull(*a[1], *a[2]);
    }
    return !a[1]->unknown && !a[2]->unknown && a[1]->integer == a[2]->integer ? *a[1] : anything(type);
  }
  if (op == Op::kAnd || op == Op::kOr) {
    return logic(op, a);
  }
  if (program::is_float(type)) {
    return bound_of_floats(op, info, type, a);
  }
  if (unknown) {
    return anything(info.result == program::Result::kBool ? Type::kBool : type);
  }
  Scalar arguments[3];
  for (int i = 0; i < info.arity; ++i) {
    arguments[i].integer = a[i]->integer;
  }
  return bound_of(Type::kI64, program::apply(op, type, arguments));
}

Bound convert_bound(Type from, Type to, const Bound& value) {
  if (value.product) {
    return convert_bound(from, to, settled(value));
  }
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
