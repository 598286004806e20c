// SPDX-License-Identifier: Apache-2.0
// plugins/cc/tile/kernels_isa.h: shared by the files that are
// compiled once per instruction set (YOKE_CC_ISA).
#pragma once

#include "kernels.h"

#if defined(__clang__)
#define YOKE_CC_VECTORIZE _Pragma("clang loop vectorize(assume_safety)")
#else
// dst may be the same array as an operand, but must not partially overlap one.
#define YOKE_CC_VECTORIZE _Pragma("GCC ivdep")
#endif

namespace yoke::cc::YOKE_CC_ISA {

template <bool kFirst, class A, class B>
struct Pick {
  using Type = A;
};
template <class A, class B>
struct Pick<false, A, B> {
  using Type = B;
};

MapFn find_map(MapOp op, Reg type, unsigned scalars);
MapFn find_cast(Reg from, Reg to, bool to_bool);
ReduceFn find_reduce(ReduceOp op, Reg type, bool columns);
ProductSumFn find_product_sum(Reg type, bool columns);
CopyFn find_copy(int64_t element_size);
void copy_past_caches(void* dst, const void* src, int64_t byte_count);
GatherFn find_gather(int64_t element_size);
ScatterFn find_scatter(MapOp op, Reg type, Stored stored);
void fold(double* total, void* part, Reg type, int64_t n);
void iota(int64_t* dst, int64_t first, int64_t row_step, int64_t column_step, int64_t nr, int64_t nc);
BlockProduct find_block_product(Reg type);
const PanelKernels* panel_kernels();

const KernelTable& table();

}  // namespace yoke::cc::YOKE_CC_ISA
