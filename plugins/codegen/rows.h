// SPDX-License-Identifier: Apache-2.0
// plugins/codegen/rows.h: kernels for computations over rows: softmax, norms, cross entropy, reductions.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "builder.h"
#include "group.h"

namespace yoke::codegen {

// A GPU is busy with this many rows; longer rows are too long for a block if there are fewer of them.
constexpr std::uint64_t kFewRows = 16;
constexpr std::uint64_t kLongRow = 32768;

// Whether the statement folds values to an element: not argmax, argmin, or a scatter.
bool is_row_reduction(const program::Statement& statement);
// Whether two reads each have a target loop that the other lacks, so that rows would be read many times.
bool is_product(const program::Statement& statement);
// Whether a read of the reduction has neighbors along a target loop, and none has any along the last
// reduction loop: lanes should then be targets.
bool is_by_column(const program::Program& program, std::size_t statement);

// Whether the reduction is faster as a column reduction.
bool may_be_column_reduction(const program::Program& program, std::size_t statement);
// Whether the statement folds over its first loops, see split.h.
bool is_column_reduction(const program::Statement& statement);

// Whether the statement, whose first loops are `rows` loops over rows, computes one element per row.
bool is_row_value(const program::Statement& statement, std::size_t rows);

// Statements whose first loops are the rows. Each statement is one of
//   a row value         m[n] = ...
//   a row reduction     m[n] = max[o] ...
//   a map               y[n, o] = ...
//   a column reduction  d[o] = sum[n] ..., whose target no other statement of the group uses
// with the same extents of rows and of the inner loops. A thread reads only elements that it wrote itself.
struct RowGroup {
  Group group;
  std::vector<std::uint64_t> rows;   // extents
  std::vector<std::uint64_t> inner;  // extents
  std::vector<std::size_t> columns;  // the column reductions

  std::uint64_t row_count() const;
  std::uint64_t inner_count() const;
};

// A group that starts with the first of `statements`, which belong to one block in this order. Statements
// that are left out of the group may run after it. Empty if the first one is better planned otherwise.
std::optional<RowGroup> find_rows(const program::Program& program, std::span<const std::size_t> statements);

// Plans the group as one launch.
void plan_rows(Builder& builder, const RowGroup& rows);

}  // namespace yoke::codegen
