// SPDX-License-Identifier: Apache-2.0
// plugins/cc/panel.h: products of f32 matrices with one operand in the cache, and updates of their targets.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "contraction.h"
#include "tile/kernels.h"

namespace yoke::cc {

// `target = target - scale * z` right after the contraction that writes `z`, with the strides of z.
struct ScaledUpdate {
  Operand target;
  std::optional<Operand> scale{};  // if it is a scalar tensor
  float constant = 0;              // otherwise
};
std::optional<ScaledUpdate> recognize_update(const program::Program& program,
                                             const program::Statement& contraction, const Contraction& shape,
                                             const program::Statement& next);

// `target = max(z + bias[n], 0)` right after the contraction that writes `z`.
std::optional<BiasAdd> recognize_relu(const program::Program& program, const program::Statement& contraction,
                                      const Contraction& shape, const program::Statement& next);

// What a launch works on. At most one of `scale` and `bias` is given.
struct PanelArguments {
  const float* a;
  const float* b;
  float* t;
  const float* scale = nullptr;  // t = t - *scale * product
  const float* bias = nullptr;   // t = max(product + bias, 0), if is_transposed()
};

// Panels of one operand stay in the cache. Each block of rows of the other operand is read once, in place,
// and its sums stay in registers. For small batches this is faster than oneDNN, which packs operands. Each
// sum is added in the order of the summed loop, so results have the same bits for any number of threads.
class PanelProduct {
 public:
  // Returns null if oneDNN suits the shape better. `is_update`: for run() with a scale.
  static std::unique_ptr<const PanelProduct> make(const Contraction& contraction, const KernelTable& table,
                                                  int threads, bool is_update);

  std::uint64_t scratch_byte_count() const;  // per thread
  // Pieces of the target that threads may divide.
  std::int64_t piece_count() const { return row_blocks_ * panel_groups_; }
  // Whether blocks are transposed when they are stored, so that rows are contiguous in t.
  bool is_transposed() const { return rows_.t == 1 && columns_.t != 1; }
  // Computes pieces [first, last).
  void run(const PanelArguments& arguments, float* scratch, std::int64_t first, std::int64_t last) const;

 private:
  // Panel columns are the loop of one operand, rows that of the other.
  struct Side {
    std::int64_t extent = 0;
    std::int64_t stride = 0;  // of the operand
    std::int64_t step = 0;    // of the operand, over the summed loop
    std::int64_t t = 0;
  };
  struct Panel {
    std::size_t kernel = 0;  // of PanelKernels::block
    std::int64_t width = 0;
    std::int64_t column = 0;
    std::int64_t used = 0;     // columns
    std::int64_t packed = -1;  // place in the scratch memory, or -1: the kernel reads the operand itself
  };

  PanelProduct(const PanelKernels& kernels, const Side& rows, const Side& columns, bool columns_are_a,
               std::int64_t depth, int threads);
  std::int64_t packed_rows() const { return is_short_ ? kernels_.rows * depth_ : 0; }
  // The operands of one launch, and memory of the thread.
  struct Operands {
    const float* rows;
    const float* columns;
    float* t;
    const float* scale;
    const float* bias;
    float* scratch;
    float* sums;  // of one block
  };
  void pack_rows(const float* operand, float* packed) const;
  void pack(const Panel& panel, const Operands& of) const;
  void run_block(const Panel& panel, std::int64_t row_block, const Operands& of) const;

  PanelKernels kernels_;
  Side rows_;
  Side columns_;
  bool columns_are_a_;
  std::int64_t depth_;
  bool is_short_;  // There are fewer rows than in a block. The block's first rows are padding.
  std::int64_t row_blocks_;
  std::int64_t panel_groups_ = 1;  // pieces of a block of rows
  std::int64_t packed_count_ = 0;  // floats
  std::vector<Panel> panels_;
};

}  // namespace yoke::cc
