// SPDX-License-Identifier: Apache-2.0
// plugin_api/program/src/scalar.cpp: the operations on single values.
#include "scalar.h"

#include <yoke/program/execute.h>

#include <cmath>
#include <cstring>
#include <limits>

#include "number.h"

namespace yoke::program {
namespace {

// Computes in f64. For + - * / and sqrt, rounding the result to f32 gives the same bits as f32 arithmetic;
// for the other functions it is more accurate.
double float_of_one(Op op, double x) {
  switch (op) {
    case Op::kNeg:
      return -x;
    case Op::kAbs:
      return std::fabs(x);
    case Op::kSign:
      return x > 0 ? 1.0 : x < 0 ? -1.0 : x;
    case Op::kFloor:
      return std::floor(x);
    case Op::kCeil:
      return std::ceil(x);
    case Op::kRound:
      return std::nearbyint(x);
    case Op::kTrunc:
      return std::trunc(x);
    case Op::kExp:
      return std::exp(x);
    case Op::kExp2:
      return std::exp2(x);
    case Op::kExpm1:
      return std::expm1(x);
    case Op::kLog:
      return std::log(x);
    case Op::kLog2:
      return std::log2(x);
    case Op::kLog1p:
      return std::log1p(x);
    case Op::kSqrt:
      return std::sqrt(x);
    case Op::kRsqrt:
      return 1 / std::sqrt(x);
    case Op::kRecip:
      return 1 / x;
    case Op::kSin:
      return std::sin(x);
    case Op::kCos:
      return std::cos(x);
    case Op::kTanh:
      return std::tanh(x);
    case Op::kSigmoid:
      return 1 / (1 + std::exp(-x));
    case Op::kErf:
      return std::erf(x);
    case Op::kErfc:
      return std::erfc(x);
    default:
      return std::numeric_limits<double>::quiet_NaN();
  }
}

double float_of_two(Op op, double x, double y) {
  switch (op) {
    case Op::kAdd:
      return x + y;
    case Op::kSub:
      return x - y;
    case Op::kMul:
      return x * y;
    case Op::kDiv:
      return x / y;
    case Op::kPow:
      return std::pow(x, y);
    case Op::kMin:
      return std::isnan(x) || x < y ? x : y;
    case Op::kMax:
      return std::isnan(x) || x > y ? x : y;
    default:
      return std::numeric_limits<double>::quiet_NaN();
  }
}

double apply_float(Op op, Type type, const Scalar* args) {
  if (op == Op::kFma) {
    if (type == Type::kF64) {
      return std::fma(args[0].number, args[1].number, args[2].number);
    }
    return round_to_type(type, static_cast<double>(std::fma(static_cast<float>(args[0].number),
                                                            static_cast<float>(args[1].number),
                                                            static_cast<float>(args[2].number))));
  }
  return round_to_type(type, op_info(op).arity == 1 ? float_of_one(op, args[0].number)
                                                    : float_of_two(op, args[0].number, args[1].number));
}

std::int64_t divided(std::int64_t x, std::int64_t y) {
  if (y == 0) {
    return 0;
  }
  return y == -1 ? static_cast<std::int64_t>(0 - static_cast<std::uint64_t>(x)) : x / y;
}

std::int64_t apply_integer(Op op, Type type, const Scalar* args) {
  const std::int64_t x = args[0].integer;
  const std::int64_t y = op_info(op).arity > 1 ? args[1].integer : 0;
  const auto ux = static_cast<std::uint64_t>(x);
  const auto uy = static_cast<std::uint64_t>(y);
  const std::uint64_t shift = uy % (8 * byte_size(type));
  switch (op) {
    case Op::kAdd:
      return static_cast<std::int64_t>(ux + uy);
    case Op::kSub:
      return static_cast<std::int64_t>(ux - uy);
    case Op::kMul:
      return static_cast<std::int64_t>(ux * uy);
    case Op::kDiv:
      return divided(x, y);
    case Op::kMod:
      return y == 0 || y == -1 ? 0 : x % y;
    case Op::kNeg:
      return static_cast<std::int64_t>(0 - ux);
    case Op::kMin:
      return x < y ? x : y;
    case Op::kMax:
      return x > y ? x : y;
    case Op::kAbs:
      return x < 0 ? static_cast<std::int64_t>(0 - ux) : x;
    case Op::kSign:
      return x > 0 ? 1 : x < 0 ? -1 : 0;
    case Op::kBitAnd:
      return x & y;
    case Op::kBitOr:
      return x | y;
    case Op::kBitXor:
      return x ^ y;
    case Op::kBitNot:
      return ~x;
    case Op::kShiftLeft:
      return static_cast<std::int64_t>(ux << shift);
    case Op::kShiftRight:
      return x >> shift;  // unsigned types: x is never negative
    default:
      return 0;
  }
}

template <typename T>
bool compared(Op op, T x, T y) {
  switch (op) {
    case Op::kLess:
      return x < y;
    case Op::kLessEqual:
      return x <= y;
    case Op::kGreater:
      return x > y;
    case Op::kGreaterEqual:
      return x >= y;
    case Op::kEqual:
      return x == y;
    default:
      return x != y;
  }
}

template <typename T>
T read_as(const void* at, std::int64_t element) {
  T value;
  std::memcpy(&value, static_cast<const char*>(at) + element * static_cast<std::int64_t>(sizeof(T)),
              sizeof(T));
  return value;
}

template <typename T>
void write_as(void* at, std::int64_t element, T value) {
  std::memcpy(static_cast<char*>(at) + element * static_cast<std::int64_t>(sizeof(T)), &value, sizeof(T));
}

}  // namespace

Scalar convert(Type from, Type to, const Scalar& value) {
  if (from == to) {
    return value;
  }
  if (!is_float(from)) {
    if (to == Type::kF64) {
      return {static_cast<double>(value.integer), 0};
    }
    // Directly to f32, because a detour through f64 would round twice.
    return is_float(to) ? Scalar{round_to_type(to, static_cast<double>(static_cast<float>(value.integer))), 0}
                        : Scalar{0, wrap_to_type(to, value.integer)};
  }
  return is_float(to) ? Scalar{round_to_type(to, value.number), 0}
                      : Scalar{0, float_to_integer(to, value.number)};
}

Scalar apply(Op op, Type type, const Scalar* args) {
  switch (op) {
    case Op::kLess:
    case Op::kLessEqual:
    case Op::kGreater:
    case Op::kGreaterEqual:
    case Op::kEqual:
    case Op::kNotEqual:
      return {0, (is_float(type) ? compared(op, args[0].number, args[1].number)
                                 : compared(op, args[0].integer, args[1].integer))
                     ? 1
                     : 0};
    case Op::kAnd:
      return {0, args[0].integer & args[1].integer};
    case Op::kOr:
      return {0, args[0].integer | args[1].integer};
    case Op::kNot:
      return {0, 1 - args[0].integer};
    case Op::kSelect:
      return args[0].integer != 0 ? args[1] : args[2];
    case Op::kRandomBits:
      return {0, random_bits(args[0].integer, args[1].integer, args[2].integer)};
    default:
      return is_float(type) ? Scalar{apply_float(op, type, args), 0}
                            : Scalar{0, wrap_to_type(type, apply_integer(op, type, args))};
  }
}

Scalar neutral(Reduce reduce, Type type) {
  const double infinity = std::numeric_limits<double>::infinity();
  switch (reduce) {
    case Reduce::kProd:
      return {is_float(type) ? 1.0 : 0.0, 1};
    case Reduce::kMin:
      return {infinity, highest_integer(type)};
    case Reduce::kMax:
      return {-infinity, lowest_integer(type)};
    case Reduce::kAll:
      return {0, 1};
    default:
      return {0, 0};
  }
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
    default:
      return Op::kAdd;
  }
}

bool beats(Reduce reduce, Type type, const Scalar& value, const Scalar& best) {
  const bool max = reduce == Reduce::kArgMax;
  if (!is_float(type)) {
    return max ? value.integer > best.integer : value.integer < best.integer;
  }
  if (std::isnan(best.number)) {
    return false;
  }
  return std::isnan(value.number) || (max ? value.number > best.number : value.number < best.number);
}

Scalar load(Type type, const void* at, std::int64_t element) {
  switch (type) {
    case Type::kF64:
      return {read_as<double>(at, element), 0};
    case Type::kF32:
      return {static_cast<double>(read_as<float>(at, element)), 0};
    case Type::kF16:
      return {static_cast<double>(f16_to_f32(read_as<std::uint16_t>(at, element))), 0};
    case Type::kBF16:
      return {static_cast<double>(bf16_to_f32(read_as<std::uint16_t>(at, element))), 0};
    case Type::kI64:
      return {0, read_as<std::int64_t>(at, element)};
    case Type::kI32:
      return {0, read_as<std::int32_t>(at, element)};
    case Type::kU32:
      return {0, read_as<std::uint32_t>(at, element)};
    case Type::kU8:
      return {0, read_as<std::uint8_t>(at, element)};
    case Type::kBool:
      return {0, read_as<std::uint8_t>(at, element) != 0 ? 1 : 0};
  }
  return {};
}

void store(Type type, void* at, std::int64_t element, const Scalar& value) {
  switch (type) {
    case Type::kF64:
      return write_as(at, element, value.number);
    case Type::kF32:
      return write_as(at, element, static_cast<float>(value.number));
    case Type::kF16:
      return write_as(at, element, f32_to_f16(static_cast<float>(value.number)));
    case Type::kBF16:
      return write_as(at, element, f32_to_bf16(static_cast<float>(value.number)));
    case Type::kI64:
      return write_as(at, element, value.integer);
    case Type::kI32:
      return write_as(at, element, static_cast<std::int32_t>(value.integer));
    case Type::kU32:
      return write_as(at, element, static_cast<std::uint32_t>(value.integer));
    case Type::kU8:
    case Type::kBool:
      return write_as(at, element, static_cast<std::uint8_t>(value.integer));
  }
}

}  // namespace yoke::program
