// SPDX-License-Identifier: Apache-2.0
// frontends/tensor/src/row_plan.h: assigns the rows of a data set to shards, or to their micro-batches.
#pragma once

#include <yoke/tensor.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace yoke::detail {

// Splits `rows` into contiguous parts in proportion to their weights. The parts with the largest remainders get one of
// the remaining rows each; of equal remainders, the first ones. A part whose weight is not 0 gets at least one row if
// there are enough; otherwise the first of these parts get one each. Precondition: the sum of the weights is less than
// 2^32.
std::vector<std::uint64_t> split_rows(std::uint64_t rows, std::span<const std::uint64_t> weights);
// With equal weights: the first rows % parts of the parts are larger by one.
std::vector<std::uint64_t> split_rows(std::uint64_t rows, std::uint32_t parts);

// The assignment of rows to parts: shards or micro-batches. In a full batch part k gets
// rows[k] rows, in the smaller last batch tail[k] rows.
struct RowPlan {
  std::uint64_t total = 0;
  std::uint64_t batch = 0;
  std::uint64_t full_batches = 0;
  std::vector<std::uint64_t> rows;
  std::vector<std::uint64_t> tail;  // all 0 if `batch` divides `total`

  static RowPlan make(std::uint64_t total, std::uint64_t batch, std::span<const std::uint64_t> weights);
  static RowPlan make(std::uint64_t total, std::uint64_t batch, std::uint32_t parts);
  std::uint64_t full_rows(std::size_t k) const { return full_batches * rows[k]; }
  std::uint64_t part_rows(std::size_t k) const { return full_rows(k) + tail[k]; }
  std::uint64_t tail_rows() const { return total - full_batches * batch; }
  std::uint64_t batch_count() const { return full_batches + (tail_rows() > 0 ? 1 : 0); }

  // Part k's rows of host data, in the order of the batches.
  std::vector<std::byte> pack(std::span<const std::byte> bytes, std::size_t k) const;

  // The rows of one batch, as a view of a tensor with all rows of part k.
  Tensor batch_of(const Tensor& all, std::size_t k, bool is_tail) const;
  // The value of the symbol kRowSymbol for a full batch.
  std::int64_t first_row(std::size_t k, std::uint64_t batch_number) const {
    return static_cast<std::int64_t>(batch_number * rows[k]);
  }
};
inline constexpr const char* kRowSymbol = "yoke_row";

}  // namespace yoke::detail
