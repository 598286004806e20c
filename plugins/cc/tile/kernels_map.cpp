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

template <class A, class T, class R, class F, unsigned kScalars>
void map3(void* dst, const void* a, const void* b, const void* c, int64_t n) {
  R* out = static_cast<R*>(dst);
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
  constexpr MapFn kLoops[] = {map2<T, R, F, 0>, map2<T, R, F, 1>, map2<T, R, F, 2>, map2<T, R, F, 3>};
  return kLoops[scalars & 3U];
}

template <class A, class T, class R, class F>
MapFn pick3(unsigned scalars) {
  constexpr MapFn kLoops[] = {map3<A, T, R, F, 0>, map3<A, T, R, F, 1>, map3<A, T, R, F, 2>,
                              map3<A, T, R, F, 3>, map3<A, T, R, F, 4>, map3<A, T, R, F, 5>,
                              map3<A, T, R, F, 6>, map3<A, T, R, F, 7>};
  return kLoops[scalars & 7U];
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
    map1<float, float, typename Pick<kCos, Cos<float>, Sin<float>>::Type>(out + start, kept, nullptr, nullptr,
                                                                          count);
    for (int64_t i = 0; large != 0 && i < count; ++i) {
      if (!(__builtin_fabsf(kept[i]) <= kTrigLimit)) {
        out[start + i] = kCos ? ::cosf(kept[i]) : ::sinf(kept[i]);
      }
    }
  }
}

// exp(a), or exp(a - b): pieces without large arguments need fewer operations.
template <class F>
void exp_pieces(float* out, int64_t n, F argument) {
  constexpr int64_t kPiece = 256;
  for (int64_t start = 0; start < n; start += kPiece) {
    alignas(64) float kept[kPiece];  // a copy of the arguments: `out` may be an operand
    const int64_t count = n - start < kPiece ? n - start : kPiece;
    uint32_t large = 0;
    YOKE_CC_VECTORIZE
    for (int64_t i = 0; i < count; ++i) {
      const float x = argument(start + i);
      kept[i] = x;
      large |= __builtin_fabsf(x) <= kExpLimit ? 0U : 1U;
      out[start + i] = exp_f32_within(x);
    }
    for (int64_t i = 0; large != 0 && i < count; ++i) {
      out[start + i] = exp_f32(kept[i]);
    }
  }
}

void exp_map(void* dst, const void* a, const void*, const void*, int64_t n) {
  const float* x = static_cast<const float*>(a);
  exp_pieces(static_cast<float*>(dst), n, [=](int64_t i) { return x[i]; });
}

template <unsigned kScalars>
void sub_exp_map(void* dst, const void* a, const void* b, const void*, int64_t n) {
  const float* x = static_cast<const float*>(a);
  const float* y = static_cast<const float*>(b);
  const float x0 = *x;
  const float y0 = *y;
  exp_pieces(static_cast<float*>(dst), n, [=](int64_t i) {
    return ((kScalars & kScalarA) != 0 ? x0 : x[i]) - ((kScalars & kScalarB) != 0 ? y0 : y[i]);
  });
}

// Random bits of one seed and stream: where counters are consecutive, each block gives four words.
void random_run(void* dst, const void* a, const void* b, const void* c, int64_t n) {
  constexpr int64_t kPiece = 64;
  uint32_t* out = static_cast<uint32_t*>(dst);
  const int64_t seed = *static_cast<const int64_t*>(a);
  const int64_t stream = *static_cast<const int64_t*>(b);
  const int64_t* counter = static_cast<const int64_t*>(c);
  for (int64_t i = 0; i < n;) {
    const uint64_t first = static_cast<uint64_t>(counter[i]);
    int64_t count = n - i < kPiece ? n - i : kPiece;
    uint64_t gaps = 0;
    for (int64_t k = 0; k < count; ++k) {
      gaps |= static_cast<uint64_t>(counter[i + k]) - first - static_cast<uint64_t>(k);
    }
    if (gaps == 0 && (first & 3U) == 0 && count == kPiece) {
      uint32_t words[4][kPiece / 4];
      YOKE_CC_VECTORIZE
      for (int64_t k = 0; k < kPiece / 4; ++k) {
        uint32_t four[4];
        const int64_t counter_of_block =
            static_cast<int64_t>(first + 4U * static_cast<uint64_t>(k));  // may wrap
        RandomBits<int64_t>::four_words(seed, stream, counter_of_block >> 2, four);
        words[0][k] = four[0];
        words[1][k] = four[1];
        words[2][k] = four[2];
        words[3][k] = four[3];
      }
      for (int64_t k = 0; k < kPiece / 4; ++k) {
        out[i + 4 * k] = words[0][k];
        out[i + 4 * k + 1] = words[1][k];
        out[i + 4 * k + 2] = words[2][k];
        out[i + 4 * k + 3] = words[3][k];
      }
    } else {
      count = gaps == 0 && (first & 3U) != 0 && count > 4 ? static_cast<int64_t>(4 - (first & 3U)) : count;
      YOKE_CC_VECTORIZE
      for (int64_t k = 0; k < count; ++k) {
        out[i + k] = RandomBits<int64_t>::apply(seed, stream, counter[i + k]);
      }
    }
    i += count;
  }
}

// The loop for operation F on operands of type T, by arity.
template <class T, template <class> class F>
struct Loops1 {
  static MapFn find(unsigned) { return map1<T, T, F<T>>; }
};
template <>
struct Loops1<float, Sin> {
  static MapFn find(unsigned) { return trig<false>; }
};
template <>
struct Loops1<float, Cos> {
  static MapFn find(unsigned) { return trig<true>; }
};
template <>
struct Loops1<float, Exp> {
  static MapFn find(unsigned) { return exp_map; }
};
template <class T, template <class> class F>
struct Loops2 {
  static MapFn find(unsigned scalars) { return pick2<T, decltype(F<T>::apply(T{}, T{})), F<T>>(scalars); }
};
template <>
struct Loops2<float, SubExp> {
  static MapFn find(unsigned scalars) {
    constexpr MapFn kLoops[] = {sub_exp_map<0>, sub_exp_map<1>, sub_exp_map<2>, sub_exp_map<3>};
    return kLoops[scalars & 3U];
  }
};
template <class T, template <class> class F>
struct Loops3 {
  static MapFn find(unsigned scalars) {
    return pick3<T, T, decltype(F<T>::apply(T{}, T{}, T{})), F<T>>(scalars);
  }
};
template <>
struct Loops3<int64_t, RandomBits> {
  static MapFn find(unsigned scalars) {
    return scalars == (kScalarA | kScalarB) ? random_run
                                            : pick3<int64_t, int64_t, uint32_t, RandomBits<int64_t>>(scalars);
  }
};
template <class T>
struct Loops3<T, Select> {
  static MapFn find(unsigned scalars) { return pick3<uint8_t, T, T, Select<T>>(scalars); }
};

// The rows of ops.def that accept T, by the row's class of operands.
template <class T>
struct Takes {
  static constexpr bool kAny = true;
  static constexpr bool kNumbers = true;
  static constexpr bool kFloats = is_float_v<T>;
  static constexpr bool kIntegers = !is_float_v<T>;
  static constexpr bool kBools = sizeof(T) == 1;
  static constexpr bool kI64s = !is_float_v<T> && sizeof(T) == 8;
};

template <bool kTaken, class T, template <class> class F, template <class, template <class> class> class L>
MapFn loops_if(unsigned scalars) {
  if constexpr (kTaken) {
    return L<T, F>::find(scalars);
  } else {
    return nullptr;
  }
}

// NOLINTNEXTLINE(readability-function-size): one line per operation
template <class T>
MapFn map_of(MapOp op, unsigned scalars) {
  switch (op) {
#define YOKE_OP(id, function, text, arity, precedence, operands, ...) \
  case MapOp::k##id:                                                  \
    return loops_if<Takes<T>::operands, T, id, Loops##arity>(scalars);
#include <yoke/program/ops.def>
    case MapOp::kCopy:
      return map1<T, T, Copy<T>>;
    case MapOp::kMulAdd:
      return loops_if<is_float_v<T>, T, MulAdd, Loops3>(scalars);
    case MapOp::kMulSub:
      return loops_if<is_float_v<T>, T, MulSub, Loops3>(scalars);
    case MapOp::kMulMul:
      return loops_if<is_float_v<T>, T, MulMul, Loops3>(scalars);
    case MapOp::kSubMul:
      return loops_if<is_float_v<T>, T, SubMul, Loops3>(scalars);
    case MapOp::kSubExp:
      return loops_if<is_float_v<T>, T, SubExp, Loops2>(scalars);
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
    case MapOp::kConst:
    case MapOp::kRead:
    case MapOp::kIndex:
    case MapOp::kCast:
    case MapOp::kGuard:
      break;  // not operations on tiles
  }
  return nullptr;
}

template <class From>
MapFn cast_to(Reg to, bool to_bool) {
  if (to_bool) {
    return map1<From, uint8_t, Cast<From, uint8_t, true>>;
  }
  return with_type(to, [](auto zero) -> MapFn {
    using To = decltype(zero);
    return map1<From, To, Cast<From, To, false>>;
  });
}

}  // namespace

MapFn find_map(MapOp op, Reg type, unsigned scalars) {
  return with_type(type, [&](auto zero) { return map_of<decltype(zero)>(op, scalars); });
}

MapFn find_cast(Reg from, Reg to, bool to_bool) {
  return with_type(from, [&](auto zero) { return cast_to<decltype(zero)>(to, to_bool); });
}

}  // namespace yoke::cc::YOKE_CC_ISA
