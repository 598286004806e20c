// SPDX-License-Identifier: Apache-2.0
// plugins/cc/tile/operations.h: each operation on one element; included once per instruction set.
#pragma once

#include <math.h>

#include "functions.h"
#include "random_bits.h"

namespace {

template <class T>
struct Wide {
  using U = uint32_t;
};
template <>
struct Wide<int64_t> {
  using U = uint64_t;
};
template <>
struct Wide<float> {
  using U = float;
};
template <>
struct Wide<double> {
  using U = double;
};
// The type that T is computed in. For integers, an unsigned type of at
// least 32 bits: unsigned arithmetic wraps.
template <class T>
using Arithmetic = typename Wide<T>::U;

template <class T>
inline Arithmetic<T> wide(T x) {
  return static_cast<Arithmetic<T>>(x);
}

template <class T>
constexpr bool is_float_v = false;
template <>
inline constexpr bool is_float_v<float> = true;
template <>
inline constexpr bool is_float_v<double> = true;
template <class T>
constexpr bool is_signed_v = static_cast<T>(-1) < static_cast<T>(0);

// One struct per operation of ops.def, named like its row, so that the loops can take it as a template
// argument. A row without a struct does not compile. kernels_map.cpp selects the types that a row accepts.
#define YOKE_CC_UNARY(name, body)                    \
  template <class T>                                 \
  struct name {                                      \
    static inline auto apply(T x) { return (body); } \
  };
#define YOKE_CC_BINARY(name, body)                        \
  template <class T>                                      \
  struct name {                                           \
    static inline auto apply(T x, T y) { return (body); } \
  };
YOKE_CC_UNARY(Copy, x)
YOKE_CC_UNARY(BitNot, static_cast<T>(~static_cast<Arithmetic<T>>(x)))
YOKE_CC_UNARY(Not, static_cast<T>(x ^ T{1}))
YOKE_CC_UNARY(Recip, T{1} / x)
YOKE_CC_BINARY(Add, static_cast<T>(wide(x) + wide(y)))
YOKE_CC_BINARY(Sub, static_cast<T>(wide(x) - wide(y)))
YOKE_CC_BINARY(Mul, static_cast<T>(wide(x) * wide(y)))
YOKE_CC_BINARY(And, static_cast<T>(x& y))
YOKE_CC_BINARY(Or, static_cast<T>(x | y))
YOKE_CC_BINARY(BitAnd, static_cast<T>(wide(x) & wide(y)))
YOKE_CC_BINARY(BitOr, static_cast<T>(wide(x) | wide(y)))
YOKE_CC_BINARY(BitXor, static_cast<T>(wide(x) ^ wide(y)))
YOKE_CC_BINARY(Less, static_cast<uint8_t>(x < y))
YOKE_CC_BINARY(LessEqual, static_cast<uint8_t>(x <= y))
YOKE_CC_BINARY(Greater, static_cast<uint8_t>(x > y))
YOKE_CC_BINARY(GreaterEqual, static_cast<uint8_t>(x >= y))
YOKE_CC_BINARY(Equal, static_cast<uint8_t>(x == y))
YOKE_CC_BINARY(NotEqual, static_cast<uint8_t>(x != y))

// The operands have the same bits or are zeros of different signs.
inline float either_zero(float x, float y) {
  return as_f32(as_u32(x) | as_u32(y));
}
inline float both_zero(float x, float y) {
  return as_f32(as_u32(x) & as_u32(y));
}
inline double either_zero(double x, double y) {
  return __builtin_bit_cast(double, __builtin_bit_cast(uint64_t, x) | __builtin_bit_cast(uint64_t, y));
}
inline double both_zero(double x, double y) {
  return __builtin_bit_cast(double, __builtin_bit_cast(uint64_t, x) & __builtin_bit_cast(uint64_t, y));
}
// IEEE 754-2019 minimum and maximum: NaN if either side is NaN, and -0 < +0.
template <class T>
struct Min {
  static inline T apply(T x, T y) {
    if constexpr (is_float_v<T>) {
      const T z = ((x < y) | (x != x)) ? x : y;
      return x == y ? either_zero(x, y) : z;
    } else {
      return x < y ? x : y;
    }
  }
};
template <class T>
struct Max {
  static inline T apply(T x, T y) {
    if constexpr (is_float_v<T>) {
      const T z = ((x > y) | (x != x)) ? x : y;
      return x == y ? both_zero(x, y) : z;
    } else {
      return x > y ? x : y;
    }
  }
};
template <class T>
struct Neg {
  static inline T apply(T x) {
    if constexpr (is_float_v<T>) {
      return -x;
    } else {
      return static_cast<T>(Arithmetic<T>{0} - static_cast<Arithmetic<T>>(x));
    }
  }
};
template <class T>
struct Abs {
  static inline T apply(T x) {
    if constexpr (is_float_v<T>) {
      return sizeof(T) == 4 ? static_cast<T>(__builtin_fabsf(static_cast<float>(x)))
                            : static_cast<T>(__builtin_fabs(static_cast<double>(x)));
    } else {
      return x < T{0} ? Neg<T>::apply(x) : x;
    }
  }
};
// Zeros keep their sign, and NaN passes through.
template <class T>
struct Sign {
  static inline T apply(T x) {
    if constexpr (is_float_v<T>) {
      return x > T{0} ? T{1} : x < T{0} ? T{-1} : x;
    } else {
      return static_cast<T>((x > T{0} ? 1 : 0) - (x < T{0} ? 1 : 0));
    }
  }
};
template <class T>
struct Div {
  static inline T apply(T x, T y) {
    if constexpr (is_float_v<T>) {
      return x / y;
    } else {
      if (y == T{0}) {
        return T{0};
      }
      if (is_signed_v<T> && y == static_cast<T>(-1)) {
        return Neg<T>::apply(x);
      }
      return static_cast<T>(x / y);
    }
  }
};
template <class T>
struct Mod {
  static inline T apply(T x, T y) {
    if constexpr (is_float_v<T>) {
      return sizeof(T) == 4 ? static_cast<T>(::fmodf(static_cast<float>(x), static_cast<float>(y)))
                            : static_cast<T>(::fmod(static_cast<double>(x), static_cast<double>(y)));
    } else {
      if (y == T{0} || (is_signed_v<T> && y == static_cast<T>(-1))) {
        return T{0};
      }
      return static_cast<T>(x % y);
    }
  }
};
template <class T>
struct ShiftLeft {
  static inline T apply(T x, T y) {
    constexpr Arithmetic<T> kLast = sizeof(T) * 8 - 1;
    return static_cast<T>(static_cast<Arithmetic<T>>(x) << (static_cast<Arithmetic<T>>(y) & kLast));
  }
};
template <class T>
struct ShiftRight {
  static inline T apply(T x, T y) {
    constexpr Arithmetic<T> kLast = sizeof(T) * 8 - 1;
    return static_cast<T>(x >> (static_cast<Arithmetic<T>>(y) & kLast));
  }
};

// Rounds to the nearest integer without SSE 4.1, which plain x86-64 lacks.
// Numbers from 2^23 (2^52) on are integers.
inline float nearest(float x) {
  const float ax = __builtin_fabsf(x);
  const float r = with_sign((ax + 8388608.0F) - 8388608.0F, x);
  return ax < 8388608.0F ? r : x;
}
inline double nearest(double x) {
  const double ax = __builtin_fabs(x);
  const double r = __builtin_copysign((ax + 4503599627370496.0) - 4503599627370496.0, x);
  return ax < 4503599627370496.0 ? r : x;
}
inline float copy_sign(float x, float y) {
  return with_sign(x, y);
}
inline double copy_sign(double x, double y) {
  return __builtin_copysign(x, y);
}
template <class T>
struct Round {
  static inline T apply(T x) { return nearest(x); }
};
template <class T>
struct Floor {
  static inline T apply(T x) {
    const T r = nearest(x);
    return copy_sign(r - (r > x ? T{1} : T{0}), x);
  }
};
template <class T>
struct Ceil {
  static inline T apply(T x) {
    const T r = nearest(x);
    return copy_sign(r + (r < x ? T{1} : T{0}), x);
  }
};
template <class T>
struct Trunc {
  static inline T apply(T x) { return x < T{0} ? Ceil<T>::apply(x) : Floor<T>::apply(x); }
};

template <class T>
struct Fma {
  static inline T apply(T x, T y, T z) {
    if constexpr (sizeof(T) == 4) {
      return __builtin_fmaf(x, y, z);
    } else {
      return __builtin_fma(x, y, z);
    }
  }
};
template <class T>
struct MulAdd {
  static inline T apply(T x, T y, T z) { return x * y + z; }
};
template <class T>
struct MulSub {
  static inline T apply(T x, T y, T z) { return z - x * y; }
};
template <class T>
struct MulMul {
  static inline T apply(T x, T y, T z) { return x * y * z; }
};
template <class T>
struct SubMul {
  static inline T apply(T x, T y, T z) { return (x - y) * z; }
};
template <class T>
struct Select {
  static inline T apply(uint8_t condition, T x, T y) { return condition != 0 ? x : y; }
};

// f32 functions come from functions.h, f64 functions from the C library.
#define YOKE_CC_FUNCTION(name, f32, f64)                   \
  template <class T>                                       \
  struct name {                                            \
    static inline float apply(float x) { return (f32); }   \
  };                                                       \
  template <>                                              \
  struct name<double> {                                    \
    static inline double apply(double x) { return (f64); } \
  };
// clang-format off
YOKE_CC_FUNCTION(Exp, exp_f32(x), ::exp(x))
YOKE_CC_FUNCTION(Exp2, exp2_f32(x), ::exp2(x))
YOKE_CC_FUNCTION(Expm1, expm1_f32(x), ::expm1(x))
YOKE_CC_FUNCTION(Log, log_f32(x), ::log(x))
YOKE_CC_FUNCTION(Log2, log2_f32(x), ::log2(x))
YOKE_CC_FUNCTION(Log1p, log1p_f32(x), ::log1p(x))
YOKE_CC_FUNCTION(Tanh, tanh_f32(x), ::tanh(x))
YOKE_CC_FUNCTION(Sigmoid, sigmoid_f32(x), 1.0 / (1.0 + ::exp(-x)))
YOKE_CC_FUNCTION(Erf, erf_f32(x), ::erf(x))
YOKE_CC_FUNCTION(Erfc, ::erfcf(x), ::erfc(x))
YOKE_CC_FUNCTION(Sin, trig_f32(x, 0), ::sin(x))
YOKE_CC_FUNCTION(Cos, trig_f32(x, 1), ::cos(x))
YOKE_CC_FUNCTION(Sqrt, __builtin_sqrtf(x), __builtin_sqrt(x))
YOKE_CC_FUNCTION(Rsqrt, 1.0F / __builtin_sqrtf(x), 1.0 / __builtin_sqrt(x))
// clang-format on
template <class T>
struct Pow {
  static inline float apply(float x, float y) { return ::powf(x, y); }
};
template <>
struct Pow<double> {
  static inline double apply(double x, double y) { return ::pow(x, y); }
};

struct RoundF16 {
  static inline float apply(float x) { return f16_to(f16_of(x)); }
};
struct RoundBF16 {
  static inline float apply(float x) { return bf16_to(bf16_of(x)); }
};
struct WidenF16 {
  static inline float apply(uint16_t x) { return f16_to(x); }
};
struct WidenBF16 {
  static inline float apply(uint16_t x) { return bf16_to(x); }
};
struct NarrowF16 {
  static inline uint16_t apply(float x) { return f16_of(x); }
};
struct NarrowBF16 {
  static inline uint16_t apply(float x) { return bf16_of(x); }
};
// Casts. Integers wrap. Floats to integers truncate and saturate; NaN becomes 0.
template <class From, class To, bool kToBool>
struct Cast {
  static inline To apply(From x) {
    if constexpr (kToBool) {
      return static_cast<To>(x != From{0});
    } else if constexpr (is_float_v<From> && !is_float_v<To>) {
      constexpr To kHigh = is_signed_v<To> ? static_cast<To>(~(Arithmetic<To>{1} << (sizeof(To) * 8 - 1)))
                                           : static_cast<To>(~Arithmetic<To>{0});
      constexpr To kLow = is_signed_v<To> ? static_cast<To>(-kHigh - 1) : To{0};
      constexpr To kHalf = kHigh / 2 + 1;
      constexpr From kLimit = static_cast<From>(kHalf) * 2;  // kHigh + 1, exactly
      const bool inside = x > static_cast<From>(kLow) && x < kLimit;
      const To cut = static_cast<To>(inside ? x : From{0});
      const To outside = x >= kLimit ? kHigh : x <= static_cast<From>(kLow) ? kLow : To{0};
      return inside ? cut : outside;
    } else {
      return static_cast<To>(x);
    }
  }
};

template <class T>
struct SubExp {
  static inline T apply(T x, T y) { return Exp<T>::apply(x - y); }
};

}  // namespace
