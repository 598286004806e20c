// SPDX-License-Identifier: Apache-2.0
// frontends/tensor/src/host_data.cpp: splits host data into shards and joins them.
#include <yoke/train_helpers.h>

#include "host_numbers.h"
#include "node.h"
#include "row_plan.h"

namespace yoke {

using detail::fail;

namespace {

std::uint64_t product(const Dims& dims, std::size_t begin, std::size_t end) {
  std::uint64_t result = 1;
  for (std::size_t i = begin; i < end; ++i) {
    result *= dims[i];
  }
  return result;
}

}  // namespace

std::vector<std::uint64_t> split_sizes(std::uint64_t size, std::uint32_t n) {
  if (n == 0) {
    fail("split_sizes: cannot split into 0 parts; choose at least 1");
  }
  return detail::split_rows(size, n);
}

std::vector<Tensor> shard_along(std::size_t axis, std::int64_t n, const Tensor& t) {
  if (!t || t.source() != Source::kLiteral) {
    fail("shard_along: only host data (a literal) can be split");
  }
  if (axis >= t.rank()) {
    fail("shard_along: axis " + std::to_string(axis) + " is out of range for shape " + dims_text(t.dims()));
  }
  const std::uint64_t size = t.dims()[axis];
  if (n < 1 || static_cast<std::uint64_t>(n) > size) {
    fail("shard_along: cannot split axis " + std::to_string(axis) + " of size " + std::to_string(size) +
         " into " + std::to_string(n) + " parts; choose 1 to " + std::to_string(size));
  }
  const std::uint64_t outer = product(t.dims(), 0, axis);
  const std::uint64_t row_bytes = product(t.dims(), axis + 1, t.rank()) * program::byte_size(t.type());
  std::vector<Tensor> shards;
  std::uint64_t first = 0;
  for (const std::uint64_t rows : split_sizes(size, static_cast<std::uint32_t>(n))) {
    std::vector<std::byte> bytes;
    bytes.reserve(outer * rows * row_bytes);
    for (std::uint64_t o = 0; o < outer; ++o) {
      const auto part = t.host_bytes().subspan((o * size + first) * row_bytes, rows * row_bytes);
      bytes.insert(bytes.end(), part.begin(), part.end());
    }
    Dims dims = t.dims();
    dims[axis] = rows;
    shards.push_back(literal(t.type(), std::move(dims), std::move(bytes)));
    first += rows;
  }
  return shards;
}

Tensor gather(std::size_t axis, const std::vector<Tensor>& shards) {
  if (shards.empty()) {
    fail("gather: no shards were given");
  }
  for (const Tensor& shard : shards) {
    detail::require(shard, "gather");
  }
  Dims dims = shards[0].dims();
  if (axis >= dims.size()) {
    fail("gather: axis " + std::to_string(axis) + " is out of range for shards of shape " + dims_text(dims));
  }
  dims[axis] = 0;
  for (const Tensor& shard : shards) {
    Dims rest = shard.dims();
    if (shard.source() != Source::kLiteral || shard.type() != shards[0].type() ||
        rest.size() != dims.size()) {
      fail("gather: all shards must be host data of the same type and rank");
    }
    const std::uint64_t rows = rest[axis];
    rest[axis] = dims[axis];
    if (rest != dims) {
      fail("gather: cannot join a shard of shape " + dims_text(shard.dims()) + " to shard 0 of shape " +
           dims_text(shards[0].dims()) + " along axis " + std::to_string(axis));
    }
    dims[axis] += rows;
  }
  const std::uint64_t outer = product(dims, 0, axis);
  const std::uint64_t row_bytes = product(dims, axis + 1, dims.size()) * program::byte_size(shards[0].type());
  std::vector<std::byte> bytes;
  bytes.reserve(outer * dims[axis] * row_bytes);
  for (std::uint64_t o = 0; o < outer; ++o) {
    for (const Tensor& shard : shards) {
      const std::uint64_t part_bytes = shard.dims()[axis] * row_bytes;
      const auto part = shard.host_bytes().subspan(o * part_bytes, part_bytes);
      bytes.insert(bytes.end(), part.begin(), part.end());
    }
  }
  return literal(shards[0].type(), std::move(dims), std::move(bytes));
}

std::vector<double> host_values(const Tensor& t) {
  if (!t || t.host_bytes().empty()) {
    fail("host_values: the tensor has no host data; use a literal, or a parameter that holds values");
  }
  return detail::numbers_of(t.type(), t.host_bytes());
}

double host_get(const Tensor& t, const Dims& index) {
  if (!t || t.host_bytes().empty()) {
    fail("host_get: the tensor has no host data; use a literal, or a parameter that holds values");
  }
  if (index.size() != t.rank()) {
    fail("host_get: " + detail::counted(index.size(), "index", "indices") + " for shape " +
         dims_text(t.dims()) + "; give one per axis");
  }
  std::uint64_t element = 0;
  for (std::size_t axis = 0; axis < index.size(); ++axis) {
    if (index[axis] >= t.dims()[axis]) {
      throw Error(ErrorCode::kOutOfRange, "host_get: index " + dims_text(index) +
                                              " is out of range for shape " + dims_text(t.dims()));
    }
    element = element * t.dims()[axis] + index[axis];
  }
  return detail::number_at(t.type(), t.host_bytes(), static_cast<std::size_t>(element));
}

}  // namespace yoke
