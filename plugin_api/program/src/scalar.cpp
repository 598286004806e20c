// SPDX-License-Identifier: Apache-2.0
// plugin_api/program/src/scalar.cpp: the operations on single values.
#include "scalar.h"

#include <yoke/program/execute.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <stdexcept>
#include <string>

#include "number.h"

namespace yoke::program {
namespace {

// IEEE 754-2019 minimum and maximum: NaN if either operand is, and -0 is less than +0.
double extreme(double x, double y, bool is_max) {
  if (std::isnan(x) || std::isnan(y)) {
    return std::numeric_limits<double>::quiet_NaN();
  }
  const bool x_is_less = x < y || (x == y && std::signbit(x));
  return x_is_less == is_max ? y : x;
}

std::int64_t divided(std::int64_t x, std::int64_t y) {
  if (y == 0) {
    return 0;
  }
  return y == -1 ? static_cast<std::int64_t>(0 - static_cast<std::uint64_t>(x)) : x / y;
}

double fused(Type type, double x, double y, double z) {
  return type == Type::kF64 ? std::fma(x, y, z)
                            : static_cast<double>(std::fma(static_cast<float>(x), static_cast<float>(y),
                                                           static_cast<float>(z)));
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

// Floats are computed in f64. For + - * / and sqrt, rounding the result to f32 gives the same bits as f32
// arithmetic; for the other functions it is more accurate.
// NOLINTNEXTLINE(readability-function-size): one line per operation
Scalar apply(Op op, Type type, const Scalar* args) {
  const Scalar& a = args[0];
  const Scalar& b = args[op_info(op).arity > 1 ? 1 : 0];
  const double x = a.number;
  const double y = b.number;
  const auto ux = static_cast<std::uint64_t>(a.integer);
  const auto uy = static_cast<std::uint64_t>(b.integer);
  const auto count = [&] { return uy % (8 * byte_size(type)); };  // of a shift
  const bool real = is_float(type);
  const auto number = [&](double value) { return Scalar{round_to_type(type, value), 0}; };
  const auto integer = [&](std::uint64_t value) {
    return Scalar{0, wrap_to_type(type, static_cast<std::int64_t>(value))};
  };
  const auto signed_integer = [&](std::int64_t value) { return Scalar{0, wrap_to_type(type, value)}; };
  const auto truth = [](bool value) { return Scalar{0, value ? 1 : 0}; };
  switch (op) {
    case Op::kConst:
    case Op::kRead:
    case Op::kIndex:
    case Op::kCast:
    case Op::kGuard:
      break;  // not computed from the operands' values alone
    case Op::kAdd:
      return real ? number(x + y) : integer(ux + uy);
    case Op::kSub:
      return real ? number(x - y) : integer(ux - uy);
    case Op::kMul:
      return real ? number(x * y) : integer(ux * uy);
    case Op::kDiv:
      return real ? number(x / y) : signed_integer(divided(a.integer, b.integer));
    case Op::kMod:
      return real ? number(std::fmod(x, y))
                  : signed_integer(b.integer == 0 || b.integer == -1 ? 0 : a.integer % b.integer);
    case Op::kNeg:
      return real ? number(-x) : integer(0 - ux);
    case Op::kMin:
      return real ? number(extreme(x, y, false)) : signed_integer(std::min(a.integer, b.integer));
    case Op::kMax:
      return real ? number(extreme(x, y, true)) : signed_integer(std::max(a.integer, b.integer));
    case Op::kAbs:
      return real ? number(std::fabs(x)) : integer(a.integer < 0 ? 0 - ux : ux);
    case Op::kSign:
      return real ? number(x > 0   ? 1
                           : x < 0 ? -1
                                   : x)
                  : signed_integer((a.integer > 0 ? 1 : 0) - (a.integer < 0 ? 1 : 0));
    case Op::kFloor:
      return number(std::floor(x));
    case Op::kCeil:
      return number(std::ceil(x));
    case Op::kRound:
      return number(std::nearbyint(x));
    case Op::kTrunc:
      return number(std::trunc(x));
    case Op::kExp:
      return number(std::exp(x));
    case Op::kExp2:
      return number(std::exp2(x));
    case Op::kExpm1:
      return number(std::expm1(x));
    case Op::kLog:
      return number(std::log(x));
    case Op::kLog2:
      return number(std::log2(x));
    case Op::kLog1p:
      return number(std::log1p(x));
    case Op::kSqrt:
      return number(std::sqrt(x));
    case Op::kRsqrt:
      return number(1 / std::sqrt(x));
    case Op::kRecip:
      return number(1 / x);
    case Op::kPow:
      return number(std::pow(x, y));
    case Op::kSin:
      return number(std::sin(x));
    case Op::kCos:
      return number(std::cos(x));
    case Op::kTanh:
      return number(std::tanh(x));
    case Op::kSigmoid:
      return number(1 / (1 + std::exp(-x)));
    case Op::kErf:
      return number(std::erf(x));
    case Op::kErfc:
      return number(std::erfc(x));
    case Op::kFma:
      return number(fused(type, x, y, args[2].number));
    case Op::kLess:
      return truth(real ? x < y : a.integer < b.integer);
    case Op::kLessEqual:
      return truth(real ? x <= y : a.integer <= b.integer);
    case Op::kGreater:
      return truth(real ? x > y : a.integer > b.integer);
    case Op::kGreaterEqual:
      return truth(real ? x >= y : a.integer >= b.integer);
    case Op::kEqual:
      return truth(real ? x == y : a.integer == b.integer);
    case Op::kNotEqual:
      return truth(real ? x != y : a.integer != b.integer);
    case Op::kAnd:
    case Op::kBitAnd:
      return integer(ux & uy);
    case Op::kOr:
    case Op::kBitOr:
      return integer(ux | uy);
    case Op::kBitXor:
      return integer(ux ^ uy);
    case Op::kNot:
      return truth(a.integer == 0);
    case Op::kBitNot:
      return integer(~ux);
    case Op::kShiftLeft:
      return integer(ux << count());
    case Op::kShiftRight:
      return signed_integer(a.integer >> count());  // unsigned types: a is never negative
    case Op::kSelect:
      return a.integer != 0 ? b : args[2];
    case Op::kRandomBits:
      return {0, random_bits(a.integer, b.integer, args[2].integer)};
  }
  throw std::invalid_argument(std::string(op_info(op).name) + " is not an operation on values");
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
