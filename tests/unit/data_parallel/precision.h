// SPDX-License-Identifier: Apache-2.0
// tests/unit/data_parallel/precision.h: a training run with its losses, parameters and loss scale.
#pragma once

#include <yoke/yoke.h>

#include <functional>
#include <vector>

#include "common.h"

namespace yoke::testing {

using LossOf = std::function<Tensor(const Tensor&, const Tensor&)>;

inline constexpr Precision kPrecisions[] = {Precision::kF32, Precision::kBF16, Precision::kF16};

struct Result {
  std::vector<double> losses;
  std::vector<float> values;
  LossScale scale;
};

inline Result train(DataParallelOptions options, const Tensor& x, const Tensor& y, const LossOf& loss_of,
                    int steps, const TrainerState* from = nullptr) {
  Result run;
  data_parallel(options, x, y, loss_of, [&](Trainer& trainer) {
    if (from != nullptr) {
      trainer.set_state(*from);
    }
    for (int i = 0; i < steps; ++i) {
      trainer.step();
      run.losses.push_back(trainer.loss_value());
    }
    run.values = all_values(trainer);
    run.scale = trainer.loss_scale();
  });
  return run;
}

}  // namespace yoke::testing
