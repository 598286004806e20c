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
#if defined(__AVX512F__)
void panel_block_32(const PanelBlock& block);
void panel_block_16(const PanelBlock& block);
void panel_block_8(const PanelBlock& block);
void panel_block_4(const PanelBlock& block);
void pack_panel(float* to, const float* from, int64_t stride, int64_t lines, int64_t width, int64_t depth);
void store_transposed(const TransposedBlock& block);
inline constexpr int64_t kPanelRows = 12;
inline constexpr PanelKernels kPanelKernels = {
    kPanelRows, {panel_block_32, panel_block_16, panel_block_8, panel_block_4}, pack_panel, store_transposed};
#else
inline constexpr PanelKernels kPanelKernels = {};
#endif

const KernelTable& table();

}  // namespace yoke::cc::YOKE_CC_ISA
