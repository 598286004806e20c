// SPDX-License-Identifier: Apache-2.0
// plugins/cc/tile/panel_kernels.h: the inner loops of products of floats in panels (panel.h).
#pragma once

#include <stdint.h>

namespace yoke::cc {

// A block of a product of floats whose sums stay in registers: for `PanelKernels::rows` rows and all columns
// of a panel, the sum over p of rows[r * row_stride + p * row_step] * panel[p * panel_step + column].
struct PanelBlock {
  int64_t depth;
  const float* rows;
  int64_t row_stride;
  int64_t row_step;
  const float* panel;
  int64_t panel_step;
  float* out;  // of the block's first row and column; columns are contiguous
  int64_t out_stride;
  int64_t skipped;  // the first rows, which are not stored
  // At most one of these is not null. Each operation rounds.
  const float* scale;  // out = out - *scale * sum
  const float* bias;   // out = sum + bias[column]
  bool is_relu;        // with a bias: out = max(sum + bias[column], 0)
  // Operands of later blocks, or null: if row_stride is 1, the kernel prefetches ahead[p * ahead_step] into
  // the second-level cache. Any address is valid.
  const float* ahead;
  int64_t ahead_step;
};

// to[p * width + line] = from[line * stride + p * step] for p < depth, and 0 for the lines from `lines` on.
// `stride` or `step` is 1.
struct PackedPanel {
  float* to;
  const float* from;
  int64_t stride;
  int64_t step;
  int64_t lines;
  int64_t width;
  int64_t depth;
};

struct TransposedBlock {
  float* out;
  int64_t out_stride;
  const float* sums;
  int64_t width;
  int64_t columns;
  int64_t skipped;
  const float* bias;  // may be null
  bool is_relu;
};

struct PanelKernels {
  int64_t rows;
  // For panels of 32, 16, 8 and 4 columns. The last one is for 4 columns too, but twice as fast: it needs a
  // row_step of 1, reads panel[p / 4 * 16 + column * 4 + p % 4], and adds every fourth term before it adds
  // these four sums. It ignores `skipped`, `scale` and `bias`.
  void (*block[5])(const PanelBlock& block);
  void (*pack)(const PackedPanel& panel);
  // out[column * out_stride + row] = sums[row * width + column], for all rows from `skipped` on and
  // `columns` columns. Adds bias[row] first if there is a bias. With `is_relu`, negative values become 0.
  void (*store_transposed)(const TransposedBlock& block);
};

}  // namespace yoke::cc
