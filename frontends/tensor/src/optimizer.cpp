// SPDX-License-Identifier: Apache-2.0
// frontends/tensor/src/optimizer.cpp: stochastic gradient descent.
#include <yoke/ops.h>
#include <yoke/optimizer.h>

#include <string>

#include "node.h"

namespace yoke {

std::vector<Update> sgd_one(const Tensor& value, const Tensor& gradient, const Tensor& momentum_state,
                            const Tensor& learning_rate, const Sgd& options) {
  detail::require(value, "sgd_one");
  detail::require(gradient, "sgd_one");
  detail::require(learning_rate, "sgd_one");
  if (!value.is_leaf() || gradient.dims() != value.dims() || learning_rate.rank() != 0) {
    detail::fail("sgd_one: the value " + detail::describe(value) + " must be a leaf, the gradient " +
                 detail::describe(gradient) + " must have its shape, and the learning rate " +
                 detail::describe(learning_rate) + " must be a scalar");
  }
  if (options.nesterov && options.momentum == 0) {
    detail::fail("sgd_one: nesterov requires a momentum greater than 0");
  }
  const Tensor rate = learning_rate.type() == value.type() || detail::constant_of(learning_rate) != nullptr
                          ? learning_rate
                          : cast(learning_rate, value.type());
  Tensor delta = options.weight_decay == 0 ? gradient : gradient + options.weight_decay * value;
  std::vector<Update> updates;
  if (options.momentum != 0) {
    detail::require(momentum_state, "sgd_one");
    if (!momentum_state.is_leaf() || momentum_state.dims() != value.dims()) {
      detail::fail("sgd_one: the momentum " + detail::describe(momentum_state) +
                   " must be a leaf with the shape of " + detail::describe(value));
    }
    const Tensor momentum = options.momentum * momentum_state + delta;
    updates.push_back({momentum_state, momentum});
    delta = options.nesterov ? delta + options.momentum * momentum : momentum;
  }
  updates.push_back({value, value - rate * delta});
  return updates;
}

}  // namespace yoke
