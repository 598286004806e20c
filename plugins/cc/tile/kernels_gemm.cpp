// SPDX-License-Identifier: Apache-2.0
// plugins/cc/tile/kernels_gemm.cpp: the inner loop of matrix products that oneDNN does not support.
//
// Compiled once per instruction set. These are the only kernels that may fuse multiply and add.
#include "kernels_isa.h"

namespace yoke::cc::YOKE_CC_ISA {
namespace {

// The largest blocks whose sums fit in registers.
#if defined(__AVX512F__)
constexpr int64_t kRows = 12;
constexpr int64_t kVector = 64;
#elif defined(__AVX2__)
constexpr int64_t kRows = 6;
constexpr int64_t kVector = 32;
#else
constexpr int64_t kRows = 3;
constexpr int64_t kVector = 16;
#endif
constexpr int64_t kParts = 64 / kVector;  // one row of the block is 64 bytes

template <class T>
void block(int64_t k, const void* a, const void* b, void* c, int64_t ldc) {
  typedef T Part __attribute__((vector_size(kVector)));
  typedef T Unaligned __attribute__((vector_size(kVector), aligned(sizeof(T)), may_alias));
  constexpr int64_t kColumns = 64 / static_cast<int64_t>(sizeof(T));
  constexpr int64_t kLanes = kColumns / kParts;
  const T* x = static_cast<const T*>(a);
  const T* y = static_cast<const T*>(b);
  T* out = static_cast<T*>(c);
  Part sums[kRows][kParts] = {};
  for (int64_t p = 0; p < k; ++p) {
    Part row[kParts];
#pragma GCC unroll 4
    for (int64_t j = 0; j < kParts; ++j) {
      row[j] = *reinterpret_cast<const Unaligned*>(y + p * kColumns + j * kLanes);
    }
#pragma GCC unroll 12
    for (int64_t i = 0; i < kRows; ++i) {
#pragma GCC unroll 4
      for (int64_t j = 0; j < kParts; ++j) {
        sums[i][j] += x[p * kRows + i] * row[j];
      }
    }
  }
#pragma GCC unroll 12
  for (int64_t i = 0; i < kRows; ++i) {
#pragma GCC unroll 4
    for (int64_t j = 0; j < kParts; ++j) {
      Unaligned* target = reinterpret_cast<Unaligned*>(out + i * ldc + j * kLanes);
      *target = *target + sums[i][j];
    }
  }
}

}  // namespace

// Integers are multiplied as unsigned, so that they wrap.
BlockProduct find_block_product(Reg type) {
  switch (type) {
    case Reg::kF64:
      return {kRows, 8, block<double>};
    case Reg::kF32:
      return {kRows, 16, block<float>};
    case Reg::kI64:
      return {kRows, 8, block<uint64_t>};
    case Reg::kI32:
    case Reg::kU32:
      return {kRows, 16, block<uint32_t>};
    default:
      return {};
  }
}

}  // namespace yoke::cc::YOKE_CC_ISA
