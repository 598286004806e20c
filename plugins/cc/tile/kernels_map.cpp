// SPDX-License-Identifier: Apache-2.0
// plugins/cc/tile/kernels_map.cpp: elementwise operations over a tile; compiled once per instruction set.
#include "kernels_isa.h"
#include "operations.h"

namespace yoke::cc::YOKE_CC_ISA {
namespace {

template <class T, class R, class F>
void map1(void* dst, const void* a, const void*, const void*, int64_t n) {
  R* out = static_cast<R*>(dst);
  const T* x = static_cast<const T*>(a);
  YOKE_CC_VECTORIZE
  for (int64_t i = 0; i < n; ++i) {
    out[i] = F::apply(x[i]);
  }
}

template <class T, class R, class F, unsigned kScalars>
void map2(void* dst, const void* a, const void* b, const void*, int64_t n) {
  R* out = static_cast<R*>(dst);
  const T* x = static_cast<const T*>(a);
  const T* y = static_cast<const T*>(b);
  const T x0 = *x;
  const T y0 = *y;
  YOKE_CC_VECTORIZE
  for (int64_t i = 0; i < n; ++i) {
    out[i] = F::apply((kScalars & kScalarA) != 0 ? x0 : x[i], (kScalars & kScalarB) != 0 ? y0 : y[i]);
  }
}

template <class A, class T, class F, unsigned kScalars>
void map3(void* dst, const void* a, const void* b, const void* c, int64_t n) {
  T* out = static_cast<T*>(dst);
  const A* x = static_cast<const A*>(a);
  const T* y = static_cast<const T*>(b);
  const T* z = static_cast<const T*>(c);
  const A x0 = *x;
  const T y0 = *y;
  const T z0 = *z;
  YOKE_CC_VECTORIZE
  for (int64_t i = 0; i < n; ++i) {
    out[i] = F::apply((kScalars & kScalarA) != 0 ? x0 : x[i], (kScalars & kScalarB) != 0 ? y0 : y[i],
                      (kScalars & kScalarC) != 0 ? z0 : z[i]);
  }
}

template <class T, class R, class F>
MapFn pick2(unsigned scalars) {
  switch (scalars) {
    case 0:
      return map2<T, R, F, 0>;
    case kScalarA:
      return map2<T, R, F, kScalarA>;
    case kScalarB:
      return map2<T, R, F, kScalarB>;
    default:
      return map2<T, R, F, 3>;
  }
}

template <class A, class T, class F>
MapFn pick3(unsigned scalars) {
  switch (scalars) {
    case 0:
      return map3<A, T, F, 0>;
    case 1:
      return map3<A, T, F, 1>;
    case 2:
      return map3<A, T, F, 2>;
    case 3:
      return map3<A, T, F, 3>;
    case 4:
      return map3<A, T, F, 4>;
    case 5:
      return map3<A, T, F, 5>;
    case 6:
      return map3<A, T, F, 6>;
    default:
      return map3<A, T, F, 7>;
  }
}

// sin and cos: a vector loop, then the C library for the arguments that are too large for it.
template <bool kCos>
void trig(void* dst, const void* a, const void*, const void*, int64_t n) {
  constexpr int64_t kPiece = 256;
  float* out = static_cast<float*>(dst);
  const float* x = static_cast<const float*>(a);
  for (int64_t start = 0; start < n; start += kPiece) {
    float kept[kPiece];  // a copy of the arguments: dst may be the same array as a
    const int64_t count = n - start < kPiece ? n - start : kPiece;
    uint32_t large = 0;
    for (int64_t i = 0; i < count; ++i) {
      kept[i] = x[start + i];
      large |= __builtin_fabsf(kept[i]) <= kTrigLimit ? 0U : 1U;
    }
    map1<float, float, typename Pick<kCos, CosF, SinF>::Type>(out + start, kept, nullptr, nullptr, count);
    for (int64_t i = 0; large != 0 && i < count; ++i) {
      if (!(__builtin_fabsf(kept[i]) <= kTrigLimit)) {
        out[start + i] = kCos ? ::cosf(kept[i]) : ::sinf(kept[i]);
      }
    }
  }
}

template <unsigned kScalars>
void random_bits(void* dst, const void* a, const void* b, const void* c, int64_t n) {
  uint32_t* out = static_cast<uint32_t*>(dst);
  const int64_t* seed = static_cast<const int64_t*>(a);
  const int64_t* stream = static_cast<const int64_t*>(b);
  const int64_t* counter = static_cast<const int64_t*>(c);
  YOKE_CC_VECTORIZE
  for (int64_t i = 0; i < n; ++i) {
    out[i] = RandomBits::apply((kScalars & kScalarA) != 0 ? *seed : seed[i],
                               (kScalars & kScalarB) != 0 ? *stream : stream[i],
                               (kScalars & kScalarC) != 0 ? *counter : counter[i]);
  }
}

MapFn pick_random(unsigned scalars) {
  switch (scalars) {
    case 0:
      return random_bits<0>;
    case 1:
      return random_bits<1>;
    case 2:
      return random_bits<2>;
    case 3:
      return random_bits<3>;
    case 4:
      return random_bits<4>;
    case 5:
      return random_bits<5>;
    case 6:
      return random_bits<6>;
    default:
      return random_bits<7>;
  }
}

// Operations that floats and integers share.
template <class T>
MapFn any_map(MapOp op, unsigned scalars) {
  switch (op) {
    case MapOp::kCopy:
      return map1<T, T, Copy<T>>;
    case MapOp::kAdd:
      return pick2<T, T, Add<T>>(scalars);
    case MapOp::kSub:
      return pick2<T, T, Sub<T>>(scalars);
    case MapOp::kMul:
      return pick2<T, T, Mul<T>>(scalars);
    case MapOp::kMin:
      return pick2<T, T, Min<T>>(scalars);
    case MapOp::kMax:
      return pick2<T, T, Max<T>>(scalars);
    case MapOp::kSelect:
      return pick3<uint8_t, T, Select<T>>(scalars);
    case MapOp::kLess:
      return pick2<T, uint8_t, Less<T>>(scalars);
    case MapOp::kLessEqual:
      return pick2<T, uint8_t, LessEqual<T>>(scalars);
    case MapOp::kGreater:
      return pick2<T, uint8_t, Greater<T>>(scalars);
    case MapOp::kGreaterEqual:
      return pick2<T, uint8_t, GreaterEqual<T>>(scalars);
    case MapOp::kEqual:
      return pick2<T, uint8_t, Equal<T>>(scalars);
    case MapOp::kNotEqual:
      return pick2<T, uint8_t, NotEqual<T>>(scalars);
    default:
      return nullptr;
  }
}

template <class T>
MapFn float_map(MapOp op, unsigned scalars) {
  switch (op) {
    case MapOp::kNeg:
      return map1<T, T, NegFloat<T>>;
    case MapOp::kSign:
      return map1<T, T, SignFloat<T>>;
    case MapOp::kFloor:
      return map1<T, T, Floor<T>>;
    case MapOp::kCeil:
      return map1<T, T, Ceil<T>>;
    case MapOp::kRound:
      return map1<T, T, Round<T>>;
    case MapOp::kTrunc:
      return map1<T, T, Trunc<T>>;
    case MapOp::kRecip:
      return map1<T, T, Recip<T>>;
    case MapOp::kDiv:
      return pick2<T, T, DivFloat<T>>(scalars);
    case MapOp::kFma:
      return pick3<T, T, Fma<T>>(scalars);
    case MapOp::kMulAdd:
      return pick3<T, T, MulAdd<T>>(scalars);
    case MapOp::kMulSub:
      return pick3<T, T, MulSub<T>>(scalars);
    default:
      return any_map<T>(op, scalars);
  }
}

#define YOKE_CC_MATH_CASES(type, suffix)      \
  case MapOp::kAbs:                           \
    return map1<type, type, Abs##suffix>;     \
  case MapOp::kExp:                           \
    return map1<type, type, Exp##suffix>;     \
  case MapOp::kExp2:                          \
    return map1<type, type, Exp2##suffix>;    \
  case MapOp::kExpm1:                         \
    return map1<type, type, Expm1##suffix>;   \
  case MapOp::kLog:                           \
    return map1<type, type, Log##suffix>;     \
  case MapOp::kLog2:                          \
    return map1<type, type, Log2##suffix>;    \
  case MapOp::kLog1p:                         \
    return map1<type, type, Log1p##suffix>;   \
  case MapOp::kSqrt:                          \
    return map1<type, type, Sqrt##suffix>;    \
  case MapOp::kRsqrt:                         \
    return map1<type, type, Rsqrt##suffix>;   \
  case MapOp::kTanh:                          \
    return map1<type, type, Tanh##suffix>;    \
  case MapOp::kSigmoid:                       \
    return map1<type, type, Sigmoid##suffix>; \
  case MapOp::kErf:                           \
    return map1<type, type, Erf##suffix>;     \
  case MapOp::kErfc:                          \
    return map1<type, type, Erfc##suffix>;    \
  case MapOp::kPow:                           \
    return pick2<type, type, Pow##suffix>(scalars);

MapFn f32_map(MapOp op, unsigned scalars) {
  switch (op) {
    YOKE_CC_MATH_CASES(float, F)
    case MapOp::kSin:
      return trig<false>;
    case MapOp::kCos:
      return trig<true>;
    case MapOp::kRoundF16:
      return map1<float, float, RoundF16>;
    case MapOp::kRoundBF16:
      return map1<float, float, RoundBF16>;
    case MapOp::kWidenF16:
      return map1<uint16_t, float, WidenF16>;
    case MapOp::kWidenBF16:
      return map1<uint16_t, float, WidenBF16>;
    case MapOp::kNarrowF16:
      return map1<float, uint16_t, NarrowF16>;
    case MapOp::kNarrowBF16:
      return map1<float, uint16_t, NarrowBF16>;
    default:
      return float_map<float>(op, scalars);
  }
}

MapFn f64_map(MapOp op, unsigned scalars) {
  switch (op) {
    YOKE_CC_MATH_CASES(double, D)
    case MapOp::kSin:
      return map1<double, double, SinD>;
    case MapOp::kCos:
      return map1<double, double, CosD>;
    default:
      return float_map<double>(op, scalars);
  }
}

template <class T>
MapFn int_map(MapOp op, unsigned scalars) {
  switch (op) {
    case MapOp::kNeg:
      return map1<T, T, NegInt<T>>;
    case MapOp::kAbs:
      return map1<T, T, AbsInt<T>>;
    case MapOp::kSign:
      return map1<T, T, SignInt<T>>;
    case MapOp::kNot:
      return map1<T, T, Not<T>>;
    case MapOp::kBitNot:
      return map1<T, T, BitNot<T>>;
    case MapOp::kDiv:
      return pick2<T, T, DivInt<T>>(scalars);
    case MapOp::kMod:
      return pick2<T, T, ModInt<T>>(scalars);
    case MapOp::kBitAnd:
      return pick2<T, T, BitAnd<T>>(scalars);
    case MapOp::kBitOr:
      return pick2<T, T, BitOr<T>>(scalars);
    case MapOp::kBitXor:
      return pick2<T, T, BitXor<T>>(scalars);
    case MapOp::kShiftLeft:
      return pick2<T, T, ShiftLeft<T>>(scalars);
    case MapOp::kShiftRight:
      return pick2<T, T, ShiftRight<T>>(scalars);
    default:
      return any_map<T>(op, scalars);
  }
}

template <class From>
MapFn cast_to(Reg to, bool to_bool) {
  if (to_bool) {
    return map1<From, uint8_t, Cast<From, uint8_t, true>>;
  }
  switch (to) {
    case Reg::kF64:
      return map1<From, double, Cast<From, double, false>>;
    case Reg::kF32:
      return map1<From, float, Cast<From, float, false>>;
    case Reg::kI64:
      return map1<From, int64_t, Cast<From, int64_t, false>>;
    case Reg::kI32:
      return map1<From, int32_t, Cast<From, int32_t, false>>;
    case Reg::kU32:
      return map1<From, uint32_t, Cast<From, uint32_t, false>>;
    case Reg::kU8:
      return map1<From, uint8_t, Cast<From, uint8_t, false>>;
  }
  return nullptr;
}

}  // namespace

MapFn find_map(MapOp op, Reg type, unsigned scalars) {
  switch (type) {
    case Reg::kF64:
      return f64_map(op, scalars);
    case Reg::kF32:
      return f32_map(op, scalars);
    case Reg::kI64:
      return op == MapOp::kRandomBits ? pick_random(scalars) : int_map<int64_t>(op, scalars);
    case Reg::kI32:
      return int_map<int32_t>(op, scalars);
    case Reg::kU32:
      return int_map<uint32_t>(op, scalars);
    case Reg::kU8:
      return int_map<uint8_t>(op, scalars);
  }
  return nullptr;
}

MapFn find_cast(Reg from, Reg to, bool to_bool) {
  switch (from) {
    case Reg::kF64:
      return cast_to<double>(to, to_bool);
    case Reg::kF32:
      return cast_to<float>(to, to_bool);
    case Reg::kI64:
      return cast_to<int64_t>(to, to_bool);
    case Reg::kI32:
      return cast_to<int32_t>(to, to_bool);
    case Reg::kU32:
      return cast_to<uint32_t>(to, to_bool);
    case Reg::kU8:
      return cast_to<uint8_t>(to, to_bool);
  }
  return nullptr;
}

}  // namespace yoke::cc::YOKE_CC_ISA
