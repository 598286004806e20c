// SPDX-License-Identifier: Apache-2.0
// frontends/tensor/include/yoke/optimizer.h: parameter updates as expressions.
#pragma once

#include <yoke/tensor.h>

#include <cstdint>
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
// are PyTorch's (torch.optim), except where noted. Momentum and decay rates must be in [0, 1), and all other numbers at
// least 0.

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

// You et al., arXiv 1904.00962: u is Adam's step, without the learning rate, plus weight_decay * w:
//   w -= learning_rate * |w| / |u| * u
// with the norms of the whole parameter; the ratio is 1 where a norm is 0. Not with Placement::kSharded. eps must be
// greater than 0.
struct Lamb {
  double beta1 = 0.9;
  double beta2 = 0.999;
  double eps = 1e-6;
  double weight_decay = 0;
};

// What an update is computed from. `value` and `states` are leaves of one floating-point type and shape; `gradient` has
// them, too.
struct UpdateOperands {
  Tensor value;
  Tensor gradient;
  std::vector<Tensor> states;
  Tensor learning_rate;     // a scalar
  Tensor number = {};       // a scalar, if OptimizerRule::term is set
  std::uint32_t group = 0;  // the number of the pattern that matches the parameter, counted from 1; 0: none
};

// A rule that updates each element of a parameter from its gradient and from states of the same shape, which start
// at 0.
struct OptimizerRule {
  std::string name;  // "adamw"
  std::vector<std::string> states = {};
  // Returns the updates of the value and of the states, in any order. The expressions may use
  // symbol_value(step_symbol()), the step's number counted from 0, but no other data. They must be elementwise, because
  // a trainer runs them on flat slices of many parameters at once, unless `whole_parameters` is set.
  std::function<std::vector<Update>(const UpdateOperands& operands)> update;
  // A number over all gradients that updates use, such as their norm. `term` is elementwise; the sum of its values over
  // all elements of the merged gradients of all parameters, an f64 scalar, is what `number` turns into the number.
  // Trainers compute it on the devices, in a fixed order. Empty: none.
  std::function<Tensor(const Tensor& gradient)> term = {};
  std::function<Tensor(const Tensor& total)> number = {};
  // An update gets a whole parameter, in one dimension, maybe with zeros after it. Not with Placement::kSharded.
  bool whole_parameters = false;
  // Patterns of parameters' names, which divide these into groups: the first one that matches counts. "*" stands for
  // any characters. A trainer refuses patterns that match no parameter.
  std::vector<std::string> patterns = {};
};

// Copies share the rule's functions.
class Optimizer {
 public:
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
  Optimizer(const Lamb& options);     // NOLINT(google-explicit-constructor)
  // A custom rule. Error kInvalidArgument: `update` or one of `term` and `number` is empty, a pattern is empty, or a
  // state's name is empty, repeated, "parameters", "value", "number" or "pieces", or begins with "gradient" or "next_".
  explicit Optimizer(OptimizerRule rule);
  Optimizer(std::string name, std::vector<std::string> states, UpdateOf update);

  const std::string& name() const { return rule_.name; }
  const std::vector<std::string>& states() const { return rule_.states; }
  const OptimizerRule& rule() const { return rule_; }
  std::uint32_t group_of(std::string_view parameter) const;  // as UpdateOperands::group
  // Calls the function and checks its operands and its result. Errors: kInvalidArgument: `value` is not a leaf, the
  // number of states, a shape or a type differs, or the number over all gradients is missing; kFailedPrecondition: the
  // object is moved from.
  std::vector<Update> update(const UpdateOperands& operands) const;
  std::vector<Update> update(const Tensor& value, const Tensor& gradient, const std::vector<Tensor>& states,
                             const Tensor& learning_rate) const;

 private:
  OptimizerRule rule_;
};

// An optimizer that first clips each element of the gradient to [-limit, limit]. A trainer clips the gradient that is
// merged from all shards. Error kInvalidArgument: the limit is not greater than 0.
Optimizer clip_by_value(const Optimizer& optimizer, double limit);
// An optimizer that first multiplies all gradients by min(1, max_norm / (norm + 1e-6)), where `norm` is the 2-norm of
// the merged gradients of all parameters, as torch.nn.utils.clip_grad_norm_ does. With a norm that is infinite or NaN,
// parameters become NaN as there. Error kInvalidArgument: max_norm is not greater than 0, or the optimizer already has
// a number over all gradients.
Optimizer clip_by_global_norm(const Optimizer& optimizer, double max_norm);
// An optimizer that also keeps a moving average of each parameter, in its state "average": after the first step the
// parameter itself, then average += (1 - decay) * (parameter - average), as torch.optim.swa_utils.AveragedModel with
// get_ema_multi_avg_fn(decay). Trainer::swap_averages() exchanges them with the parameters. Error
// kInvalidArgument: the decay is not in [0, 1).
Optimizer moving_average(const Optimizer& optimizer, double decay = 0.999);

// Parameters with an optimizer of their own.
struct ParameterGroup {
  std::string pattern;  // of their names: "*.bias"; see OptimizerRule::patterns
  Optimizer optimizer;
  double learning_rate_factor = 1;
};
// `optimizer` for parameters that no pattern matches, and the groups' optimizers for the others:
//   with_groups(AdamW{}, {{"*.bias", AdamW{.weight_decay = 0}}})
// Error kInvalidArgument: the name or the states of an optimizer differ, a factor is negative or not finite, or one has
// groups or a number over all gradients itself: clip the result instead.
Optimizer with_groups(const Optimizer& optimizer, const std::vector<ParameterGroup>& groups);

// An optimizer with default options: "sgd", "adam", "adamw", "rmsprop", "adagrad", "lion" or "lamb". Error kNotFound
// lists the names.
Optimizer optimizer_by_name(std::string_view name);

// The updates of one parameter and of its momentum by stochastic gradient descent. `gradient` and `momentum_state`
// have the shape of `value`; `momentum_state` starts at 0 and may be empty if momentum is 0. `learning_rate` is a
// scalar expression.
// Error kInvalidArgument: `value` or `momentum_state` is neither the tensor of a Parameter nor a placeholder (which
// stands for parameters in a program); shapes differ; or nesterov is set without momentum.
std::vector<Update> sgd_one(const Tensor& value, const Tensor& gradient, const Tensor& momentum_state,
                            const Tensor& learning_rate, const Sgd& options);

}  // namespace yoke
