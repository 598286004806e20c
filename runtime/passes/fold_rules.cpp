// SPDX-License-Identifier: Apache-2.0
// runtime/passes/fold_rules.cpp: identities that hold bit for bit. x-0.0 = x holds; x+0.0 = x does not,
// because x may be -0.0.
#include <cmath>
#include <limits>

#include "fold.h"

namespace yoke::passes {
namespace {

// Whether `expr` is this constant. Precondition: a double represents
// `value` exactly if the type is an integer.
bool is_number(const Expr& expr, double value) {
  if (expr.op != Op::kConst) {
    return false;
  }
  if (!program::is_float(expr.type)) {
    return expr.literal.integer == static_cast<std::int64_t>(value);
  }
  return expr.literal.number == value && std::signbit(expr.literal.number) == std::signbit(value);
}

bool is_truth(const Expr& expr, bool value) {
  return expr.op == Op::kConst && expr.type == Type::kBool && (expr.literal.integer != 0) == value;
}

bool is_integer_constant(const Expr& expr, std::int64_t value) {
  return expr.op == Op::kConst && !program::is_float(expr.type) && expr.literal.integer == value;
}

// Whether combining x with this constant on the right (else on the left) always yields x.
bool is_neutral(Op op, const Expr& expr, bool on_the_right) {
  const bool is_float = program::is_float(expr.type);
  const double infinity = std::numeric_limits<double>::infinity();
  switch (op) {
    case Op::kAdd:
      return is_number(expr, is_float ? -0.0 : 0.0);
    case Op::kSub:
      return on_the_right && is_number(expr, 0.0);
    case Op::kMul:
      return is_number(expr, 1.0);
    case Op::kDiv:
      return on_the_right && is_number(expr, 1.0);
    case Op::kMax:
      return is_float ? is_number(expr, -infinity) : is_integer_constant(expr, lowest_integer(expr.type));
    case Op::kMin:
      return is_float ? is_number(expr, infinity) : is_integer_constant(expr, highest_integer(expr.type));
    case Op::kAnd:
      return is_truth(expr, true);
    case Op::kOr:
      return is_truth(expr, false);
    case Op::kBitAnd:
      return is_integer_constant(expr, lowest_integer(expr.type) < 0 ? -1 : highest_integer(expr.type));
    case Op::kBitOr:
    case Op::kBitXor:
      return is_integer_constant(expr, 0);
    case Op::kShiftLeft:
    case Op::kShiftRight:
      return on_the_right && is_integer_constant(expr, 0);
    default:
      return false;
  }
}

// Whether this constant operand determines the result: x*0 for
// integers (division by zero yields 0), x && false.
bool decides(Op op, const Expr& expr, bool on_the_right) {
  switch (op) {
    case Op::kMul:
    case Op::kBitAnd:
    case Op::kDiv:
    case Op::kMod:
      return is_integer_constant(expr, 0);
    case Op::kShiftLeft:
    case Op::kShiftRight:
      return !on_the_right && is_integer_constant(expr, 0);
    case Op::kAnd:
      return is_truth(expr, false);
    case Op::kOr:
      return is_truth(expr, true);
    case Op::kMax:
      return is_integer_constant(expr, highest_integer(expr.type));
    case Op::kMin:
      return is_integer_constant(expr, lowest_integer(expr.type));
    default:
      return false;
  }
}

std::optional<Expr> same_operands(const Expr& expr) {
  const Expr& x = expr.args[0];
  const bool is_float = program::is_float(x.type);
  switch (expr.op) {
    case Op::kMin:
    case Op::kMax:
    case Op::kAnd:
    case Op::kOr:
    case Op::kBitAnd:
    case Op::kBitOr:
      return x;
    case Op::kSub:
    case Op::kBitXor:
      return is_float ? std::nullopt : std::optional(Expr::constant(x.type, 0));
    // A NaN is not equal to itself.
    case Op::kEqual:
    case Op::kLessEqual:
    case Op::kGreaterEqual:
      return is_float ? std::nullopt : std::optional(Expr::constant(Type::kBool, 1));
    case Op::kNotEqual:
      return is_float ? std::nullopt : std::optional(Expr::constant(Type::kBool, 0));
    case Op::kLess:
    case Op::kGreater:
      return Expr::constant(Type::kBool, 0);
    default:
      return std::nullopt;
  }
}

// x / 2^k = x * 2^-k: both round the same real number if 2^-k is a normal number of the type.
std::optional<Expr> division_by_power(const Expr& expr) {
  const Expr& divisor = expr.args[1];
  if (expr.op != Op::kDiv || divisor.op != Op::kConst || !program::is_float(expr.type)) {
    return std::nullopt;
  }
  int exponent = 0;
  if (std::abs(std::frexp(divisor.literal.number, &exponent)) != 0.5) {
    return std::nullopt;
  }
  const int limit = expr.type == Type::kF64 ? 1000 : expr.type == Type::kF16 ? 14 : 120;
  if (std::abs(exponent - 1) > limit) {
    return std::nullopt;
  }
  return Expr::make(Op::kMul, {expr.args[0], Expr::constant(expr.type, 1 / divisor.literal.number)});
}

// (x + a) + b and (x * a) * b for integers, which wrap around.
std::optional<Expr> gathered_constants(const Expr& expr) {
  const Expr& inner = expr.args[0];
  if ((expr.op != Op::kAdd && expr.op != Op::kMul) || program::is_float(expr.type) || inner.op != expr.op ||
      expr.args[1].op != Op::kConst || inner.args[1].op != Op::kConst) {
    return std::nullopt;
  }
  std::optional<Expr> constant = computed(Expr::make(expr.op, {inner.args[1], expr.args[1]}));
  if (!constant) {
    return std::nullopt;
  }
  return Expr::make(expr.op, {inner.args[0], std::move(*constant)});
}

std::optional<Expr> simplified_binary(const Expr& expr) {
  const Expr& left = expr.args[0];
  const Expr& right = expr.args[1];
  if (decides(expr.op, right, true)) {
    return expr.op == Op::kDiv || expr.op == Op::kMod ? Expr::constant(expr.type, 0) : right;
  }
  if (decides(expr.op, left, false)) {
    return left;
  }
  if (expr.op == Op::kMod && is_integer_constant(right, 1)) {
    return Expr::constant(expr.type, 0);
  }
  if (is_neutral(expr.op, right, true)) {
    return left;
  }
  if (is_neutral(expr.op, left, false)) {
    return right;
  }
  if (program::same(left, right)) {
    return same_operands(expr);
  }
  if (std::optional<Expr> product = division_by_power(expr)) {
    return product;
  }
  return gathered_constants(expr);
}

// Whether every value of `narrow` is a value of `wide`.
bool holds(Type wide, Type narrow) {
  if (wide == narrow || narrow == Type::kBool) {
    return true;
  }
  switch (wide) {
    case Type::kF64:
      return narrow != Type::kI64;
    case Type::kF32:
      return narrow == Type::kF16 || narrow == Type::kBF16 || narrow == Type::kU8;
    case Type::kF16:
    case Type::kBF16:
      return narrow == Type::kU8;
    case Type::kI64:
      return program::is_integer(narrow);
    case Type::kI32:
    case Type::kU32:
      return narrow == Type::kU8;
    default:
      return false;
  }
}

std::optional<Expr> simplified_cast(const Expr& expr) {
  const Expr& inner = expr.args[0];
  if (inner.type == expr.type) {
    return inner;
  }
  if (inner.op != Op::kCast) {
    return std::nullopt;
  }
  const Expr& source = inner.args[0];
  if (!holds(inner.type, source.type)) {
    return std::nullopt;
  }
  // A cast from integer through float to integer saturates; a direct cast would wrap around.
  const bool saturates = program::is_float(inner.type) && program::is_integer(source.type) &&
                         program::is_integer(expr.type) && !holds(expr.type, source.type);
  return saturates ? std::nullopt : std::optional(Expr::cast(expr.type, source));
}

std::optional<Expr> simplified_unary(const Expr& expr) {
  const Expr& inner = expr.args[0];
  switch (expr.op) {
    case Op::kCast:
      return simplified_cast(expr);
    case Op::kNeg:
    case Op::kNot:
    case Op::kBitNot:
      return inner.op == expr.op ? std::optional(inner.args[0]) : std::nullopt;
    case Op::kAbs:
      if (inner.op == Op::kAbs) {
        return inner;
      }
      // For unsigned types, -x has a different magnitude.
      if (inner.op != Op::kNeg || expr.type == Type::kU32 || expr.type == Type::kU8) {
        return std::nullopt;
      }
      return Expr::make(Op::kAbs, {inner.args[0]});
    default:
      return std::nullopt;
  }
}

}  // namespace

std::optional<Expr> simplified(const Expr& expr) {
  if (expr.op == Op::kSelect) {
    if (expr.args[0].op == Op::kConst) {
      return expr.args[is_truth(expr.args[0], true) ? 1 : 2];
    }
    return program::same(expr.args[1], expr.args[2]) ? std::optional(expr.args[1]) : std::nullopt;
  }
  if (expr.op == Op::kFma && program::is_float(expr.type)) {
    for (const std::size_t one : {std::size_t{0}, std::size_t{1}}) {
      if (is_number(expr.args[one], 1.0)) {
        return Expr::make(Op::kAdd, {expr.args[1 - one], expr.args[2]});
      }
    }
    return std::nullopt;
  }
  if (expr.args.size() == 2) {
    return simplified_binary(expr);
  }
  return expr.args.size() == 1 ? simplified_unary(expr) : std::nullopt;
}

}  // namespace yoke::passes
