// SPDX-License-Identifier: Apache-2.0
// plugins/codegen/prelude.cpp: the text before the kernels.
#include "prelude.h"

#include <string>

namespace yoke::codegen {
namespace {

constexpr std::string_view kCuda = R"(
#define YK_SHUFFLE_XOR(value, mask) __shfl_xor_sync(0xffffffffu, value, mask)
#define YK_SHUFFLE_DOWN(value, delta) __shfl_down_sync(0xffffffffu, value, delta)
)";

constexpr std::string_view kHip = R"(
#define YK_HIP 1
#define YK_SHUFFLE_XOR(value, mask) __shfl_xor(value, mask)
#define YK_SHUFFLE_DOWN(value, delta) __shfl_down(value, delta)
)";

constexpr std::string_view kNumbers = R"(
#define YK_KERNEL(threads) extern "C" __global__ void __launch_bounds__(threads)
#define YK_DEVICE static __device__ __forceinline__
#define YK_SHARED __shared__
#define YK_SYNC() __syncthreads()
#define YK_BITS(type, value) __builtin_bit_cast(type, value)
#define YK_INF_F32 YK_BITS(float, 0x7f800000u)
#define YK_NAN_F32 YK_BITS(float, 0x7fc00000u)
#define YK_INF_F64 YK_BITS(double, 0x7ff0000000000000ull)
#define YK_NAN_F64 YK_BITS(double, 0x7ff8000000000000ull)

// They may stand for elements of any type.
struct __attribute__((aligned(16), may_alias)) yk_16_bytes { unsigned a, b, c, d; };
struct __attribute__((aligned(8), may_alias)) yk_8_bytes { unsigned a, b; };
typedef unsigned __attribute__((may_alias)) yk_4_bytes;
typedef unsigned short __attribute__((may_alias)) yk_2_bytes;
// Loads and stores `lanes` neighboring elements, in pieces if the whole vector is in range and aligned.
#define YK_VECTOR(name, type, lanes, piece, pieces)                                                          \
  YK_DEVICE void yk_load_##name(type* to, const type* from, bool whole, int count) {                         \
    if (whole) {                                                                                             \
      for (int i = 0; i < pieces; ++i) ((piece*)to)[i] = ((const piece*)from)[i];                            \
    } else {                                                                                                 \
      for (int i = 0; i < lanes; ++i) to[i] = i < count ? from[i] : (type)0;                                 \
    }                                                                                                        \
  }                                                                                                          \
  YK_DEVICE void yk_store_##name(type* to, const type* from, bool whole, int count) {                        \
    if (whole) {                                                                                             \
      for (int i = 0; i < pieces; ++i) ((piece*)to)[i] = ((const piece*)from)[i];                            \
    } else {                                                                                                 \
      for (int i = 0; i < lanes; ++i) if (i < count) to[i] = from[i];                                        \
    }                                                                                                        \
  }

// 16-bit floats are stored as unsigned short.
#if defined(__CUDA_ARCH__) && !defined(YOKE_FAKE_GPU)
YK_DEVICE unsigned short yk_to_f16(float x) { unsigned short r; asm("cvt.rn.f16.f32 %0, %1;" : "=h"(r) : "f"(x)); return r; }
YK_DEVICE float yk_from_f16(unsigned short x) { float r; asm("cvt.f32.f16 %0, %1;" : "=f"(r) : "h"(x)); return r; }
#elif defined(YK_HIP) && !defined(YOKE_FAKE_GPU)
YK_DEVICE unsigned short yk_to_f16(float x) { return YK_BITS(unsigned short, (_Float16)x); }
YK_DEVICE float yk_from_f16(unsigned short x) { return (float)YK_BITS(_Float16, x); }
#else
YK_DEVICE unsigned short yk_to_f16(float x) {
  const unsigned bits = YK_BITS(unsigned, x);
  const unsigned sign = (bits >> 16) & 0x8000u;
  const unsigned magnitude = bits & 0x7fffffffu;
  if (magnitude > 0x7f800000u) return (unsigned short)(sign | 0x7e00u);
  if (magnitude >= 0x477ff000u) return (unsigned short)(sign | 0x7c00u);
  if (magnitude < 0x38800000u) {  // a subnormal of f16: the sum rounds to its last place
    return (unsigned short)(sign | (YK_BITS(unsigned, YK_BITS(float, magnitude) + 0.5f) - 0x3f000000u));
  }
  const unsigned rounded = magnitude + 0xfffu + ((magnitude >> 13) & 1u);
  return (unsigned short)(sign | ((rounded - 0x38000000u) >> 13));
}
YK_DEVICE float yk_from_f16(unsigned short x) {
  const unsigned sign = ((unsigned)x & 0x8000u) << 16;
  const unsigned exponent = ((unsigned)x >> 10) & 0x1fu;
  const unsigned fraction = (unsigned)x & 0x3ffu;
  if (exponent == 0) return YK_BITS(float, YK_BITS(unsigned, (float)fraction * 0x1p-24f) | sign);
  return YK_BITS(float, sign | ((exponent == 31u ? 255u : exponent + 112u) << 23) | (fraction << 13));
}
#endif
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800 && !defined(YOKE_FAKE_GPU)
YK_DEVICE unsigned short yk_to_bf16(float x) { unsigned short r; asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(r) : "f"(x)); return r; }
#else
YK_DEVICE unsigned short yk_to_bf16(float x) {
  const unsigned bits = YK_BITS(unsigned, x);
  if ((bits & 0x7fffffffu) > 0x7f800000u) return (unsigned short)((bits >> 16) | 0x40u);
  return (unsigned short)((bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16);
}
#endif
YK_DEVICE float yk_from_bf16(unsigned short x) { return YK_BITS(float, (unsigned)x << 16); }
YK_DEVICE float yk_round_f16(float x) { return yk_from_f16(yk_to_f16(x)); }
YK_DEVICE float yk_round_bf16(float x) { return yk_from_bf16(yk_to_bf16(x)); }

// minimum and maximum of IEEE 754-2019.
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800 && !defined(YOKE_FAKE_GPU)
YK_DEVICE float yk_min(float x, float y) { float r; asm("min.NaN.f32 %0, %1, %2;" : "=f"(r) : "f"(x), "f"(y)); return r; }
YK_DEVICE float yk_max(float x, float y) { float r; asm("max.NaN.f32 %0, %1, %2;" : "=f"(r) : "f"(x), "f"(y)); return r; }
#else
YK_DEVICE float yk_min(float x, float y) { return x != x || x < y || (x == y && YK_BITS(int, x) < 0) ? x : y; }
YK_DEVICE float yk_max(float x, float y) { return x != x || x > y || (x == y && YK_BITS(int, x) >= 0) ? x : y; }
#endif
YK_DEVICE double yk_min(double x, double y) { return x != x || x < y || (x == y && YK_BITS(long long, x) < 0) ? x : y; }
YK_DEVICE double yk_max(double x, double y) { return x != x || x > y || (x == y && YK_BITS(long long, x) >= 0) ? x : y; }

// The square root of f32 of some HIP compilers is not correctly rounded; that of f64 is.
#if defined(YK_HIP) && !defined(YOKE_FAKE_GPU)
YK_DEVICE float yk_sqrt(float x) { return (float)sqrt((double)x); }
#else
YK_DEVICE float yk_sqrt(float x) { return sqrtf(x); }
#endif
YK_DEVICE double yk_sqrt(double x) { return sqrt(x); }
YK_DEVICE float yk_rsqrt(float x) { return 1.0f / yk_sqrt(x); }
YK_DEVICE double yk_rsqrt(double x) { return 1.0 / sqrt(x); }
YK_DEVICE float yk_sigmoid(float x) {
  const float e = expf(-fabsf(x));  // never infinite, so that small results stay exact
  return x < 0 ? e / (1.0f + e) : 1.0f / (1.0f + e);
}
YK_DEVICE double yk_sigmoid(double x) { return 1.0 / (1.0 + exp(-x)); }
YK_DEVICE float yk_sign(float x) { return x > 0 ? 1.0f : x < 0 ? -1.0f : x; }
YK_DEVICE double yk_sign(double x) { return x > 0 ? 1.0 : x < 0 ? -1.0 : x; }
)";

constexpr std::string_view kIntegers = R"(
YK_DEVICE long long yk_div(long long x, long long y) {
  return y == -1 ? (long long)(0ull - (unsigned long long)x) : y == 0 ? 0ll : x / y;
}
YK_DEVICE int yk_div(int x, int y) { return y == -1 ? (int)(0u - (unsigned)x) : y == 0 ? 0 : x / y; }
YK_DEVICE unsigned yk_div(unsigned x, unsigned y) { return y == 0 ? 0u : x / y; }
YK_DEVICE unsigned char yk_div(unsigned char x, unsigned char y) { return y == 0 ? (unsigned char)0 : (unsigned char)(x / y); }
YK_DEVICE long long yk_mod(long long x, long long y) { return y == -1 || y == 0 ? 0ll : x % y; }
YK_DEVICE int yk_mod(int x, int y) { return y == -1 || y == 0 ? 0 : x % y; }
YK_DEVICE unsigned yk_mod(unsigned x, unsigned y) { return y == 0 ? 0u : x % y; }
YK_DEVICE unsigned char yk_mod(unsigned char x, unsigned char y) { return y == 0 ? (unsigned char)0 : (unsigned char)(x % y); }

// Float to integer: saturates; NaN becomes 0.
#define YK_SATURATED(name, type, low, high, lowest, highest) \
  YK_DEVICE type name(float x) { return x != x ? (type)0 : x <= low##f ? lowest : x >= high##f ? highest : (type)x; } \
  YK_DEVICE type name(double x) { return x != x ? (type)0 : x <= low ? lowest : x >= high ? highest : (type)x; }
YK_SATURATED(yk_to_i64, long long, -0x1p63, 0x1p63, (long long)0x8000000000000000ull, 0x7fffffffffffffffll)
YK_SATURATED(yk_to_i32, int, -0x1p31, 0x1p31, (int)0x80000000u, 0x7fffffff)
YK_SATURATED(yk_to_u32, unsigned, 0x0p0, 0x1p32, 0u, 0xffffffffu)
YK_SATURATED(yk_to_u8, unsigned char, 0x0p0, 0x1p8, (unsigned char)0, (unsigned char)255)

#define YK_MIX(a, b, r) a += b; b = ((b << r) | (b >> (32 - r))) ^ a;
YK_DEVICE unsigned yk_random_bits(long long seed, long long stream, long long counter) {
  const unsigned long long block = (unsigned long long)(counter >> 2);
  const unsigned k0 = (unsigned)seed, k1 = (unsigned)((unsigned long long)seed >> 32);
  const unsigned k2 = (unsigned)stream, k3 = (unsigned)((unsigned long long)stream >> 32);
  const unsigned key[5] = {k0, k1, k2, k3, 0x1BD11BDAu ^ k0 ^ k1 ^ k2 ^ k3};
  unsigned a = (unsigned)block + k0, b = (unsigned)(block >> 32) + k1, c = k2, d = k3;
#pragma unroll
  for (unsigned i = 1; i <= 5; ++i) {
    if (i & 1u) {
      YK_MIX(a, b, 10) YK_MIX(c, d, 26) YK_MIX(a, d, 11) YK_MIX(c, b, 21)
      YK_MIX(a, b, 13) YK_MIX(c, d, 27) YK_MIX(a, d, 23) YK_MIX(c, b, 5)
    } else {
      YK_MIX(a, b, 6) YK_MIX(c, d, 20) YK_MIX(a, d, 17) YK_MIX(c, b, 11)
      YK_MIX(a, b, 25) YK_MIX(c, d, 10) YK_MIX(a, d, 18) YK_MIX(c, b, 20)
    }
    a += key[i % 5]; b += key[(i + 1) % 5]; c += key[(i + 2) % 5]; d += key[(i + 3) % 5] + i;
  }
  const unsigned word = (unsigned)counter & 3u;
  return word == 0 ? a : word == 1 ? b : word == 2 ? c : d;
}
)";

std::string prelude_of(std::string_view dialect) {
  return std::string(dialect).append(kNumbers).append(kIntegers);
}

}  // namespace

std::string_view prelude(Dialect dialect) {
  static const std::string cuda = prelude_of(kCuda);
  static const std::string hip = prelude_of(kHip);
  return dialect == Dialect::kHip ? hip : cuda;
}

}  // namespace yoke::codegen
