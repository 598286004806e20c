// SPDX-License-Identifier: Apache-2.0
// plugins/codegen/expression.cpp: prints scalar expressions, one named value per operation.
#include <array>
#include <charconv>
#include <cmath>
#include <limits>
#include <stdexcept>

#include "printer.h"

namespace yoke::codegen {

using program::Expr;
using program::is_float;
using program::Literal;
using program::Op;
using program::op_info;
using program::Reduce;
using program::Type;
using program::type_name;

namespace {

std::string infix(Op op) {  // a bool is 0 or 1
  return op == Op::kAnd ? " & " : op == Op::kOr ? " | " : " " + std::string(op_info(op).name) + " ";
}

std::string hexadecimal(double value) {
  std::array<char, 64> digits = {};
  const auto end =
      std::to_chars(digits.data(), digits.data() + digits.size(), std::fabs(value), std::chars_format::hex);
  return (std::signbit(value) ? "-0x" : "0x") + std::string(digits.data(), end.ptr);
}

std::string_view unsigned_type(Type type) {
  return type == Type::kI64 ? "unsigned long long" : type == Type::kU8 ? "unsigned char" : "unsigned";
}

}  // namespace

bool is_16_bit(Type type) {
  return type == Type::kF16 || type == Type::kBF16;
}

std::string_view value_type(Type type) {
  switch (type) {
    case Type::kF64:
      return "double";
    case Type::kF32:
    case Type::kF16:
    case Type::kBF16:
      return "float";
    case Type::kI64:
      return "long long";
    case Type::kU32:
      return "unsigned";
    case Type::kU8:
      return "unsigned char";
    case Type::kI32:
    case Type::kBool:
      break;
  }
  return "int";
}

std::string_view memory_type(Type type) {
  return is_16_bit(type) ? "unsigned short" : type == Type::kBool ? "unsigned char" : value_type(type);
}

std::string literal(Type type, const Literal& value) {
  if (!is_float(type)) {
    // As an unsigned literal, because the lowest value of a signed type has no literal.
    const auto bits = static_cast<std::uint64_t>(value.integer);
    return "((" + std::string(value_type(type)) + ")" +
           (type == Type::kI64 ? std::to_string(bits) + "ull)"
                               : std::to_string(static_cast<std::uint32_t>(bits)) + "u)");
  }
  const std::string suffix = type == Type::kF64 ? "64" : "32";
  if (std::isnan(value.number)) {
    return "YK_NAN_F" + suffix;
  }
  if (std::isinf(value.number)) {
    return (value.number < 0 ? "(-YK_INF_F" : "(YK_INF_F") + suffix + ")";
  }
  return "(" + hexadecimal(value.number) + (type == Type::kF64 ? ")" : "f)");
}

Literal neutral(Reduce reduce, Type type) {
  const bool is_product = reduce == Reduce::kProd;
  Literal start;
  if (reduce == Reduce::kMin || reduce == Reduce::kMax) {
    const bool is_min = reduce == Reduce::kMin;
    start.number =
        is_min ? std::numeric_limits<double>::infinity() : -std::numeric_limits<double>::infinity();
    start.integer = is_min ? program::highest_integer(type) : program::lowest_integer(type);
  } else {
    start.number = is_product ? 1 : 0;
    start.integer = is_product || reduce == Reduce::kAll ? 1 : 0;
  }
  return start;
}

Op fold_of(Reduce reduce) {
  switch (reduce) {
    case Reduce::kProd:
      return Op::kMul;
    case Reduce::kMin:
      return Op::kMin;
    case Reduce::kMax:
      return Op::kMax;
    case Reduce::kAny:
      return Op::kOr;
    case Reduce::kAll:
      return Op::kAnd;
    case Reduce::kSum:
    case Reduce::kArgMax:
    case Reduce::kArgMin:
      break;
  }
  return Op::kAdd;
}

std::string Printer::value(const Expr& expr) {
  switch (expr.op) {
    case Op::kConst:
      return literal(expr.type, expr.literal);
    case Op::kRead:
      return read(expr);
    case Op::kIndex: {
      const program::Affine::Term& term = expr.affine.terms[0];
      return term.is_symbol ? symbol(term.id) : "((long long)" + loops_[term.id] + ")";
    }
    case Op::kGuard:
      return guarded(expr);
    default: {
      std::vector<std::string> args;
      for (const Expr& arg : expr.args) {
        args.push_back(value(arg));
      }
      return named(expr.type, operation(expr, args));
    }
  }
}

std::string Printer::read(const Expr& expr) {
  const Place from = place(expr.access);
  if (from.inside.empty()) {
    return loaded(expr.access.tensor, from.element);
  }
  if (!expr.access.otherwise) {
    inside_ += (inside_.empty() ? "" : " && ") + from.inside;
  }
  const std::string otherwise = literal(expr.type, expr.access.otherwise.value_or(Literal{}));
  const std::string element = from_memory(expr.type, tensor(expr.access.tensor) + "[" + from.element + "]");
  return named(expr.type, from.inside + " ? " + element + " : " + otherwise);
}

std::string Printer::guarded(const Expr& expr) {
  const std::string outer = std::exchange(inside_, "");
  const std::string inner = value(expr.args[0]);
  const std::string inside = std::exchange(inside_, outer);
  return inside.empty() ? inner
                        : named(expr.type, inside + " ? " + inner + " : " + literal(expr.type, expr.literal));
}

std::string Printer::operation(const Expr& expr, const std::vector<std::string>& args) {
  const Type over = expr.args[expr.op == Op::kSelect ? 1 : 0].type;
  if (expr.op == Op::kCast) {
    return converted(over, expr.type, args[0]);
  }
  if (expr.op == Op::kSelect) {
    return args[0] + " ? " + args[1] + " : " + args[2];
  }
  return applied(expr.op, over, args);
}

std::string Printer::applied(Op op, Type type, const std::vector<std::string>& args) {
  return is_float(type) ? float_applied(op, type, args) : integer_applied(op, type, args);
}

// NOLINTNEXTLINE(readability-function-size): one line per operation
std::string Printer::float_applied(Op op, Type type, const std::vector<std::string>& args) {
  const bool is_f64 = type == Type::kF64;
  const auto call = [&](const std::string& name) {
    std::string text = name + "(" + args[0];
    for (std::size_t i = 1; i < args.size(); ++i) {
      text += ", " + args[i];
    }
    return rounded(type, text + ")");
  };
  // C's name: floorf for f32, floor for f64.
  const auto call_c = [&](const std::string& name) { return call(is_f64 ? name : name + "f"); };
  const std::string one = is_f64 ? "1.0" : "1.0f";
  switch (op) {
    case Op::kAdd:
    case Op::kSub:
    case Op::kMul:
    case Op::kDiv:
      return rounded(type, "(" + args[0] + infix(op) + args[1] + ")");
    case Op::kRecip:
      return rounded(type, "(" + one + " / " + args[0] + ")");
    case Op::kSqrt:
    case Op::kRsqrt:
    case Op::kSigmoid:
    case Op::kMin:
    case Op::kMax:
    case Op::kSign:
      return call("yk_" + std::string(op_info(op).name));
    case Op::kNeg:
      return "(-" + args[0] + ")";
    case Op::kMod:
      return call_c("fmod");
    case Op::kAbs:
      return call_c("fabs");
    case Op::kRound:
      return call_c("rint");
    case Op::kFloor:
    case Op::kCeil:
    case Op::kTrunc:
    case Op::kExp:
    case Op::kExp2:
    case Op::kExpm1:
    case Op::kLog:
    case Op::kLog2:
    case Op::kLog1p:
    case Op::kPow:
    case Op::kSin:
    case Op::kCos:
    case Op::kTanh:
    case Op::kErf:
    case Op::kErfc:
    case Op::kFma:
      return call_c(std::string(op_info(op).name));
    case Op::kLess:
    case Op::kLessEqual:
    case Op::kGreater:
    case Op::kGreaterEqual:
    case Op::kEqual:
    case Op::kNotEqual:
      return "(" + args[0] + infix(op) + args[1] + ")";
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
      break;
  }
  throw std::logic_error(std::string(op_info(op).name) + " is not an operation on floats");
}

// NOLINTNEXTLINE(readability-function-size): one line per operation
std::string Printer::integer_applied(Op op, Type type, const std::vector<std::string>& args) {
  const std::string of(value_type(type));
  const std::string bits(unsigned_type(type));
  const std::string back = "(" + of + ")";
  const std::string& x = args[0];
  const std::string y = args.size() > 1 ? args[1] : "";
  const std::string width = std::to_string(8 * program::byte_size(type) - 1);
  switch (op) {
    case Op::kAdd:
    case Op::kSub:
    case Op::kMul:
    case Op::kBitAnd:
    case Op::kBitOr:
    case Op::kBitXor:
      // Unsigned arithmetic wraps.
      return back + "((" + bits + ")" + x + infix(op) + "(" + bits + ")" + y + ")";
    case Op::kDiv:
    case Op::kMod:
      return (op == Op::kDiv ? "yk_div(" : "yk_mod(") + x + ", " + y + ")";
    case Op::kNeg:
      return back + "((" + bits + ")0 - (" + bits + ")" + x + ")";
    case Op::kMin:
      return "(" + x + " < " + y + " ? " + x + " : " + y + ")";
    case Op::kMax:
      return "(" + x + " > " + y + " ? " + x + " : " + y + ")";
    case Op::kAbs:
      return "(" + x + " < 0 ? " + back + "((" + bits + ")0 - (" + bits + ")" + x + ") : " + x + ")";
    case Op::kSign:
      return "(" + x + " > 0 ? " + back + "1 : " + x + " < 0 ? " + back + "-1 : " + back + "0)";
    case Op::kBitNot:
      return back + "~" + x;
    case Op::kShiftLeft:
      return back + "((" + bits + ")" + x + " << (unsigned)(" + y + " & " + width + "))";
    case Op::kShiftRight:
      return back + "(" + x + " >> (unsigned)(" + y + " & " + width + "))";
    case Op::kNot:
      return "(1 - " + x + ")";
    case Op::kLess:
    case Op::kLessEqual:
    case Op::kGreater:
    case Op::kGreaterEqual:
    case Op::kEqual:
    case Op::kNotEqual:
    case Op::kAnd:
    case Op::kOr:
      return "(" + x + infix(op) + y + ")";
    case Op::kRandomBits:
      return "yk_random_bits(" + x + ", " + y + ", " + args[2] + ")";
    case Op::kConst:
    case Op::kRead:
    case Op::kIndex:
    case Op::kCast:
    case Op::kGuard:
    case Op::kSelect:
    case Op::kFloor:
    case Op::kCeil:
    case Op::kRound:
    case Op::kTrunc:
    case Op::kExp:
    case Op::kExp2:
    case Op::kExpm1:
    case Op::kLog:
    case Op::kLog2:
    case Op::kLog1p:
    case Op::kSqrt:
    case Op::kRsqrt:
    case Op::kRecip:
    case Op::kPow:
    case Op::kSin:
    case Op::kCos:
    case Op::kTanh:
    case Op::kSigmoid:
    case Op::kErf:
    case Op::kErfc:
    case Op::kFma:
      break;
  }
  throw std::logic_error(std::string(op_info(op).name) + " is not an operation on integers");
}

std::string Printer::rounded(Type type, const std::string& value) {
  return is_16_bit(type) ? "yk_round_" + std::string(type_name(type)) + "(" + value + ")" : value;
}

std::string Printer::converted(Type from, Type to, const std::string& value) {
  if (from == to) {
    return value;
  }
  if (is_float(to)) {
    // Wider types hold every value; a 16-bit type needs rounding.
    return is_16_bit(to) ? rounded(to, "(float)(" + value + ")")
                         : "(" + std::string(value_type(to)) + ")(" + value + ")";
  }
  if (to == Type::kBool) {
    return "((" + value + ") != 0)";
  }
  return is_float(from) ? "yk_to_" + std::string(type_name(to)) + "(" + value + ")"
                        : "(" + std::string(value_type(to)) + ")(" + value + ")";
}

}  // namespace yoke::codegen
