// SPDX-License-Identifier: Apache-2.0
// expression.cpp: prints scalar expressions, one named value per operation.
#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <stdexcept>
#include <utility>

#include "printer.h"

namespace ocl {

using yoke::program::is_float;
using yoke::program::Literal;
using yoke::program::type_name;

namespace {

using yoke::program::Op;
using yoke::program::op_info;
using yoke::program::Type;

bool is_16_bit(Type type) {
  return type == Type::kF16 || type == Type::kBF16;
}

bool is_function(Op op) {
  return !op_info(op).is_operator() &&
         (op_info(op).operands == yoke::program::Operands::kFloats || op == Op::kAbs);
}

bool is_constant(const yoke::program::Expr& expr) {
  return expr.op != Op::kRead && expr.op != Op::kIndex &&
         std::all_of(expr.args.begin(), expr.args.end(), is_constant);
}

std::string infix(Op op) {  // a bool is 0 or 1
  return op == Op::kAnd ? " & " : op == Op::kOr ? " | " : " " + std::string(op_info(op).name) + " ";
}

std::string hexadecimal(double value) {
  std::array<char, 64> digits = {};
  const auto end =
      std::to_chars(digits.data(), digits.data() + digits.size(), std::fabs(value), std::chars_format::hex);
  return (std::signbit(value) ? "-0x" : "0x") + std::string(digits.data(), end.ptr);
}

}  // namespace

std::string_view value_type(Type type) {
  switch (type) {
    case Type::kF64:
      return "double";
    case Type::kF32:
    case Type::kF16:
    case Type::kBF16:
      return "float";
    case Type::kI64:
      return "long";
    case Type::kU32:
      return "uint";
    case Type::kU8:
      return "uchar";
    default:
      return "int";
  }
}

std::string_view unsigned_type(Type type) {
  return type == Type::kI64 ? "ulong" : type == Type::kU8 ? "uchar" : "uint";
}

std::string_view memory_type(Type type) {
  return is_16_bit(type) ? "ushort" : type == Type::kBool ? "uchar" : value_type(type);
}

std::string literal(Type type, const Literal& value) {
  if (!is_float(type)) {
    // As an unsigned literal, because the lowest value of a signed type has no literal.
    const auto bits = static_cast<std::uint64_t>(value.integer);
    return type == Type::kI64 ? "(long)" + std::to_string(bits) + "ul"
                              : "(" + std::string(value_type(type)) + ")" +
                                    std::to_string(static_cast<std::uint32_t>(bits)) + "u";
  }
  const bool wide = type == Type::kF64;
  if (std::isnan(value.number)) {
    return wide ? "as_double(0x7ff8000000000000ul)" : "as_float(0x7fc00000u)";
  }
  if (std::isinf(value.number)) {
    const std::string sign = value.number < 0 ? "-" : "";
    return wide ? "(" + sign + "(double)INFINITY)" : "(" + sign + "INFINITY)";
  }
  return "(" + hexadecimal(value.number) + (wide ? ")" : "f)");
}

std::string Printer::hidden(Type type, const std::string& constant) {
  return helper(type == Type::kF64 ? "hidden_f64" : "hidden_f32") + "(" + constant + ")";
}

std::string Printer::value(const Expr& expr) {
  switch (expr.op) {
    case Op::kConst: {
      // The compiler computes x + nan: it becomes a constant argument of a function as well.
      std::string text = literal(expr.type, expr.literal);
      return is_float(expr.type) && !std::isfinite(expr.literal.number) ? hidden(expr.type, text) : text;
    }
    case Op::kRead:
      return read(expr);
    case Op::kIndex:
      return "(long)(" + index(expr.affine) + ")";
    case Op::kGuard:
      return guarded(expr);
    default: {
      std::vector<std::string> args;
      for (const Expr& arg : expr.args) {
        args.push_back(value(arg));
        if (is_function(expr.op) && is_float(arg.type) && is_constant(arg)) {
          args.back() = hidden(arg.type, args.back());
        }
      }
      return named(expr.type, operation(expr, args));
    }
  }
}

std::string Printer::read(const Expr& expr) {
  const Place from = place(expr.access);
  const std::string element = loaded(expr.type, expr.access.tensor, from.element);
  if (from.inside.empty()) {
    return named(expr.type, element);
  }
  if (!expr.access.otherwise) {
    inside_ += (inside_.empty() ? "" : " && ") + from.inside;
  }
  const std::string otherwise = literal(expr.type, expr.access.otherwise.value_or(Literal{}));
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

// Applies the operation to arguments of type `type`, which are names or literals.
std::string Printer::applied(Op op, Type type, const std::vector<std::string>& args) {
  return is_float(type) ? float_applied(op, type, args) : integer_applied(op, type, args);
}

// NOLINTNEXTLINE(readability-function-size): one line per operation
std::string Printer::float_applied(Op op, Type type, const std::vector<std::string>& args) {
  const std::string suffix = type == Type::kF64 ? "_f64" : "_f32";
  const std::string of(value_type(type));
  // The cast selects the overload if an argument is a literal.
  const auto call = [&](std::string text) {
    for (std::size_t i = 0; i < args.size(); ++i) {
      text += (i == 0 ? "((" : ", (") + of + ")" + args[i];
    }
    return rounded(type, text + ")");
  };
  const auto call_helper = [&](const std::string& name, const std::string& values) {
    return rounded(type, helper(name + suffix) + "(" + values + ")");
  };
  switch (op) {
    case Op::kAdd:
    case Op::kSub:
    case Op::kMul:
      return rounded(type, "(" + args[0] + infix(op) + args[1] + ")");
    case Op::kDiv:
      return call_helper("divide", args[0] + ", " + args[1]);
    case Op::kRecip:
      return call_helper("divide", "1, " + args[0]);
    case Op::kSqrt:
      return call_helper("root", args[0]);
    case Op::kRsqrt:
      return call_helper("rsqrt", args[0]);
    case Op::kSigmoid:
      return call_helper("sigmoid", args[0]);
    case Op::kNeg:
      return "(-" + args[0] + ")";
    case Op::kMin:
      return helper("min_float") + "(" + args[0] + ", " + args[1] + ")";
    case Op::kMax:
      return helper("max_float") + "(" + args[0] + ", " + args[1] + ")";
    case Op::kSign:
      return "(" + args[0] + " > 0 ? (" + of + ")1 : " + args[0] + " < 0 ? (" + of + ")-1 : " + args[0] + ")";
    case Op::kMod:
      return call("fmod");
    case Op::kAbs:
      return call("fabs");
    case Op::kRound:
      return call("rint");
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
      return call(std::string(op_info(op).name));
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
  const std::string width = std::to_string(8 * yoke::program::byte_size(type) - 1);
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
      return helper((op == Op::kDiv ? "div_" : "mod_") + std::string(type_name(type))) + "(" + x + ", " + y +
             ")";
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
      return back + "((" + bits + ")" + x + " << (uint)(" + y + " & " + width + "))";
    case Op::kShiftRight:
      return back + "(" + x + " >> (uint)(" + y + " & " + width + "))";
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
      return helper("random_bits") + "(" + x + ", " + y + ", " + args[2] + ")";
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
  if (!is_16_bit(type)) {
    return value;
  }
  const std::string name(type_name(type));
  helper("to_" + name);
  helper("from_" + name);
  return helper("round_" + name) + "(" + value + ")";
}

std::string Printer::converted(Type from, Type to, const std::string& value) {
  if (from == to) {
    return value;
  }
  const std::string plain = "(" + std::string(value_type(to)) + ")(" + value + ")";
  if (is_float(to)) {
    // Wider types hold every value; a 16-bit type needs rounding.
    return is_16_bit(to) ? rounded(to, "(float)(" + value + ")") : plain;
  }
  if (to == Type::kBool) {
    return "((" + value + ") != 0)";
  }
  if (!is_float(from)) {
    return plain;
  }
  return helper("saturated_" + std::string(type_name(to)) + (from == Type::kF64 ? "_f64" : "_f32")) + "(" +
         value + ")";
}

}  // namespace ocl
