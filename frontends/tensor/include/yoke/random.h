// SPDX-License-Identifier: Apache-2.0
// frontends/tensor/include/yoke/random.h: random numbers by counter: the same seed, stream and element give
// the same bits everywhere.
#pragma once

#include <yoke/tensor.h>

#include <cstdint>
#include <optional>

namespace yoke {

// Which numbers to draw. There is no hidden state: a draw is a function of (seed symbol, stream, element
// number, and the step symbol where asked).
struct RandomKey {
  // Draws with equal streams and counters are equal. Absent: lower() numbers such draws in the order in which
  // they were made, from 2^32 up, so two draws of one program differ, and the same graph built again draws
  // the same.
  std::optional<std::int64_t> stream;
  bool every_step = false;  // new numbers for each value of the step symbol
};

Tensor random_bits(const Dims& dims, RandomKey key = {});                      // u32
Tensor uniform(const Dims& dims, RandomKey key = {}, Type type = Type::kF32);  // in [0, 1); f32 or f64
Tensor normal(const Dims& dims, RandomKey key = {},
              Type type = Type::kF32);  // mean 0, deviation 1 (Box-Muller)

}  // namespace yoke
