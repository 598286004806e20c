// SPDX-License-Identifier: Apache-2.0
// frontends/tensor/include/yoke/optimizer.h: parameter updates as expressions.
#pragma once

#include <yoke/tensor.h>

#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace yoke {

// Assigns `value` to `leaf`, a placeholder or parameter, at the end of a program. All values of a program's
// updates are computed from the old values of the leaves.
struct Update {
  Tensor leaf;
  Tensor value;
};

// Options of optimizers. g is the gradient, w the parameter, t the step's number, counted from 1. Formulas and defaults
// are PyTorch's (torch.optim), except where noted. Decay rates must be in [0, 1), and all other numbers at least 0.

// Stochastic gradient descent:
//   g += weight_decay * w
//   with momentum:  m = momentum * m + g;  g = m, or with Nesterov g + momentum * m
//   w -= learning_rate * g
struct Sgd {
  double momentum = 0;
  double weight_decay = 0;
  bool nesterov = false;  // requires momentum > 0
  bool needs_state() const { return momentum != 0; }
};

// Kingma and Ba, arXiv 1412.6980:
//   g += weight_decay * w;  m = beta1 * m + (1 - beta1) * g;  v = beta2 * v + (1 - beta2) * g^2
//   w -= learning_rate * m / (1 - beta1^t) / (sqrt(v / (1 - beta2^t)) + eps)
struct Adam {
  double beta1 = 0.9;
  double beta2 = 0.999;
  double eps = 1e-8;
  double weight_decay = 0;
};

// Loshchilov and Hutter, arXiv 1711.05101: as Adam, but weight decay is w *= 1 - learning_rate * weight_decay,
// before the update.
struct AdamW {
  double beta1 = 0.9;
  double beta2 = 0.999;
  double eps = 1e-8;
  double weight_decay = 0.01;
};

//   g += weight_decay * w;  v = decay * v + (1 - decay) * g^2;  u = g / (sqrt(v) + eps)
//   with momentum:  m = momentum * m + u;  u = m
//   w -= learning_rate * u
// Centered: the square of the running mean of g, with the same decay, is subtracted from v before the square root; a
// difference that rounding makes negative is 0.
struct RmsProp {
  double decay = 0.99;
  double eps = 1e-8;
  double momentum = 0;
  double weight_decay = 0;
  bool centered = false;
};

//   g += weight_decay * w;  s = s + g^2;  w -= learning_rate * g / (sqrt(s) + eps)
struct Adagrad {
  double eps = 1e-10;
  double weight_decay = 0;
};

// Chen et al., arXiv 2302.06675; formulas and defaults of google/automl:
//   w *= 1 - learning_rate * weight_decay;  w -= learning_rate * sign(beta1 * m + (1 - beta1) * g)
//   m = beta2 * m + (1 - beta2) * g
struct Lion {
  double beta1 = 0.9;
  double beta2 = 0.99;
  double weight_decay = 0;
};

// A rule that updates each element of a parameter from its gradient and from states of the same shape, which start
// at 0. Because it is elementwise, a trainer runs it on flat slices of many parameters at once. Copies share the
// function.
class Optimizer {
 public:
  // Returns the updates of `value` and of the states, in any order. `value` and `states` are leaves of one
  // floating-point type, `gradient` has that type, and `learning_rate` is a scalar of it. The expressions may use
  // symbol_value(step_symbol()), the step's number counted from 0, but no other data. They must be elementwise.
  using UpdateOf =
      std::function<std::vector<Update>(const Tensor& value, const Tensor& gradient,
                                        const std::vector<Tensor>& states, const Tensor& learning_rate)>;

  Optimizer() : Optimizer(Sgd{}) {}
  // Error kInvalidArgument: an option is out of its range.
  Optimizer(const Sgd& options);      // NOLINT(google-explicit-constructor): options.optimizer = Sgd{...}
  Optimizer(const Adam& options);     // NOLINT(google-explicit-constructor)
  Optimizer(const AdamW& options);    // NOLINT(google-explicit-constructor)
  Optimizer(const RmsProp& options);  // NOLINT(google-explicit-constructor)
  Optimizer(const Adagrad& options);  // NOLINT(google-explicit-constructor)
  Optimizer(const Lion& options);     // NOLINT(google-explicit-constructor)
  // A custom rule. `states` are the names of its states. Error kInvalidArgument: the function is empty, or a name is
  // empty, repeated, "parameters" or "value", or begins with "gradient" or "next_".
  Optimizer(std::string name, std::vector<std::string> states, UpdateOf update);

  const std::string& name() const { return name_; }  // "adamw"
  const std::vector<std::string>& states() const { return states_; }
  // Calls the function and checks its operands and its result. Error kInvalidArgument: `value` is not a leaf, or the
  // number of states, a shape or a type differs.
  std::vector<Update> update(const Tensor& value, const Tensor& gradient, const std::vector<Tensor>& states,
                             const Tensor& learning_rate) const;

 private:
  std::string name_;
  std::vector<std::string> states_;
  UpdateOf update_;
};

// An optimizer that first clips each element of the gradient to [-limit, limit]. A trainer clips the gradient that is
// merged from all shards. Error kInvalidArgument: the limit is not greater than 0.
Optimizer clip_by_value(const Optimizer& optimizer, double limit);

// An optimizer with default options: "sgd", "adam", "adamw", "rmsprop", "adagrad" or "lion". Error kNotFound lists the
// names.
Optimizer optimizer_by_name(std::string_view name);

// The updates of one parameter and of its momentum by stochastic gradient descent. `gradient` and `momentum_state`
// have the shape of `value`; `momentum_state` is a leaf that starts at 0 and may be empty if momentum is 0.
// `learning_rate` is a scalar expression.
// Error kInvalidArgument: `value` is not a leaf, shapes differ, or nesterov is set without momentum.
std::vector<Update> sgd_one(const Tensor& value, const Tensor& gradient, const Tensor& momentum_state,
                            const Tensor& learning_rate, const Sgd& options);

}  // namespace yoke
