// SPDX-License-Identifier: Apache-2.0
// frontends/tensor/include/yoke/optimizer.h: how parameters change, as expressions.
#pragma once

#include <yoke/tensor.h>

#include <vector>

namespace yoke {

// After the program has run, `leaf` (a placeholder or a parameter) holds `value`. All values are computed
// from what the leaves held before.
struct Update {
  Tensor leaf;
  Tensor value;
};

struct Sgd {
  double momentum = 0;
  double weight_decay = 0;
  bool nesterov = false;  // needs momentum > 0
  bool needs_state() const { return momentum != 0; }
};

// delta = gradient + weight_decay * value; with momentum: m = momentum * m + delta, then delta = m, or with
// Nesterov delta += momentum * m; value -= learning_rate * delta. `momentum_state` is a leaf like `value` (it
// starts at 0), and may be empty without momentum. `learning_rate` is a scalar expression, of the step symbol
// where it changes.
std::vector<Update> sgd_one(const Tensor& value, const Tensor& gradient, const Tensor& momentum_state,
                            const Tensor& learning_rate, const Sgd& options);

}  // namespace yoke
