// SPDX-License-Identifier: Apache-2.0
// plugins/cc/tile/kernels_move.cpp: copies, gathers and scatters; compiled once per instruction set.
#include "kernels_isa.h"
#include "operations.h"

#if defined(__SSE2__)
#include <immintrin.h>
#endif

namespace yoke::cc::YOKE_CC_ISA {
namespace {

template <class T>
struct Second {
  static inline T apply(T, T y) { return y; }
};

#if defined(__AVX512BW__)
// Rows that fit in a register each, such as the channels of small images.
template <class T>
void copy_short_rows(T* out, const T* in, int64_t nr, int64_t nc, int64_t drs, int64_t srs) {
  const __mmask64 mask = ~__mmask64{0} >> (64 - static_cast<uint64_t>(nc) * sizeof(T));
  for (int64_t r = 0; r < nr; ++r, out += drs, in += srs) {
    _mm512_mask_storeu_epi8(out, mask, _mm512_maskz_loadu_epi8(mask, in));
  }
}
#endif

template <class T>
void copy(void* dst, const void* src, int64_t nr, int64_t nc, int64_t drs, int64_t dcs, int64_t srs,
          int64_t scs) {
  T* out = static_cast<T*>(dst);
  const T* in = static_cast<const T*>(src);
#if defined(__AVX512BW__)
  if (dcs == 1 && scs == 1 && nr > 1 && nc > 0 && nc * static_cast<int64_t>(sizeof(T)) <= 64) {
    copy_short_rows(out, in, nr, nc, drs, srs);
    return;
  }
#endif
  for (int64_t r = 0; r < nr; ++r, out += drs, in += srs) {
    if (dcs == 1 && scs == 1) {
      YOKE_CC_VECTORIZE
      for (int64_t c = 0; c < nc; ++c) {
        out[c] = in[c];
      }
    } else if (dcs == 1 && scs == 0) {
      const T value = *in;
      YOKE_CC_VECTORIZE
      for (int64_t c = 0; c < nc; ++c) {
        out[c] = value;
      }
    } else {
      for (int64_t c = 0; c < nc; ++c) {
        out[c * dcs] = in[c * scs];
      }
    }
  }
}

template <class T>
void gather(void* dst, const void* src, const int64_t* offsets, const void* otherwise, int64_t n) {
  T* out = static_cast<T*>(dst);
  const T* in = static_cast<const T*>(src);
  const T missing = *static_cast<const T*>(otherwise);
  for (int64_t i = 0; i < n; ++i) {
    out[i] = offsets[i] >= 0 ? in[offsets[i]] : missing;
  }
}

// The target's elements are stored as S; Widen and Narrow convert them to and from T.
template <class T, class S, class Widen, class Narrow, template <class> class F>
void scatter(void* dst, const int64_t* offsets, const void* values, int64_t n) {
  S* out = static_cast<S*>(dst);
  const T* x = static_cast<const T*>(values);
  const auto combine = [](S& at, T value) { at = Narrow::apply(F<T>::apply(Widen::apply(at), value)); };
  if (offsets == nullptr) {
    YOKE_CC_VECTORIZE
    for (int64_t i = 0; i < n; ++i) {
      combine(out[i], x[i]);
    }
    return;
  }
  for (int64_t i = 0; i < n; ++i) {
    if (offsets[i] >= 0) {
      combine(out[offsets[i]], x[i]);
    }
  }
}

template <template <class> class F>
ScatterFn pick_scatter(Reg type, Stored stored) {
  if (stored == Stored::kF16) {
    return scatter<float, uint16_t, WidenF16, NarrowF16, F>;
  }
  if (stored == Stored::kBF16) {
    return scatter<float, uint16_t, WidenBF16, NarrowBF16, F>;
  }
  return with_type(type, [](auto zero) -> ScatterFn {
    using T = decltype(zero);
    return scatter<T, T, Copy<T>, Copy<T>, F>;
  });
}

// Calls use(T{}) for an unsigned type T of this size.
template <class Use>
auto with_size(int64_t element_size, const Use& use) {
  switch (element_size) {
    case 1:
      return use(uint8_t{});
    case 2:
      return use(uint16_t{});
    case 4:
      return use(uint32_t{});
    default:
      return use(uint64_t{});
  }
}

}  // namespace

CopyFn find_copy(int64_t element_size) {
  return with_size(element_size, [](auto zero) -> CopyFn { return copy<decltype(zero)>; });
}

void copy_past_caches(void* dst, const void* src, int64_t byte_count) {
  uint8_t* out = static_cast<uint8_t*>(dst);
  const uint8_t* in = static_cast<const uint8_t*>(src);
#if defined(__SSE2__)
  constexpr int64_t kLine = 64;
  while (byte_count > 0 && (reinterpret_cast<uintptr_t>(out) & (kLine - 1)) != 0) {
    *out++ = *in++;
    --byte_count;
  }
  for (; byte_count >= kLine; byte_count -= kLine, out += kLine, in += kLine) {
#if defined(__AVX512F__)
    _mm512_stream_si512(reinterpret_cast<__m512i*>(out), _mm512_loadu_si512(in));
#elif defined(__AVX2__)
    for (int64_t i = 0; i < kLine; i += 32) {
      _mm256_stream_si256(reinterpret_cast<__m256i*>(out + i),
                          _mm256_loadu_si256(reinterpret_cast<const __m256i*>(in + i)));
    }
#else
    for (int64_t i = 0; i < kLine; i += 16) {
      _mm_stream_si128(reinterpret_cast<__m128i*>(out + i),
                       _mm_loadu_si128(reinterpret_cast<const __m128i*>(in + i)));
    }
#endif
  }
#endif
  __builtin_memcpy(out, in, static_cast<size_t>(byte_count));
}

GatherFn find_gather(int64_t element_size) {
  return with_size(element_size, [](auto zero) -> GatherFn { return gather<decltype(zero)>; });
}

ScatterFn find_scatter(MapOp op, Reg type, Stored stored) {
  switch (op) {
    case MapOp::kCopy:
      return pick_scatter<Second>(type, stored);
    case MapOp::kAdd:
      return pick_scatter<Add>(type, stored);
    case MapOp::kMul:
      return pick_scatter<Mul>(type, stored);
    case MapOp::kMin:
      return pick_scatter<Min>(type, stored);
    case MapOp::kMax:
      return pick_scatter<Max>(type, stored);
    default:
      return nullptr;
  }
}

void iota(int64_t* dst, int64_t first, int64_t row_step, int64_t column_step, int64_t nr, int64_t nc) {
  for (int64_t r = 0; r < nr; ++r) {
    YOKE_CC_VECTORIZE
    for (int64_t c = 0; c < nc; ++c) {
      dst[r * nc + c] = first + r * row_step + c * column_step;
    }
  }
}

#define YOKE_CC_TEXT_OF(x) #x
#define YOKE_CC_TEXT(x) YOKE_CC_TEXT_OF(x)

const KernelTable& table() {
  static const KernelTable kTable = {.name = YOKE_CC_TEXT(YOKE_CC_ISA),
                                     .map = find_map,
                                     .cast = find_cast,
                                     .reduce = find_reduce,
                                     .product_sum = find_product_sum,
                                     .fold = fold,
                                     .copy = find_copy,
                                     .copy_past_caches = copy_past_caches,
                                     .gather = find_gather,
                                     .scatter = find_scatter,
                                     .iota = iota,
                                     .block_product = find_block_product,
                                     .panel = panel_kernels()};
  return kTable;
}

}  // namespace yoke::cc::YOKE_CC_ISA
