// SPDX-License-Identifier: Apache-2.0
// tests/unit/embedding/training.h: a training run on the fake backend.
#pragma once

#include <yoke/yoke.h>

#include <functional>
#include <memory>
#include <string_view>

#include "rig.h"

namespace yoke::test {

inline constexpr std::string_view kDouble = R"(yoke.program 1
program twice() {
  arg x : f32[4] in
  arg y : f32[4] out
  y[i] = x[i] * 2.0
}
)";
inline const Tensor kNone;
inline const Tensor kInputs = tensor<float>({1, 2, 3, 4, 5, 6}, {3, 2});
inline const Tensor kTargets = tensor<float>({1, 2, 3}, {3, 1});

// A training run of two shards on the fake backend.
struct Training {
  Training() {
    RuntimeOptions defaults;
    options.runtime = std::make_shared<Runtime>(Rig::with_defaults(defaults));
    control = register_backend(*options.runtime, 0);
    options.backend_name = control->name;
    options.shards = 2;
    options.learning_rate = 0.01F;
    options.batch_size = 2;
  }
  void operator()(const std::function<void(Trainer&)>& body) const {
    data_parallel(options, kInputs, kTargets, loss_of, body);
  }

  std::shared_ptr<Control> control;
  DataParallelOptions options;
  std::function<Tensor(const Tensor&, const Tensor&)> loss_of =
      [model = nn::linear(1)](const Tensor& x, const Tensor& y) { return mse(model(x), y); };
};

}  // namespace yoke::test
