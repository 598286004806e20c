// SPDX-License-Identifier: Apache-2.0
// plugins/cc/gemm.h: contractions that oneDNN does not support: any strides, f64, 16-bit floats, integers.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "contraction.h"
#include "tile/kernels.h"

namespace yoke::cc {

// A blocked product. Operands are packed and converted block by block through tables of offsets, so any
// affine address works, including the addresses of a convolution.
class Gemm {
 public:
  Gemm(const Contraction& contraction, const KernelTable& table);

  std::uint64_t scratch_byte_count() const { return scratch_byte_count_; }  // per thread
  // Pieces of the target that threads may divide; the result has the same bits for any division.
  std::int64_t piece_count() const { return batch_count_ * row_blocks_; }
  std::int64_t multiplications() const { return shape_.multiplications(); }
  void run(const std::byte* a, const std::byte* b, std::byte* t, std::byte* scratch, std::int64_t first,
           std::int64_t last) const;

 private:
  struct Offsets {
    std::vector<std::int64_t> a;
    std::vector<std::int64_t> b;
    std::vector<std::int64_t> t;
  };
  static Offsets offsets_of(const std::vector<Axis>& axes);
  void piece(const std::byte* a, const std::byte* b, std::byte* t, std::byte* scratch, std::int64_t row,
             std::int64_t rows) const;
  void multiply(const std::byte* a, const std::byte* b, std::byte* sums, std::int64_t rows,
                std::int64_t columns, std::int64_t depth) const;
  void pack(const Operand& operand, const std::byte* from, std::span<const std::int64_t> lines,
            std::span<const std::int64_t> depth, std::int64_t width, std::byte* to) const;
  void store(std::byte* t, const std::byte* sums, std::int64_t row, std::int64_t rows, std::int64_t column,
             std::int64_t columns) const;

  Contraction shape_;
  std::int64_t size_;  // bytes of one sum
  BlockProduct block_;
  Offsets batch_;
  Offsets m_;
  Offsets n_;
  Offsets k_;
  std::int64_t batch_count_ = 1;
  std::int64_t row_blocks_ = 1;
  std::int64_t block_rows_ = 0;  // rows of the target that are summed together
  std::int64_t block_columns_ = 0;
  std::int64_t block_depth_ = 0;
  std::uint64_t scratch_byte_count_ = 0;
};

}  // namespace yoke::cc
