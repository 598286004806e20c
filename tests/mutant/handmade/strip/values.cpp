// SPDX-License-Identifier: Apache-2.0
// tests/mutant/handmade/strip/values.cpp: the operations, one loop each.
#include "values.h"

#include <yoke/program/execute.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

#include "../bugs.h"

namespace yoke::strip {

using handmade::bug;

namespace {

// exp as kernels for f32 compute it that keep its argument between the logarithms of the lowest and highest normal
// number; it loses NaN, too. With the bug exp_clamped only.
double clamped_exp(double x) {
  return std::exp(std::min(88.72283, std::max(-87.33654, x)));
}

bool is_equal(Type type, double x, double y) {
  if (!bug("bitwise_equal")) {
    return x == y;
  }
  return type == Type::kF64 ? std::bit_cast<std::uint64_t>(x) == std::bit_cast<std::uint64_t>(y)
                            : std::bit_cast<std::uint32_t>(static_cast<float>(x)) ==
                                  std::bit_cast<std::uint32_t>(static_cast<float>(y));
}

std::uint64_t to_u8(std::int64_t value) {
  return static_cast<std::uint64_t>(std::clamp<std::int64_t>(value, 0, 255));
}

float to_f16(double value) {
  const auto narrow = static_cast<float>(value);
  if (bug("f16_overflow_early") && std::fabs(narrow) > 65504.0F) {
    return std::copysign(std::numeric_limits<float>::infinity(), narrow);
  }
  return program::f16_to_f32(program::f32_to_f16(narrow));
}

double nearest_even(double x) {
  if (bug("round_magic")) {
    constexpr double kMagic = 6755399441055744.0;  // 1.5 * 2^52: the sum has no room for a fraction
    return std::fabs(x) < kMagic ? (x + kMagic) - kMagic : x;
  }
  return std::nearbyint(x);
}

double inverse_root(Type type, double x) {
  if (bug("seed_range") && type == Type::kF64) {
    auto y = static_cast<double>(1.0F / std::sqrt(static_cast<float>(x)));
    y *= 1.5 - 0.5 * x * y * y;
    return y * (1.5 - 0.5 * x * y * y);
  }
  return 1 / std::sqrt(x);
}

double floor_of(double x) {
  if (bug("floor_integer")) {
    const bool fits =
        std::fabs(x) < 9223372036854775808.0;  // as the instruction, which also gives the lowest for NaN
    const std::int64_t whole = fits ? static_cast<std::int64_t>(x) : std::numeric_limits<std::int64_t>::min();
    return static_cast<double>(whole) - (static_cast<double>(whole) > x ? 1 : 0);
  }
  return std::floor(x);
}

double root(double x) {
  return bug("sqrt_product") && x != 0 ? x * (1 / std::sqrt(x)) : std::sqrt(x);
}

// With the bug sigmoid_tanh, the sum cancels for numbers far below 0.
double logistic(Type type, double x) {
  return !bug("sigmoid_tanh") ? 1 / (1 + std::exp(-x))
         : type == Type::kF64 ? 0.5 + 0.5 * std::tanh(0.5 * x)
                              : static_cast<double>(0.5F + 0.5F * std::tanh(0.5F * static_cast<float>(x)));
}

// With the bug cos_shifted, the sum is rounded.
double cosine(Type type, double x) {
  constexpr double kQuarter = 1.5707963267948966;
  return !bug("cos_shifted")  ? std::cos(x)
         : type == Type::kF64 ? std::sin(x + kQuarter)
                              : std::sin(rounded(Type::kF32, x + kQuarter));
}

double log_of_base2(double x) {
  return bug("log2_single") ? static_cast<double>(std::log2(static_cast<float>(x))) : std::log2(x);
}

double sign_of(double x) {
  if (bug("sign_difference")) {
    return static_cast<double>(x > 0) - static_cast<double>(x < 0);
  }
  return x > 0 ? 1 : x < 0 ? -1 : x;
}

double fused(Type type, double x, double y, double z) {
  return type == Type::kF64 ? std::fma(x, y, z)
                            : static_cast<double>(std::fma(static_cast<float>(x), static_cast<float>(y),
                                                           static_cast<float>(z)));
}

std::int64_t quotient(std::int64_t x, std::int64_t y) {
  return y == 0 ? 0 : y == -1 ? static_cast<std::int64_t>(0 - static_cast<std::uint64_t>(x)) : x / y;
}

// Whether the first conditions are all true or all false; for the bug select_half_mask.
bool agree(const Strip& conditions, std::size_t count) {
  return std::all_of(conditions.whole.begin(), conditions.whole.begin() + count,
                     [&](std::int64_t condition) { return (condition != 0) == (conditions.whole[0] != 0); });
}

std::uint64_t shift_count(std::int64_t count, std::uint64_t width) {
  const auto whole = static_cast<std::uint64_t>(count);
  return bug("shift_clamped") ? std::min(whole, width) : whole % width;
}

// Runs `of(k)` for each value and rounds.
template <class Of>
void reals(Type type, std::size_t count, Strip& out, const Of& of) {
  for (std::size_t k = 0; k < count; ++k) {
    out.real[k] = rounded(type, of(k));
  }
}

template <class Of>
void wholes(Type type, std::size_t count, Strip& out, const Of& of) {
  const bool is_kept_wide = bug("lazy_wrap") && (type == Type::kI32 || type == Type::kU32);
  for (std::size_t k = 0; k < count; ++k) {
    const auto value = static_cast<std::int64_t>(of(k));
    out.whole[k] = is_kept_wide ? value : wrapped(type, value);
  }
}

template <class Of>
void truths(std::size_t count, Strip& out, const Of& of) {
  for (std::size_t k = 0; k < count; ++k) {
    out.whole[k] = of(k) ? 1 : 0;
  }
}

// NOLINTNEXTLINE(readability-function-size): one line per operation
void apply_reals(Op op, Type type, std::size_t count, const std::array<Strip, 3>& args, Strip& out) {
  const auto& x = args[0].real;
  const auto& y = args[1].real;
  const auto& z = args[2].real;
  const auto each = [&](const auto& of) { reals(type, count, out, of); };
  const auto test = [&](const auto& of) { truths(count, out, of); };
  using Index = std::size_t;
  switch (op) {
    case Op::kAdd:
      return each([&](Index k) { return x[k] + y[k]; });
    case Op::kSub:
      return each([&](Index k) { return x[k] - y[k]; });
    case Op::kMul:
      return each([&](Index k) { return x[k] * y[k]; });
    case Op::kDiv:
      return each([&](Index k) { return x[k] / y[k]; });
    case Op::kMod:
      return each([&](Index k) { return std::fmod(x[k], y[k]); });
    case Op::kNeg:
      return each([&](Index k) { return -x[k]; });
    case Op::kMin:
      return each([&](Index k) { return extreme(x[k], y[k], false); });
    case Op::kMax:
      return each([&](Index k) { return extreme(x[k], y[k], true); });
    case Op::kAbs:
      return each([&](Index k) { return std::fabs(x[k]); });
    case Op::kSign:
      return each([&](Index k) { return sign_of(x[k]); });
    case Op::kFloor:
      return each([&](Index k) { return floor_of(x[k]); });
    case Op::kCeil:
      return each([&](Index k) { return std::ceil(x[k]); });
    case Op::kRound:
      return each([&](Index k) { return nearest_even(x[k]); });
    case Op::kTrunc:
      return each([&](Index k) { return std::trunc(x[k]); });
    case Op::kExp:
      return each([&](Index k) {
        return type != Type::kF64 && bug("exp_clamped") ? clamped_exp(x[k]) : std::exp(x[k]);
      });
    case Op::kExp2:
      return each([&](Index k) { return std::exp2(x[k]); });
    case Op::kExpm1:
      return each([&](Index k) { return std::expm1(x[k]); });
    case Op::kLog:
      return each([&](Index k) { return std::log(x[k]); });
    case Op::kLog2:
      return each([&](Index k) { return log_of_base2(x[k]); });
    case Op::kLog1p:
      return each([&](Index k) { return std::log1p(x[k]); });
    case Op::kSqrt:
      return each([&](Index k) { return root(x[k]); });
    case Op::kRsqrt:
      return each([&](Index k) { return inverse_root(type, x[k]); });
    case Op::kRecip:
      return each([&](Index k) { return 1 / x[k]; });
    case Op::kPow:
      return each([&](Index k) { return std::pow(x[k], y[k]); });
    case Op::kSin:
      return each([&](Index k) { return std::sin(x[k]); });
    case Op::kCos:
      return each([&](Index k) { return cosine(type, x[k]); });
    case Op::kTanh:
      return each([&](Index k) { return std::tanh(x[k]); });
    case Op::kSigmoid:
      return each([&](Index k) { return logistic(type, x[k]); });
    case Op::kErf:
      return each([&](Index k) { return std::erf(x[k]); });
    case Op::kErfc:
      return each([&](Index k) { return bug("erfc_tail") ? 1 - std::erf(x[k]) : std::erfc(x[k]); });
    case Op::kFma:
      return each([&](Index k) { return fused(type, x[k], y[k], z[k]); });
    case Op::kLess:
      return test([&](Index k) { return x[k] < y[k]; });
    case Op::kLessEqual:
      return test([&](Index k) { return bug("not_greater") ? !(x[k] > y[k]) : x[k] <= y[k]; });
    case Op::kGreater:
      return test([&](Index k) { return x[k] > y[k]; });
    case Op::kGreaterEqual:
      return test([&](Index k) { return x[k] >= y[k]; });
    case Op::kEqual:
      return test([&](Index k) { return is_equal(type, x[k], y[k]); });
    case Op::kNotEqual:
      return test([&](Index k) { return !is_equal(type, x[k], y[k]); });
    default:
      return;
  }
}

// NOLINTNEXTLINE(readability-function-size): one line per operation
void apply_wholes(Op op, Type type, std::size_t count, const std::array<Strip, 3>& args, Strip& out) {
  const auto& a = args[0].whole;
  const auto& b = args[1].whole;
  const auto& c = args[2].whole;
  const std::uint64_t width = 8 * program::byte_size(type);
  const bool saturates = type == Type::kU8 && bug("u8_saturates");
  const auto each = [&](const auto& of) { wholes(type, count, out, of); };
  const auto test = [&](const auto& of) { truths(count, out, of); };
  const auto u = [](std::int64_t value) { return static_cast<std::uint64_t>(value); };
  using Index = std::size_t;
  switch (op) {
    case Op::kAdd:
      return each([&](Index k) { return saturates ? to_u8(a[k] + b[k]) : u(a[k]) + u(b[k]); });
    case Op::kSub:
      return each([&](Index k) { return saturates ? to_u8(a[k] - b[k]) : u(a[k]) - u(b[k]); });
    case Op::kMul:
      return each([&](Index k) { return u(a[k]) * u(b[k]); });
    case Op::kDiv:
      return each([&](Index k) { return quotient(a[k], b[k]); });
    case Op::kMod:
      return each([&](Index k) { return b[k] == 0 || b[k] == -1 ? 0 : a[k] % b[k]; });
    case Op::kNeg:
      return each([&](Index k) { return 0 - u(a[k]); });
    case Op::kMin:
      return each([&](Index k) { return std::min(a[k], b[k]); });
    case Op::kMax:
      return each([&](Index k) { return std::max(a[k], b[k]); });
    case Op::kAbs:
      return each([&](Index k) { return a[k] < 0 ? 0 - u(a[k]) : u(a[k]); });
    case Op::kSign:
      return each([&](Index k) { return (a[k] > 0 ? 1 : 0) - (a[k] < 0 ? 1 : 0); });
    case Op::kLess:
      return test([&](Index k) { return a[k] < b[k]; });
    case Op::kLessEqual:
      return test([&](Index k) { return a[k] <= b[k]; });
    case Op::kGreater:
      return test([&](Index k) { return a[k] > b[k]; });
    case Op::kGreaterEqual:
      return test([&](Index k) { return a[k] >= b[k]; });
    case Op::kEqual:
      return test([&](Index k) { return a[k] == b[k]; });
    case Op::kNotEqual:
      return test([&](Index k) { return a[k] != b[k]; });
    case Op::kAnd:
    case Op::kBitAnd:
      return each([&](Index k) { return a[k] & b[k]; });
    case Op::kOr:
    case Op::kBitOr:
      return each([&](Index k) { return a[k] | b[k]; });
    case Op::kBitXor:
      return each([&](Index k) { return a[k] ^ b[k]; });
    case Op::kNot:
      return test([&](Index k) { return a[k] == 0; });
    case Op::kBitNot:
      return each([&](Index k) { return ~a[k]; });
    case Op::kShiftLeft:
      return each([&](Index k) {
        const std::uint64_t bits = shift_count(b[k], width);
        return bits < 64 ? u(a[k]) << bits : 0;
      });
    case Op::kShiftRight:
      return each([&](Index k) { return a[k] >> std::min<std::uint64_t>(shift_count(b[k], width), 63); });
    case Op::kRandomBits:
      for (Index k = 0; k < count; ++k) {
        const Index from = bug("random_key_strip") ? 0 : k;
        out.whole[k] = program::random_bits(a[from], b[from], c[k]);
      }
      return;
    default:
      return;
  }
}

}  // namespace

double extreme(double x, double y, bool is_max) {
  if (std::isnan(x) || std::isnan(y)) {
    return std::numeric_limits<double>::quiet_NaN();
  }
  const bool x_is_less = x < y || (x == y && std::signbit(x));
  return x_is_less == is_max ? y : x;
}

double rounded(Type type, double value) {
  switch (type) {
    case Type::kF32:
      return static_cast<double>(static_cast<float>(value));
    case Type::kF16:
      return static_cast<double>(to_f16(value));
    case Type::kBF16:
      return static_cast<double>(program::bf16_to_f32(program::f32_to_bf16(static_cast<float>(value))));
    default:
      return value;
  }
}

std::int64_t wrapped(Type type, std::int64_t value) {
  switch (type) {
    case Type::kI32:
      return static_cast<std::int32_t>(value);
    case Type::kU32:
      return static_cast<std::uint32_t>(value);
    case Type::kU8:
      return static_cast<std::uint8_t>(value);
    case Type::kBool:
      return bug("bool_byte") ? (value & 255) != 0 : value != 0;
    default:
      return value;
  }
}

void apply(Op op, Type type, std::size_t count, const std::array<Strip, 3>& args, Strip& out) {
  if (op == Op::kSelect && bug("select_half_mask") && agree(args[0], std::min<std::size_t>(count, 32))) {
    out = args[args[0].whole[0] != 0 ? 1 : 2];
  } else if (op == Op::kSelect) {
    for (std::size_t k = 0; k < count; ++k) {
      const Strip& chosen = args[args[0].whole[k] != 0 ? 1 : 2];
      out.real[k] = chosen.real[k];
      out.whole[k] = chosen.whole[k];
    }
  } else if (program::is_float(type)) {
    apply_reals(op, type, count, args, out);
  } else {
    apply_wholes(op, type, count, args, out);
  }
}

}  // namespace yoke::strip
