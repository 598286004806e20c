// SPDX-License-Identifier: Apache-2.0
// frontends/tensor/include/yoke/optimizer.h: parameter updates as expressions.
#pragma once

#include <yoke/tensor.h>

#include <vector>

namespace yoke {

// Assigns `value` to `leaf`, a placeholder or parameter, at the end of a program. All values of a program's
// updates are computed from the old values of the leaves.
struct Update {
  Tensor leaf;
  Tensor value;
};

// Stochastic gradient descent.
struct Sgd {
  double momentum = 0;
  double weight_decay = 0;
  bool nesterov = false;  // requires momentum > 0
  bool needs_state() const { return momentum != 0; }
};

// The updates of one parameter and of its momentum:
//   delta = gradient + weight_decay * value
//   with momentum:   m = momentum * m + delta;  delta = m, or with Nesterov delta + momentum * m
//   value -= learning_rate * delta
// `gradient` and `momentum_state` have the shape of `value`; `momentum_state` is a leaf that starts at 0
// and may be empty if momentum is 0. `learning_rate` is a scalar expression.
// Error kInvalidArgument: `value` is not a leaf, shapes differ, or nesterov is set without momentum.
std::vector<Update> sgd_one(const Tensor& value, const Tensor& gradient, const Tensor& momentum_state,
                            const Tensor& learning_rate, const Sgd& options);

}  // namespace yoke
