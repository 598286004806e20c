// SPDX-License-Identifier: Apache-2.0
// frontends/tensor/src/shuffle.cpp: permutations as functions of the seed, and batches in their order.
#include <yoke/program/execute.h>
#include <yoke/runtime/counted.h>
#include <yoke/runtime/error.h>
#include <yoke/shuffle.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

namespace yoke {
namespace {

constexpr std::uint64_t kLargestCount = std::uint64_t{1} << 62U;

// The finalizer of SplitMix64.
std::uint64_t mixed(std::uint64_t x) {
  x = (x ^ x >> 30U) * 0xbf58476d1ce4e5b9U;
  x = (x ^ x >> 27U) * 0x94d049bb133111ebU;
  return x ^ x >> 31U;
}

Tensor taken(const Tensor& all, const Permutation& order, std::uint64_t first, std::uint64_t count) {
  const std::span<const std::byte> from = all.host_bytes();
  const std::uint64_t row = from.size() / all.dims()[0];
  std::vector<std::byte> bytes(count * row);
  for (std::uint64_t i = 0; i < count; ++i) {
    std::memcpy(bytes.data() + i * row, from.data() + order(first + i) * row, row);
  }
  Dims dims = all.dims();
  dims[0] = count;
  return literal(all.type(), dims, std::move(bytes));
}

}  // namespace

Permutation::Permutation(std::uint64_t count, std::int64_t seed, std::int64_t number) : count_(count) {
  if (count == 0 || count > kLargestCount) {
    throw Error(ErrorCode::kInvalidArgument,
                "Permutation: count is " + std::to_string(count) + "; it must be from 1 to 2^62");
  }
  const unsigned bits = std::max(2U, static_cast<unsigned>(std::bit_width(count - 1)));
  low_bits_ = bits / 2;
  low_mask_ = (std::uint64_t{1} << low_bits_) - 1;
  high_mask_ = (std::uint64_t{1} << (bits - low_bits_)) - 1;
  for (std::size_t round = 0; round < kRounds; ++round) {
    const auto word = [&](std::size_t half) {
      return std::uint64_t{program::random_bits(seed, number, static_cast<std::int64_t>(2 * round + half))};
    };
    keys_[round] = word(0) << 32U | word(1);
  }
}

std::uint64_t Permutation::operator()(std::uint64_t i) const {
  do {
    std::uint64_t low = i & low_mask_;
    std::uint64_t high = i >> low_bits_;
    for (std::size_t round = 0; round < kRounds; round += 2) {
      low ^= mixed(high ^ keys_[round]) & low_mask_;
      high ^= mixed(low ^ keys_[round + 1]) & high_mask_;
    }
    i = high << low_bits_ | low;
  } while (i >= count_);
  return i;
}

Feed shuffled(const Batch& data, std::int64_t batch_size, std::int64_t seed) {
  const std::uint64_t rows = data.row_count();
  std::vector<Feed::FieldSpec> specs;
  for (const auto& [name, tensor] : data.fields()) {
    if (!tensor || tensor.source() != Source::kLiteral || tensor.rank() == 0 || tensor.dims()[0] != rows) {
      throw Error(ErrorCode::kInvalidArgument, "shuffled: " + name + " is not host data with " +
                                                   detail::counted(rows, "row") + ", as " +
                                                   data.fields()[0].name);
    }
    specs.push_back({name, {static_cast<std::int32_t>(tensor.type()), tensor.dims()}});
  }
  if (rows == 0) {
    throw Error(ErrorCode::kInvalidArgument, "shuffled: the data has no rows");
  }
  if (batch_size < 0 || static_cast<std::uint64_t>(batch_size) > rows) {
    throw Error(ErrorCode::kInvalidArgument, "shuffled: the batch size is " + std::to_string(batch_size) +
                                                 "; it must be from 0 to the number of rows, " +
                                                 std::to_string(rows));
  }
  const std::uint64_t batch = batch_size == 0 ? rows : static_cast<std::uint64_t>(batch_size);
  const std::uint64_t batches = (rows + batch - 1) / batch;
  const auto next = [=](std::int64_t number) {
    const auto n = static_cast<std::uint64_t>(number);
    const Permutation order(rows, seed, static_cast<std::int64_t>(n / batches));
    const std::uint64_t first = n % batches * batch;
    const std::uint64_t count = std::min(batch, rows - first);
    std::vector<Field> fields;
    for (const auto& [name, tensor] : data.fields()) {
      fields.push_back({name, taken(tensor, order, first, count)});
    }
    return Batch(std::move(fields));
  };
  return {std::move(specs), next};
}

}  // namespace yoke
