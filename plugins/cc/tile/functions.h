// SPDX-License-Identifier: Apache-2.0
// plugins/cc/tile/functions.h: f32 functions without branches, so that compilers vectorize them.
//
// The kernels_*.cpp files include this header, once per instruction set. There is no fused multiply-add, so
// every instruction set gives the same bits. tests/unit/cc/functions_test.cpp checks the bounds in ulp.
#pragma once

#include <stdint.h>

namespace {

inline float as_f32(uint32_t bits) {
  return __builtin_bit_cast(float, bits);
}
inline uint32_t as_u32(float value) {
  return __builtin_bit_cast(uint32_t, value);
}

inline constexpr float kInfF = __builtin_inff();
inline constexpr float kNanF = __builtin_nanf("");
inline constexpr float kRoundMagic = 12582912.0F;  // 1.5 * 2^23: adding it rounds to an integer, half to even

// 2^k for k in -126..127; negative k is passed in two's complement.
inline float power_of_two(uint32_t k) {
  return as_f32((k + 127U) << 23U);
}

// The polynomial of x with these coefficients, the highest first.
template <class... Coefficients>
inline float polynomial(float x, float value, Coefficients... next) {
  ((value = value * x + next), ...);
  return value;
}

struct ExpParts {
  float q;     // exp(r) - 1
  uint32_t k;  // exp(x) = 2^k * (1 + q)
};

inline ExpParts exp_parts(float x) {
  const float shifted = x * 1.44269504F + kRoundMagic;
  const float kf = shifted - kRoundMagic;
  const uint32_t k = as_u32(shifted) - as_u32(kRoundMagic);
  float r = x - kf * 0.693359375F;
  r = r - kf * -2.12194440e-4F;
  const float p = polynomial(r, 1.9875691500e-4F, 1.3981999507e-3F, 8.3334519073e-3F, 4.1665795894e-2F,
                             1.6666665459e-1F, 5.0000001201e-1F);
  return {p * (r * r) + r, k};
}

// Scales by 2^k in two steps, so that subnormal results round once and overflow gives infinity.
inline float scale(float y, uint32_t k) {
  const uint32_t half = static_cast<uint32_t>(static_cast<int32_t>(k) >> 1);
  return y * power_of_two(half) * power_of_two(k - half);
}

inline float clamp(float x, float low, float high) {
  const float y = x < low ? low : x;  // NaN passes through
  return y > high ? high : y;
}

inline float exp_f32(float x) {
  const ExpParts parts = exp_parts(clamp(x, -104.0F, 89.0F));
  return scale(1.0F + parts.q, parts.k);
}

// The same bits as exp_f32 where |x| <= kExpLimit: the result is normal, so that scaling adds to its
// exponent.
inline constexpr float kExpLimit = 87.0F;
inline float exp_f32_within(float x) {
  const ExpParts parts = exp_parts(x);
  return as_f32(as_u32(1.0F + parts.q) + (parts.k << 23U));
}

inline float exp2_f32(float x) {
  const float y = clamp(x, -151.0F, 129.0F);
  const float shifted = y + kRoundMagic;
  const float r = y - (shifted - kRoundMagic);
  const float p = polynomial(r, 1.535336188319500e-4F, 1.339887440266574e-3F, 9.618437357674640e-3F,
                             5.550332471162809e-2F, 2.402264791363012e-1F, 6.931472028550421e-1F);
  return scale(p * r + 1.0F, as_u32(shifted) - as_u32(kRoundMagic));
}

inline float expm1_f32(float x) {
  const ExpParts parts = exp_parts(clamp(x, -25.0F, 89.0F));
  const float s = power_of_two(parts.k - 1U);
  const float y = (s * parts.q + (s - 0.5F)) * 2.0F;
  return __builtin_fabsf(x) < 1e-10F ? x : y;
}

struct LogParts {
  float f;  // mantissa - 1, in sqrt(1/2) - 1 .. sqrt(2) - 1
  float p;  // log(1 + f) = f - f * f / 2 + p
  float e;
};

inline LogParts log_parts(float x) {
  const bool tiny = x < 1.17549435e-38F;
  const float scaled = tiny ? x * 8388608.0F : x;
  const uint32_t bits = as_u32(scaled) + (0x3f800000U - 0x3f3504f3U);
  const int32_t exponent = static_cast<int32_t>(bits >> 23U) - 127 - (tiny ? 23 : 0);
  const float f = as_f32((bits & 0x7fffffU) + 0x3f3504f3U) - 1.0F;
  const float p =
      polynomial(f, 7.0376836292e-2F, -1.1514610310e-1F, 1.1676998740e-1F, -1.2420140846e-1F,
                 1.4249322787e-1F, -1.6668057665e-1F, 2.0000714765e-1F, -2.4999993993e-1F, 3.3333331174e-1F);
  return {f, p * f * (f * f), static_cast<float>(exponent)};
}

// NOLINTBEGIN(bugprone-narrowing-conversions): clang-tidy 14 claims that infinity does not fit in a float
inline float log_edges(float x, float y) {
  y = x == kInfF ? kInfF : y;
  y = x == 0.0F ? -kInfF : y;
  return x >= 0.0F ? y : kNanF;
}
// NOLINTEND(bugprone-narrowing-conversions)

inline float log_f32(float x) {
  const LogParts parts = log_parts(x);
  float y = parts.p + parts.e * -2.12194440e-4F;
  y = y - 0.5F * (parts.f * parts.f);
  return log_edges(x, (parts.f + y) + parts.e * 0.693359375F);
}

inline float log2_f32(float x) {
  const LogParts parts = log_parts(x);
  const float y = parts.p - 0.5F * (parts.f * parts.f);
  constexpr float kExtra = 0.44269504F;  // log2(e) - 1
  return log_edges(x, (((y * kExtra + parts.f * kExtra) + y) + parts.f) + parts.e);
}

inline float log1p_f32(float x) {
  const float u = 1.0F + x;
  const float rest = (x - (u - 1.0F)) / u;
  const float y = log_f32(u) + rest;
  const float z = u == 1.0F ? x : y;
  return u == kInfF || u == 0.0F ? log_f32(u) : z;
}

inline float with_sign(float magnitude, float sign) {
  return as_f32((as_u32(magnitude) & 0x7fffffffU) | (as_u32(sign) & 0x80000000U));
}

inline float tanh_f32(float x) {
  const float ax = __builtin_fabsf(x);
  const float z = x * x;
  const float p = polynomial(z, -5.70498872745e-3F, 2.06390887954e-2F, -5.37397155531e-2F, 1.33314422036e-1F,
                             -3.33332819422e-1F);
  const float small = p * z * x + x;
  const float large = 1.0F - 2.0F / (exp_f32(2.0F * (ax > 10.0F ? 10.0F : ax)) + 1.0F);
  return ax < 0.625F ? small : with_sign(large, x);
}

inline float sigmoid_f32(float x) {
  const float e = exp_f32(-__builtin_fabsf(x));
  return (x < 0.0F ? e : 1.0F) / (1.0F + e);
}

// Based on N. Juffa's erff: two polynomials, split at 475/512.
inline float erf_f32(float x) {
  const float t = __builtin_fabsf(x);
  const float s = x * x;
  const float tc = t > 4.0F ? 4.0F : t;
  const float sc = tc * tc;
  float r = -1.72853470e-5F * tc + 3.83197126e-4F;
  const float u = -3.88396438e-3F * tc + 2.42546219e-2F;
  r = r * sc + u;
  r = r * tc - 1.06777877e-1F;
  r = r * tc - 6.34846687e-1F;
  r = r * tc - 1.28717512e-1F;
  r = r * tc - tc;
  const float large = with_sign(1.0F - exp_f32_within(r), x);  // r is between -18 and 0
  const float q = polynomial(s, -5.96761703e-4F, 4.99119423e-3F, -2.67681349e-2F, 1.12819925e-1F,
                             -3.76125336e-1F, 1.28379166e-1F);
  return t > 0.927734375F ? large : q * x + x;
}

// sin and cos, computed in f64. Accurate for |x| up to 1e6; for larger
// arguments the caller uses the C library.
inline constexpr float kTrigLimit = 1e6F;

inline float trig_f32(float x, uint64_t quarter_turns) {
  constexpr double kMagic = 6755399441055744.0;  // 1.5 * 2^52
  const double d = static_cast<double>(x);
  const double shifted = d * 0.63661977236758134308 + kMagic;
  const double k = shifted - kMagic;
  const double r = (d - k * 1.57079632673412561417e+00) - k * 6.07710050650619224932e-11;
  const double z = r * r;
  const double s = r + r * z *
                           (-1.6666666666666632e-1 +
                            z * (8.3333333333224895e-3 +
                                 z * (-1.9841269829857949e-4 +
                                      z * (2.7557313707070068e-6 +
                                           z * (-2.5050760253406863e-8 + z * 1.5896909952115501e-10)))));
  const double c =
      1.0 - 0.5 * z +
      z * z *
          (4.1666666666666602e-2 +
           z * (-1.3888888888874109e-3 +
                z * (2.4801587289476729e-5 + z * (-2.7557314351390663e-7 + z * 2.0875723212981748e-9))));
  const uint64_t quadrant = __builtin_bit_cast(uint64_t, shifted) + quarter_turns;
  const double y = (quadrant & 1U) != 0 ? c : s;
  return static_cast<float>((quadrant & 2U) != 0 ? -y : y);
}

// Conversions between f32 and stored 16-bit floats, based on F. Giesen's; to nearest, ties to even.
inline uint16_t f16_of(float value) {
  const uint32_t all = as_u32(value);
  const uint32_t sign = all & 0x80000000U;
  const uint32_t f = all ^ sign;
  const uint32_t special = f > 0x7f800000U ? 0x7e00U : 0x7c00U;
  const uint32_t subnormal = as_u32(as_f32(f) + 0.5F) - 0x3f000000U;
  const uint32_t normal = (f + 0xc8000fffU + ((f >> 13U) & 1U)) >> 13U;
  const uint32_t finite = f < 0x38800000U ? subnormal : normal;
  return static_cast<uint16_t>((f >= 0x47800000U ? special : finite) | (sign >> 16U));
}

inline float f16_to(uint16_t bits) {
  const uint32_t h = bits;
  const uint32_t shifted = (h & 0x7fffU) << 13U;
  const uint32_t exponent = shifted & 0x0f800000U;
  const uint32_t rebased = shifted + 0x38000000U;
  const uint32_t subnormal = as_u32(as_f32(rebased + 0x00800000U) - as_f32(0x38800000U));
  uint32_t out = exponent == 0 ? subnormal : rebased;
  out = exponent == 0x0f800000U ? rebased + 0x38000000U : out;
  return as_f32(out | ((h & 0x8000U) << 16U));
}

inline uint16_t bf16_of(float value) {
  const uint32_t u = as_u32(value);
  const uint32_t rounded = (u + 0x7fffU + ((u >> 16U) & 1U)) >> 16U;
  const uint32_t quiet = (u >> 16U) | 0x40U;
  return static_cast<uint16_t>((u & 0x7fffffffU) > 0x7f800000U ? quiet : rounded);
}

inline float bf16_to(uint16_t bits) {
  return as_f32(static_cast<uint32_t>(bits) << 16U);
}

}  // namespace
