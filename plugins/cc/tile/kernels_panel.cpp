// SPDX-License-Identifier: Apache-2.0
// plugins/cc/tile/kernels_panel.cpp: the inner loops of products of floats with one operand in the cache
// (panel.h). Only for AVX-512: other instruction sets have too few registers to be faster than oneDNN.
#include "kernels_isa.h"
#include "panel_kernels.h"

#if defined(__AVX512F__)
#include <immintrin.h>

namespace yoke::cc::YOKE_CC_ISA {
namespace {

constexpr int64_t kPanelRows = 12;

// Keeps a * b and the subtraction after it two roundings, also where the compiler may fuse them.
template <class V>
inline V rounded(V value) {
  asm("" : "+v"(value));
  return value;
}

// NaN stays NaN.
template <class V>
inline V not_negative(V value) {
  const auto is_negative = value <= V{};
  using Bits = decltype(value <= V{});
  return reinterpret_cast<V>(reinterpret_cast<Bits>(value) & ~is_negative);
}

// kCount vectors of kBytes hold one row of the panel. kAdjacent: elements of neighboring rows are adjacent.
// kFetches: `ahead` is not null.
template <int64_t kBytes, uint64_t kCount, bool kAdjacent, bool kFetches>
// NOLINTNEXTLINE(readability-function-size): all of it works on sums that are in registers
void block(const PanelBlock& of) {
  typedef float V __attribute__((vector_size(kBytes)));
  typedef float Unaligned __attribute__((vector_size(kBytes), aligned(4), may_alias));
  constexpr uint64_t kLanes = kBytes / 4;
  V sums[kPanelRows][kCount] = {};
  const float* panel = of.panel;
  const int64_t stride = of.row_stride;
  // The rows in groups of three, so that few registers hold their addresses.
  const float* row[kAdjacent ? 1 : 4];
  for (int64_t i = 0; i < (kAdjacent ? 1 : 4); ++i) {
    row[i] = of.rows + 3 * i * stride;
  }
  for (int64_t i = 0; of.scale != nullptr && i < kPanelRows; ++i) {
    for (uint64_t j = 0; j < kCount; ++j) {
      __builtin_prefetch(of.out + i * of.out_stride + j * kLanes, 1);
    }
  }
  [[maybe_unused]] const float* ahead = of.ahead;
#pragma GCC unroll 4
  for (int64_t p = 0; p < of.depth; ++p) {
    V columns[kCount];
#pragma GCC unroll 2
    for (uint64_t j = 0; j < kCount; ++j) {
      columns[j] = *reinterpret_cast<const Unaligned*>(panel + j * kLanes);
    }
    panel += of.panel_step;
    if constexpr (kFetches) {
      __builtin_prefetch(ahead, 0, 2);
      ahead += of.ahead_step;
    }
#pragma GCC unroll 12
    for (int64_t i = 0; i < kPanelRows; ++i) {
      const float factor = kAdjacent ? row[0][i] : row[i / 3][i % 3 * stride];
#pragma GCC unroll 2
      for (uint64_t j = 0; j < kCount; ++j) {
        sums[i][j] += columns[j] * factor;
      }
    }
#pragma GCC unroll 4
    for (int64_t i = 0; i < (kAdjacent ? 1 : 4); ++i) {
      row[i] += of.row_step;
    }
  }
  if (of.bias != nullptr) {
#pragma GCC unroll 2
    for (uint64_t j = 0; j < kCount; ++j) {
      const V bias = *reinterpret_cast<const Unaligned*>(of.bias + j * kLanes);
#pragma GCC unroll 12
      for (int64_t i = 0; i < kPanelRows; ++i) {
        sums[i][j] = of.is_relu ? not_negative<V>(sums[i][j] + bias) : sums[i][j] + bias;
      }
    }
  }
  const float scale = of.scale == nullptr ? 0 : *of.scale;
#pragma GCC unroll 12
  for (int64_t i = 0; i < kPanelRows; ++i) {
    if (i < of.skipped) {
      continue;
    }
    float* out = of.out + i * of.out_stride;
#pragma GCC unroll 2
    for (uint64_t j = 0; j < kCount; ++j) {
      Unaligned* to = reinterpret_cast<Unaligned*>(out + j * kLanes);
      *to = of.scale == nullptr ? sums[i][j] : *to - rounded<V>(sums[i][j] * scale);
    }
  }
}

template <int64_t kBytes, uint64_t kCount>
void any_block(const PanelBlock& of) {
  if (of.row_stride != 1) {
    block<kBytes, kCount, false, false>(of);
  } else if (of.ahead == nullptr) {
    block<kBytes, kCount, true, false>(of);
  } else {
    block<kBytes, kCount, true, true>(of);
  }
}

typedef float V16 __attribute__((vector_size(64)));

// These take elements from each quarter q of a and b.
inline V16 low_pairs(V16 a, V16 b) {  // a[4q], b[4q], a[4q + 1], b[4q + 1]
  return __builtin_shufflevector(a, b, 0, 16, 1, 17, 4, 20, 5, 21, 8, 24, 9, 25, 12, 28, 13, 29);
}
inline V16 high_pairs(V16 a, V16 b) {
  return __builtin_shufflevector(a, b, 2, 18, 3, 19, 6, 22, 7, 23, 10, 26, 11, 27, 14, 30, 15, 31);
}
inline V16 low_halves(V16 a, V16 b) {  // a[4q], a[4q + 1], b[4q], b[4q + 1]
  return __builtin_shufflevector(a, b, 0, 1, 16, 17, 4, 5, 20, 21, 8, 9, 24, 25, 12, 13, 28, 29);
}
inline V16 high_halves(V16 a, V16 b) {
  return __builtin_shufflevector(a, b, 2, 3, 18, 19, 6, 7, 22, 23, 10, 11, 26, 27, 14, 15, 30, 31);
}
// Quarters 0 and 2 of a, then of b.
inline V16 even_quarters(V16 a, V16 b) {
  return __builtin_shufflevector(a, b, 0, 1, 2, 3, 8, 9, 10, 11, 16, 17, 18, 19, 24, 25, 26, 27);
}
inline V16 odd_quarters(V16 a, V16 b) {
  return __builtin_shufflevector(a, b, 4, 5, 6, 7, 12, 13, 14, 15, 20, 21, 22, 23, 28, 29, 30, 31);
}

inline __mmask16 first_lanes(int64_t count) {
  return static_cast<__mmask16>(count >= 16 ? 0xFFFF : count <= 0 ? 0 : (1U << count) - 1);
}

// Transposes 16 vectors of 16 floats.
inline void transpose(V16* rows) {
  V16 fours[16];  // [4 * i + j]: of rows 4 * i to 4 * i + 3, element j of each quarter
#pragma GCC unroll 4
  for (int i = 0; i < 16; i += 4) {
    const V16 low = low_pairs(rows[i], rows[i + 1]);
    const V16 high = high_pairs(rows[i], rows[i + 1]);
    const V16 next_low = low_pairs(rows[i + 2], rows[i + 3]);
    const V16 next_high = high_pairs(rows[i + 2], rows[i + 3]);
    fours[i] = low_halves(low, next_low);
    fours[i + 1] = high_halves(low, next_low);
    fours[i + 2] = low_halves(high, next_high);
    fours[i + 3] = high_halves(high, next_high);
  }
#pragma GCC unroll 4
  for (int j = 0; j < 4; ++j) {
    const V16 even = even_quarters(fours[j], fours[j + 4]);
    const V16 odd = odd_quarters(fours[j], fours[j + 4]);
    const V16 next_even = even_quarters(fours[j + 8], fours[j + 12]);
    const V16 next_odd = odd_quarters(fours[j + 8], fours[j + 12]);
    rows[j] = even_quarters(even, next_even);
    rows[j + 4] = even_quarters(odd, next_odd);
    rows[j + 8] = odd_quarters(even, next_even);
    rows[j + 12] = odd_quarters(odd, next_odd);
  }
}

inline V16 four_times(__m128 terms) {
  return _mm512_maskz_broadcast_f32x4(0xFFFF, terms);
}

// Each vector has four sums for each of four columns.
void block_of_terms(const PanelBlock& of) {
  V16 sums[kPanelRows] = {};
  const float* panel = of.panel;
  const float* row = of.rows;
  const int64_t stride = of.row_stride;
  const int64_t whole = of.depth / 4 * 4;
  for (int64_t p = 0; p < whole; p += 4) {
    const V16 columns = _mm512_loadu_ps(panel + p * 4);
#pragma GCC unroll 12
    for (int64_t i = 0; i < kPanelRows; ++i) {
      sums[i] += columns * four_times(_mm_loadu_ps(row + i * stride + p));
    }
  }
  if (whole < of.depth) {
    const V16 columns = _mm512_loadu_ps(panel + whole * 4);
    const auto used = static_cast<__mmask8>(first_lanes(of.depth - whole));
#pragma GCC unroll 12
    for (int64_t i = 0; i < kPanelRows; ++i) {
      sums[i] += columns * four_times(_mm_maskz_loadu_ps(used, row + i * stride + whole));
    }
  }
#pragma GCC unroll 12
  for (int64_t i = 0; i < kPanelRows; ++i) {
    const V16 of_pairs = sums[i] + __builtin_shufflevector(sums[i], sums[i], 1, 0, 3, 2, 5, 4, 7, 6, 9, 8, 11,
                                                           10, 13, 12, 15, 14);
    const V16 of_fours = of_pairs + __builtin_shufflevector(of_pairs, of_pairs, 2, 3, 0, 1, 6, 7, 4, 5, 10,
                                                            11, 8, 9, 14, 15, 12, 13);
    const __m512 columns = _mm512_maskz_compress_ps(0x1111, of_fours);
    _mm512_mask_storeu_ps(of.out + i * of.out_stride, 0xF, columns);
  }
}

// How far ahead of its use each line is prefetched, in elements.
constexpr int64_t kPackedAhead = 64;

void pack_panel(const PackedPanel& panel) {
  const PackedPanel of = panel;  // so that stores cannot change it
  for (int64_t line = 0; line < of.width; line += 16) {
    const __mmask16 stored = first_lanes(of.width - line);
    if (of.step != 1) {
      const __mmask16 loaded = first_lanes(of.lines - line);
      for (int64_t p = 0; p < of.depth; ++p) {
        __builtin_prefetch(of.from + (p + 16) * of.step + line);
        _mm512_mask_storeu_ps(of.to + p * of.width + line, stored,
                              _mm512_maskz_loadu_ps(loaded, of.from + p * of.step + line));
      }
      continue;
    }
    for (int64_t p = 0; p < of.depth; p += 16) {
      const __mmask16 loaded = first_lanes(of.depth - p);
      V16 rows[16];
#pragma GCC unroll 16
      for (int64_t i = 0; i < 16; ++i) {
        __builtin_prefetch(of.from + (line + i) * of.stride + p + kPackedAhead);
        rows[i] =
            line + i < of.lines ? _mm512_maskz_loadu_ps(loaded, of.from + (line + i) * of.stride + p) : V16{};
      }
      transpose(rows);
      for (int64_t i = 0; i < 16 && p + i < of.depth; ++i) {
        _mm512_mask_storeu_ps(of.to + (p + i) * of.width + line, stored, rows[i]);
      }
    }
  }
}

void store_transposed(const TransposedBlock& block) {
  const TransposedBlock of = block;  // so that stores cannot change it
  const __mmask16 kept = static_cast<__mmask16>((1U << kPanelRows) - (1U << of.skipped));
  const __m512 bias = of.bias == nullptr ? _mm512_setzero_ps() : _mm512_maskz_loadu_ps(kept, of.bias);
  for (int64_t column = 0; column < of.columns; column += 16) {
    const int64_t here = of.columns - column < 16 ? of.columns - column : 16;
    const __mmask16 mask = static_cast<__mmask16>((1U << here) - 1);
    V16 rows[16];
#pragma GCC unroll 16
    for (int64_t i = 0; i < 16; ++i) {
      rows[i] = i < kPanelRows ? _mm512_maskz_loadu_ps(mask, of.sums + i * of.width + column) : V16{};
    }
    transpose(rows);
    for (int64_t i = 0; i < here; ++i) {
      __m512 value = rows[i];
      if (of.bias != nullptr) {
        value += bias;
      }
      if (of.is_relu) {  // NaN stays NaN
        value = _mm512_maskz_mov_ps(_mm512_cmp_ps_mask(value, _mm512_setzero_ps(), _CMP_NLE_UQ), value);
      }
      _mm512_mask_storeu_ps(of.out + (column + i) * of.out_stride, kept, value);
    }
  }
}

}  // namespace

const PanelKernels* panel_kernels() {
  static constexpr PanelKernels kKernels = {
      kPanelRows,
      {any_block<64, 2>, any_block<64, 1>, any_block<32, 1>, any_block<16, 1>, block_of_terms},
      pack_panel,
      store_transposed};
  return &kKernels;
}

}  // namespace yoke::cc::YOKE_CC_ISA
#else

namespace yoke::cc::YOKE_CC_ISA {

const PanelKernels* panel_kernels() {
  return nullptr;
}

}  // namespace yoke::cc::YOKE_CC_ISA
#endif
