// SPDX-License-Identifier: Apache-2.0
// frontends/tensor/src/row_plan.cpp: the rows of each part, batch by batch.
#include "row_plan.h"

#include <yoke/ops.h>

namespace yoke::detail {

std::vector<std::uint64_t> split_rows(std::uint64_t rows, std::uint32_t parts) {
  std::vector<std::uint64_t> split(parts, rows / parts);
  for (std::uint64_t k = 0; k < rows % parts; ++k) {
    ++split[k];
  }
  return split;
}

RowPlan RowPlan::make(std::uint64_t total, std::uint64_t batch, std::uint32_t parts) {
  RowPlan plan;
  plan.total = total;
  plan.batch = batch;
  plan.full_batches = total / batch;
  plan.rows = split_rows(batch, parts);
  plan.tail = split_rows(total % batch, parts);
  return plan;
}

std::vector<std::byte> RowPlan::pack(std::span<const std::byte> bytes, std::size_t k) const {
  const std::uint64_t row_bytes = bytes.size() / total;
  std::vector<std::byte> packed;
  packed.reserve(part_rows(k) * row_bytes);
  for (std::uint64_t b = 0; b < batch_count(); ++b) {
    const std::vector<std::uint64_t>& parts = b < full_batches ? rows : tail;
    std::uint64_t first = b * batch;
    for (std::size_t before = 0; before < k; ++before) {
      first += parts[before];
    }
    const auto part = bytes.subspan(first * row_bytes, parts[k] * row_bytes);
    packed.insert(packed.end(), part.begin(), part.end());
  }
  return packed;
}

Tensor RowPlan::batch_of(const Tensor& all, std::size_t k, bool is_tail) const {
  if (is_tail) {
    return slice(all, 0, full_rows(k), part_rows(k));
  }
  if (full_batches == 1 && tail[k] == 0) {
    return all;
  }
  const auto step = static_cast<std::int64_t>(rows[k]);
  return yoke::rows(all, Symbol{kRowSymbol, 0, static_cast<std::int64_t>(full_rows(k)), step}, rows[k]);
}

}  // namespace yoke::detail
