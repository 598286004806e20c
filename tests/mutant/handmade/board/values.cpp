// SPDX-License-Identifier: Apache-2.0
// tests/mutant/handmade/board/values.cpp: conversions and operations, lane by lane.
#include "values.h"

#include <yoke/program/execute.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

#include "../bugs.h"

namespace yoke::board {
namespace {

using handmade::bug;
using program::Op;

template <class T>
T read_as(const std::byte* tensor, std::int64_t element) {
  T value;
  std::memcpy(&value, tensor + element * static_cast<std::int64_t>(sizeof(T)), sizeof(T));
  return value;
}

// f32 with the last bit set if the value is not exact: rounding it again to 16 bits rounds `x` only once.
float to_odd(double x) {
  const auto near = static_cast<float>(x);
  if (static_cast<double>(near) == x || !std::isfinite(near)) {
    return near;
  }
  const float cut = std::fabs(static_cast<double>(near)) > std::fabs(x) ? std::nextafter(near, 0.0F) : near;
  return std::bit_cast<float>(std::bit_cast<std::uint32_t>(cut) | 1U);
}

std::uint16_t to_bf16(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  if (std::isnan(value) && !bug("bf16_nan")) {
    return static_cast<std::uint16_t>(bits >> 16 | 0x40U);
  }
  return static_cast<std::uint16_t>((bits + 0x7fffU + (bug("bf16_ties") ? 1U : bits >> 16 & 1U)) >> 16);
}

std::uint16_t to_f16(float value) {
  const bool is_tiny = std::fabs(value) < 6.103515625e-05F;  // the smallest normal number
  if (bug("f16_saturates") && std::isfinite(value) && std::fabs(value) > 65504.0F) {
    value = std::copysign(65504.0F, value);
  }
  return program::f32_to_f16(bug("f16_denormal") && is_tiny ? std::copysign(0.0F, value) : value);
}

double rounded(Type type, double value) {
  switch (type) {
    case Type::kF64:
      return value;
    case Type::kF32:
      return static_cast<double>(static_cast<float>(value));
    case Type::kF16:
      return static_cast<double>(program::f16_to_f32(to_f16(static_cast<float>(value))));
    default:
      return static_cast<double>(program::bf16_to_f32(to_bf16(static_cast<float>(value))));
  }
}

std::int64_t wrapped(Type type, std::int64_t value) {
  switch (type) {
    case Type::kI64:
      return value;
    case Type::kI32:
      return static_cast<std::int32_t>(value);
    case Type::kU32:
      return static_cast<std::uint32_t>(value);
    case Type::kU8:
      return static_cast<std::uint8_t>(value);
    default:
      return value != 0 ? 1 : 0;
  }
}

std::int64_t saturated(Type type, double value) {
  const Type range = type == Type::kU32 && bug("u32_from_float") ? Type::kI32 : type;
  const auto high = static_cast<double>(program::highest_integer(range));
  const auto low = static_cast<double>(program::lowest_integer(type));
  if (std::isnan(value)) {
    return 0;
  }
  if (bug("saturate_edge") ? value > high : value >= high) {
    return program::highest_integer(range);
  }
  return value <= low ? program::lowest_integer(type) : static_cast<std::int64_t>(value);
}

// NaN if either operand is; -0 is less than +0.
double minimum(double a, double b) {
  if (std::isnan(a) || std::isnan(b)) {
    return std::numeric_limits<double>::quiet_NaN();
  }
  return a < b || (a == b && std::signbit(a)) ? a : b;
}

// Its absolute error is below 1.5e-7.
double erf_of_series(double x) {
  const double t = 1 / (1 + 0.3275911 * std::fabs(x));
  const double sum =
      ((((1.061405429 * t - 1.453152027) * t + 1.421413741) * t - 0.284496736) * t + 0.254829592) * t;
  return std::copysign(1 - sum * std::exp(-x * x), x);
}

double in_period(double x) {
  return bug("trig_period") ? std::fmod(x, static_cast<double>(6.2831855F)) : x;
}

double power(double x, double y) {
  if (bug("pow_nan") && (std::isnan(x) || std::isnan(y))) {  // but pow(1, nan) and pow(nan, 0) are 1
    return std::numeric_limits<double>::quiet_NaN();
  }
  return bug("pow_half") && y == 0.5 ? std::sqrt(x) : std::pow(x, y);
}

double float_result(Op op, double x, double y) {
  switch (op) {
    case Op::kAdd:
      return x + y;
    case Op::kSub:
      return x - y;
    case Op::kMul:
      return x * y;
    case Op::kDiv:
      return x / y;
    case Op::kMod:
      return std::fmod(x, y);
    case Op::kNeg:
      return -x;
    case Op::kMin:
      return minimum(x, y);
    case Op::kMax:
      return -minimum(-x, -y);
    case Op::kAbs:
      return std::fabs(x);
    case Op::kSign:
      return x > 0 ? 1 : x < 0 ? -1 : x;
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
      return bug("exp2_by_exp") ? std::exp(x * 0.6931471805599453) : std::exp2(x);
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
    case Op::kPow:
      return power(x, y);
    case Op::kSin:
      return std::sin(in_period(x));
    case Op::kCos:
      return std::cos(in_period(x));
    case Op::kTanh:
      return std::tanh(x);
    case Op::kSigmoid:
      return 1 / (1 + std::exp(-x));
    case Op::kErf:
      return bug("erf_series") ? erf_of_series(x) : std::erf(x);
    default:
      return std::erfc(x);
  }
}

std::int64_t divided(Op op, std::int64_t a, std::int64_t b) {
  if (b == 0) {
    return 0;
  }
  if (b == -1) {  // the lowest integer has no counterpart
    return op == Op::kMod ? 0 : static_cast<std::int64_t>(0 - static_cast<std::uint64_t>(a));
  }
  const std::int64_t rest = a % b;
  return op == Op::kDiv ? a / b : bug("floor_mod") && rest != 0 && (rest < 0) != (b < 0) ? rest + b : rest;
}

// The low 64 bits of a product, from products of 32 bits. With the bug mul64_cross only: it lacks that of the low half
// of `a` and the high half of `b`, which is not 0 for negative numbers.
std::uint64_t product_of_halves(std::uint64_t a, std::uint64_t b) {
  const std::uint64_t low = b & 0xffffffffU;
  return (a & 0xffffffffU) * low + ((a >> 32) * low << 32);
}

std::int64_t integer_result(Op op, Type type, std::int64_t a, std::int64_t b) {
  const auto x = static_cast<std::uint64_t>(a);
  const auto y = static_cast<std::uint64_t>(b);
  const std::uint64_t count = y & (bug("shift_mask") ? 31 : program::byte_size(type) * 8 - 1);
  switch (op) {
    case Op::kAdd:
      return static_cast<std::int64_t>(x + y);
    case Op::kSub:
      return static_cast<std::int64_t>(x - y);
    case Op::kMul:
      return static_cast<std::int64_t>(type == Type::kI64 && bug("mul64_cross") ? product_of_halves(x, y)
                                                                                : x * y);
    case Op::kDiv:
    case Op::kMod:
      return divided(op, a, b);
    case Op::kNeg:
      return static_cast<std::int64_t>(0 - x);
    case Op::kMin:
      return a < b ? a : b;
    case Op::kMax:
      return a < b ? b : a;
    case Op::kAbs:
      return a < 0 ? static_cast<std::int64_t>(0 - x) : a;
    case Op::kSign:
      return (a > 0 ? 1 : 0) - (a < 0 ? 1 : 0);
    case Op::kAnd:
    case Op::kBitAnd:
      return a & b;
    case Op::kOr:
    case Op::kBitOr:
      return a | b;
    case Op::kBitXor:
      return a ^ b;
    case Op::kNot:
      return a == 0;
    case Op::kBitNot:
      return ~a;
    case Op::kShiftLeft:
      return static_cast<std::int64_t>(x << count);
    default:
      return a >> count;
  }
}

template <class T>
bool compared(Op op, T a, T b) {
  switch (op) {
    case Op::kLess:
      return a < b;
    case Op::kLessEqual:
      return a <= b;
    case Op::kGreater:
      return a > b;
    case Op::kGreaterEqual:
      return a >= b;
    case Op::kEqual:
      return a == b;
    default:
      return a != b;
  }
}

Word fused(Type type, double a, double b, double c) {
  const bool is_f64 = type == Type::kF64;
  const float narrow = std::fma(static_cast<float>(a), static_cast<float>(b), static_cast<float>(c));
  if (bug("fma_split")) {
    const Type steps = is_f64 ? type : Type::kF32;
    return {.f = rounded(type, rounded(steps, rounded(steps, a * b) + c))};
  }
  return {.f = is_f64 ? std::fma(a, b, c) : rounded(type, static_cast<double>(narrow))};
}

// Whether the expression divides an integer by a power of 2. With the bug divide_by_shift only.
bool is_shift(const program::Expr& expr) {
  if (expr.op != Op::kDiv || is_float(expr.type) || expr.args[1].op != Op::kConst) {
    return false;
  }
  const std::int64_t divisor = expr.args[1].literal.integer;
  return divisor > 0 && std::has_single_bit(static_cast<std::uint64_t>(divisor));
}

}  // namespace

Word load(Type type, const std::byte* tensor, std::int64_t element) {
  switch (type) {
    case Type::kF64:
      return {.f = read_as<double>(tensor, element)};
    case Type::kF32:
      return {.f = static_cast<double>(read_as<float>(tensor, element))};
    case Type::kF16:
      return {.f = static_cast<double>(program::f16_to_f32(read_as<std::uint16_t>(tensor, element)))};
    case Type::kBF16:
      return {.f = static_cast<double>(program::bf16_to_f32(read_as<std::uint16_t>(tensor, element)))};
    case Type::kI64:
      return {.i = read_as<std::int64_t>(tensor, element)};
    case Type::kI32:
      return {.i = read_as<std::int32_t>(tensor, element)};
    case Type::kU32:
      return {.i = read_as<std::uint32_t>(tensor, element)};
    default:
      return {.i = wrapped(type, read_as<std::uint8_t>(tensor, element))};
  }
}

void load(Type type, const std::byte* tensor, const Numbers& elements, Row& out) {
  const bool is_run = bug("coalesced_guess") && elements[kLanes - 1] - elements[0] == kLanes - 1;
  for (std::size_t lane = 0; lane < kLanes; ++lane) {
    out[lane] = load(type, tensor, is_run ? elements[0] + static_cast<std::int64_t>(lane) : elements[lane]);
  }
}

void store_word(Type type, std::byte* tensor, std::int64_t element, Word value) {
  const auto size = static_cast<std::int64_t>(program::byte_size(type));
  std::uint64_t bits = std::bit_cast<std::uint64_t>(value);  // integers: the low bytes
  if (type == Type::kF32) {
    bits = std::bit_cast<std::uint32_t>(static_cast<float>(value.f));
  } else if (type == Type::kF16) {
    bits = to_f16(static_cast<float>(value.f));
  } else if (type == Type::kBF16) {
    bits = to_bf16(static_cast<float>(value.f));
  }
  std::memcpy(tensor + element * size, &bits, static_cast<std::size_t>(size));
}

Word converted(Type from, Type to, Word value) {
  if (is_float(from) && is_float(to)) {
    const bool is_once = bug("f64_direct") && from == Type::kF64 && program::byte_size(to) == 2;
    return {.f = rounded(to, is_once ? static_cast<double>(to_odd(value.f)) : value.f)};
  }
  if (is_float(from)) {
    // The instruction that converts f32 to i32 rounds; with the bug cast_rounds only, because a cast truncates.
    const bool rounds = from == Type::kF32 && to == Type::kI32 && bug("cast_rounds");
    const double number = rounds ? std::nearbyint(value.f) : value.f;
    return {.i = to == Type::kBool ? number != 0 : saturated(to, number)};
  }
  if (is_float(to)) {
    return {.f = to == Type::kF64 ? static_cast<double>(value.i)
                                  : rounded(to, static_cast<double>(static_cast<float>(value.i)))};
  }
  return {.i = wrapped(to, value.i)};
}

Word folded(Op op, Type type, Word a, Word b) {
  return is_float(type) ? Word{.f = float_result(op, a.f, b.f)}
                        : Word{.i = integer_result(op, type, a.i, b.i)};
}

Word applied(Op op, Type type, Word a, Word b) {
  if (is_float(type)) {
    const bool is_tiny = std::fabs(a.f) < static_cast<double>(std::numeric_limits<float>::min());
    if (is_tiny && type == Type::kF32 && (op == Op::kLog || op == Op::kLog2) && bug("log_denormal")) {
      a.f = std::copysign(0.0, a.f);  // its exponent is 0, as that of 0
    }
    return {.f = rounded(type == Type::kBF16 && bug("bf16_chain") ? Type::kF32 : type,
                         float_result(op, a.f, b.f))};
  }
  return {.i = wrapped(type, integer_result(op, type, a.i, b.i))};
}

void apply_lanes(const program::Expr& expr, Type type, Row& a, const Row& b, const Row& c) {
  const Type operands = expr.args[0].type;
  const bool compares = program::op_info(expr.op).family == program::Family::kComparison;
  const std::size_t block = bug("random_block") ? 4 : 1;  // lanes that share the words of one Threefry block
  Word seed{};
  const bool shifts = bug("divide_by_shift") && is_shift(expr);
  for (std::size_t i = 0; i < kLanes; ++i) {
    if (expr.op == Op::kCast) {
      a[i] = converted(operands, type, a[i]);
    } else if (expr.op == Op::kSelect) {
      a[i] = a[i].i != 0 ? b[i] : c[i];
    } else if (expr.op == Op::kRandomBits) {
      const std::size_t first = i - i % block;
      seed = i == first ? a[i] : seed;
      const std::int64_t counter =
          block == 1 ? c[i].i : c[first].i / 4 * 4 + static_cast<std::int64_t>(i % 4);
      const std::int64_t stream =
          bug("random_stream32") ? static_cast<std::uint32_t>(b[first].i) : b[first].i;
      a[i].i = program::random_bits(seed.i, stream, counter);
    } else if (expr.op == Op::kFma) {
      a[i] = fused(type, a[i].f, b[i].f, c[i].f);
    } else if (compares) {
      a[i].i = is_float(operands) ? compared(expr.op, a[i].f, b[i].f) : compared(expr.op, a[i].i, b[i].i);
    } else if (shifts) {
      a[i].i >>= std::countr_zero(static_cast<std::uint64_t>(b[i].i));
    } else {
      a[i] = applied(expr.op, type, a[i], b[i]);
    }
  }
}

}  // namespace yoke::board
