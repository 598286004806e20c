// SPDX-License-Identifier: Apache-2.0
// frontends/tensor/include/yoke/shuffle.h: a new order of the data in every epoch, as a function of the seed.
#pragma once

#include <yoke/batch.h>

#include <array>
#include <cstdint>

namespace yoke {

// A permutation of 0, ..., count - 1 that depends only on `count`, `seed` and `number`, and needs no memory: a Feistel
// network of 24 rounds, repeated until the result is in range.
class Permutation {
 public:
  // Error kInvalidArgument: count is 0 or greater than 2^62.
  Permutation(std::uint64_t count, std::int64_t seed, std::int64_t number);
  std::uint64_t count() const { return count_; }
  // Precondition: i < count().
  std::uint64_t operator()(std::uint64_t i) const;

 private:
  static constexpr std::size_t kRounds = 24;
  std::uint64_t count_;
  unsigned low_bits_;
  std::uint64_t low_mask_;
  std::uint64_t high_mask_;
  std::array<std::uint64_t, kRounds> keys_;
};

// Batches of `data`, whose fields are literals with the same number of rows, in each epoch in the order of a
// Permutation whose number is that of the epoch. The order depends neither on the number of shards nor on where a
// run began. `batch_size` is that of the options; 0: all rows. Error kInvalidArgument: the rows differ, or there are
// none.
Feed shuffled(const Batch& data, std::int64_t batch_size, std::int64_t seed);
inline Feed shuffled(const Tensor& inputs, const Tensor& targets, std::int64_t batch_size,
                     std::int64_t seed) {
  return shuffled(Batch(inputs, targets), batch_size, seed);
}

}  // namespace yoke
