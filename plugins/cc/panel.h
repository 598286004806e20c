// SPDX-License-Identifier: Apache-2.0
// plugins/cc/panel.h: products of f32 matrices with one operand in the cache, and updates of their targets.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "contraction.h"
#include "tile/kernels.h"
#include "tile/panel_kernels.h"

namespace yoke::cc {

// What a launch works on. At most one of `scale` and `bias` is given.
struct PanelArguments {
  const float* a;
  const float* b;
  float* t;
  const float* scale = nullptr;  // t = t - *scale * product
  const float* bias = nullptr;   // t = product + bias[n]
  bool is_relu = false;          // with a bias: t = max(product + bias[n], 0)
};

// Each thread takes groups of panels of one operand, which stay in its cache, and multiplies them by each
// block of rows of the other operand, with the sums in registers. Operands are packed if they must be
// transposed or if their strides use only a few sets of the caches. The order of each sum depends only on the
// shape, so results have the same bits for any number of threads.
class PanelProduct {
 public:
  // Returns null if oneDNN suits the shape better. `is_update`: for run() with a scale.
  static std::unique_ptr<const PanelProduct> make(const Contraction& contraction, const KernelTable& table,
                                                  int threads, bool is_update);

  std::uint64_t scratch_byte_count() const;  // per thread
  std::uint64_t shared_byte_count() const;   // for the packed rows
  // Whether blocks are transposed when they are stored, so that rows are contiguous in t.
  bool is_transposed() const { return rows_.t == 1 && columns_.t != 1; }

  // Pieces of the packing that threads may divide: 0 if the product reads its rows in place.
  std::int64_t pack_count() const;
  // Packs pieces [first, last) of the rows. All of them must be packed before run().
  void pack(const PanelArguments& arguments, float* shared, std::int64_t first, std::int64_t last) const;
  // The cost of the product, which threads may divide.
  std::int64_t cost() const { return cost_ * row_blocks_; }
  // Computes the blocks that start in the part [first, last) of the cost.
  void run(const PanelArguments& arguments, const float* shared, float* scratch, std::int64_t first,
           std::int64_t last) const;

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
    std::int64_t cost = 0;  // of one block
    std::int64_t column = 0;
    std::int64_t used = 0;     // columns
    std::int64_t packed = -1;  // place in the memory of the group, or -1: the kernel reads the operand itself
  };

  PanelProduct(const PanelKernels& kernels, const Side& rows, const Side& columns, bool columns_are_a,
               std::int64_t depth);
  // The operands of one launch, and memory of the thread.
  struct Operands {
    const float* rows;
    const float* packed_rows;
    const float* columns;
    float* group;  // packed panels
    float* sums;   // of one block
    float* t;
    const float* scale;
    const float* bias;
    bool is_relu;
  };
  using Group = std::span<const Panel>;
  Group group_from(std::size_t first) const;
  std::int64_t first_row(std::int64_t row_block) const;
  void pack_short_rows(const float* rows, float* to, std::int64_t first, std::int64_t last) const;
  void pack_group(Group group, const Operands& of) const;
  // What a block prefetches, and the elements from one prefetch to the next; null: nothing.
  std::pair<const float*, std::int64_t> ahead_of(Group group, std::size_t number, std::int64_t row_block,
                                                 const Operands& of) const;
  void run_block(Group group, std::size_t number, std::int64_t row_block, const Operands& of) const;

  PanelKernels kernels_;
  Side rows_;
  Side columns_;
  bool columns_are_a_;
  std::int64_t depth_;
  bool is_short_;  // There are fewer rows than in a block. The block's first rows are padding.
  bool packs_rows_;
  std::int64_t row_blocks_;
  std::int64_t cost_ = 0;         // of one block of rows
  std::int64_t group_count_ = 0;  // floats of the largest packed group
  std::size_t group_size_ = 1;    // panels
  std::vector<Panel> panels_;
};

}  // namespace yoke::cc
