// SPDX-License-Identifier: Apache-2.0
// frontends/tensor/src/row_plan.cpp: the rows of each part, batch by batch.
#include "row_plan.h"

#include <yoke/ops.h>

#include <algorithm>
#include <numeric>

namespace yoke::detail {

std::vector<std::uint64_t> split_rows(std::uint64_t rows, std::span<const std::uint64_t> weights) {
  const std::uint64_t sum = std::accumulate(weights.begin(), weights.end(), std::uint64_t{0});
  std::vector<std::uint64_t> split(weights.size(), 0);
  const auto share = [&](std::size_t k) { return rows / sum * weights[k] + rows % sum * weights[k] / sum; };
  std::vector<std::size_t> parts;  // that get rows
  for (std::size_t k = 0; k < weights.size(); ++k) {
    if (weights[k] > 0 && parts.size() < rows) {
      parts.push_back(k);
      split[k] = std::max<std::uint64_t>(1, share(k));
    }
  }
  if (parts.size() == rows) {
    for (const std::size_t k : parts) {
      split[k] = 1;
    }
    return split;
  }
  std::uint64_t given = std::accumulate(split.begin(), split.end(), std::uint64_t{0});
  for (; given > rows; --given) {  // parts got a row that their weight does not give them
    --*std::max_element(split.begin(), split.end());
  }
  const auto remainder = [&](std::size_t k) { return share(k) == 0 ? 0 : rows % sum * weights[k] % sum; };
  std::stable_sort(parts.begin(), parts.end(),
                   [&](std::size_t a, std::size_t b) { return remainder(a) > remainder(b); });
  for (std::size_t i = 0; given < rows; ++given) {
    ++split[parts[i++]];
  }
  return split;
}

std::vector<std::uint64_t> split_rows(std::uint64_t rows, std::uint32_t parts) {
  return split_rows(rows, std::vector<std::uint64_t>(parts, 1));
}

RowPlan RowPlan::make(std::uint64_t total, std::uint64_t batch, std::span<const std::uint64_t> weights) {
  RowPlan plan;
  plan.total = total;
  plan.batch = batch;
  plan.full_batches = total / batch;
  plan.rows = split_rows(batch, weights);
  plan.tail = split_rows(total % batch, weights);
  return plan;
}

RowPlan RowPlan::make(std::uint64_t total, std::uint64_t batch, std::uint32_t parts) {
  return make(total, batch, std::vector<std::uint64_t>(parts, 1));
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
