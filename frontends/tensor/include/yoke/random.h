// SPDX-License-Identifier: Apache-2.0
// frontends/tensor/include/yoke/random.h: counter-based random numbers. Equal seeds, streams and elements
// give equal bits on every backend.
#pragma once

#include <yoke/tensor.h>

#include <cstdint>
#include <optional>

namespace yoke {

// Selects the random numbers of a draw. There is no hidden state: a draw is a function of the seed
// symbol, the stream, the element number and, with every_step, the step symbol. With by_row, run_seed_symbol() replaces
// the seed symbol, and rows are counted from batch_row_symbol(), so the numbers of a row do not depend on the number of
// shards or micro-batches.
struct RandomKey {
  // Draws with equal streams have equal numbers. If empty, lower() assigns streams from 2^32 up, in order of
  // creation: two draws of one program differ, and a graph that is built again has the same numbers.
  std::optional<std::int64_t> stream = std::nullopt;
  bool every_step = false;  // draw new numbers for each value of the step symbol
  bool by_row = false;      // axis 0 is the rows of a batch; the stream is then in [0, 2^34)
};

// Error kInvalidArgument: with by_row, the draw has no axis, or the stream is out of range.
Tensor random_bits(const Dims& dims, RandomKey key = {});  // u32
// Uniform in [0, 1), and normal with mean 0 and deviation 1.
// The type is f32 or f64, else Error kInvalidArgument.
Tensor uniform(const Dims& dims, RandomKey key = {}, Type type = Type::kF32);
Tensor normal(const Dims& dims, RandomKey key = {}, Type type = Type::kF32);

}  // namespace yoke
