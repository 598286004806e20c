// SPDX-License-Identifier: Apache-2.0
// frontends/tensor/src/optimizer.cpp: optimizers.
#include <yoke/ops.h>
#include <yoke/optimizer.h>
#include <yoke/runtime/closest.h>
#include <yoke/runtime/error.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "node.h"

namespace yoke {
namespace {

using Tensors = std::vector<Tensor>;

// One option: its name, its value, and whether it must be less than 1.
struct Number {
  const char* name;
  double value;
  bool is_rate = false;
};

void check(const char* optimizer, std::initializer_list<Number> numbers) {
  for (const Number& number : numbers) {
    if (!(number.value >= 0 && std::isfinite(number.value)) || (number.is_rate && number.value >= 1)) {
      detail::fail(std::string(optimizer) + ": " + number.name + " is " + std::to_string(number.value) +
                   "; it must be " + (number.is_rate ? "in [0, 1)" : "at least 0"));
    }
  }
}

Tensor with_decay(const Tensor& gradient, const Tensor& value, double weight_decay) {
  return weight_decay == 0 ? gradient : gradient + weight_decay * value;
}

// state * rate + (1 - rate) * now
Tensor moving(const Tensor& state, double rate, const Tensor& now) {
  return rate * state + (1 - rate) * now;
}

// 1 - rate^t, exact also where rate^t is close to 1.
Tensor correction(double rate, Type type) {
  const Type wide = type == Type::kF64 ? Type::kF64 : Type::kF32;
  const Tensor t = cast(symbol_value(step_symbol()) + 1, wide);
  return cast(-expm1(std::log(rate) * t), type);
}

// Adam's step, to be multiplied by the learning rate; adds the updates of the states.
Tensor adam_step(const Tensor& gradient, const Tensors& states, double beta1, double beta2, double eps,
                 std::vector<Update>& updates) {
  const Tensor first = moving(states[0], beta1, gradient);
  const Tensor second = moving(states[1], beta2, square(gradient));
  updates.push_back({states[0], first});
  updates.push_back({states[1], second});
  // Multiplying elements by a scalar is faster than dividing them.
  const Tensor mean = beta1 == 0 ? first : first * (1 / correction(beta1, first.type()));
  const Tensor root = beta2 == 0 ? sqrt(second) : sqrt(second) * (1 / sqrt(correction(beta2, second.type())));
  return mean / (root + eps);
}

// In f32 at least.
Tensor norm(const Tensor& x) {
  return sqrt(sum(square(x.type() == Type::kF64 ? x : cast(x, Type::kF32))));
}

}  // namespace

namespace {

OptimizerRule rule_of(std::string name, std::vector<std::string> states, Optimizer::UpdateOf update) {
  OptimizerRule rule{.name = std::move(name), .states = std::move(states), .update = {}};
  if (update) {
    rule.update = [update = std::move(update)](const UpdateOperands& now) {
      return update(now.value, now.gradient, now.states, now.learning_rate);
    };
  }
  return rule;
}

}  // namespace

Optimizer::Optimizer(OptimizerRule rule) : rule_(std::move(rule)) {
  if (!rule_.update) {
    detail::fail("optimizer '" + name() + "': the function is empty");
  }
  if (static_cast<bool>(rule_.term) != static_cast<bool>(rule_.number)) {
    detail::fail("optimizer '" + name() +
                 "': one of the functions term and number is empty; set both or none");
  }
  for (const std::string& pattern : rule_.patterns) {
    if (pattern.empty()) {
      detail::fail("optimizer '" + name() +
                   "': a pattern is empty; use names of parameters, with * for any characters");
    }
  }
  constexpr std::array<std::string_view, 5> kReserved = {"", "parameters", "value", "number", "pieces"};
  for (auto state = rule_.states.begin(); state != rule_.states.end(); ++state) {
    if (std::find(kReserved.begin(), kReserved.end(), *state) != kReserved.end() ||
        state->starts_with("gradient") || state->starts_with("next_") ||
        std::find(rule_.states.begin(), state, *state) != state) {
      detail::fail("optimizer '" + name() + "': state '" + *state +
                   "' is empty, reserved or repeated; choose another name");
    }
  }
}

Optimizer::Optimizer(std::string name, std::vector<std::string> states, UpdateOf update)
    : Optimizer(rule_of(std::move(name), std::move(states), std::move(update))) {}

std::vector<Update> Optimizer::update(const Tensor& value, const Tensor& gradient, const Tensors& states,
                                      const Tensor& learning_rate) const {
  return update({value, gradient, states, learning_rate});
}

std::vector<Update> Optimizer::update(const UpdateOperands& operands) const {
  detail::rule_of(*this);
  const auto& [value, gradient, states, learning_rate, number, group] = operands;
  for (const Tensor& operand : {value, gradient, learning_rate}) {
    detail::require(operand, name().c_str());
  }
  if (!value.is_leaf() || gradient.dims() != value.dims() || gradient.type() != value.type() ||
      learning_rate.rank() != 0) {
    detail::fail(name() + ": the value " + detail::describe(value) + " must be a leaf, the gradient " +
                 detail::describe(gradient) + " must have its shape and type, and the learning rate " +
                 detail::describe(learning_rate) + " must be a scalar");
  }
  const bool fit =
      states.size() == rule_.states.size() &&
      std::all_of(states.begin(), states.end(), [&leaf = value](const Tensor& state) {
        return state && state.is_leaf() && state.dims() == leaf.dims() && state.type() == leaf.type();
      });
  if (!fit) {
    detail::fail(name() + ": it needs " + detail::counted(rule_.states.size(), "state") +
                 ", leaves with the shape and type of " + detail::describe(value));
  }
  if (rule_.term && (!number || number.rank() != 0)) {
    detail::fail(name() + ": it needs the number over all gradients, a scalar");
  }
  if (group > rule_.patterns.size()) {
    detail::fail(name() + ": the group of parameters is " + std::to_string(group) + ", but the last one is " +
                 std::to_string(rule_.patterns.size()));
  }
  UpdateOperands used = operands;
  const std::optional<double> rate = detail::number_of(learning_rate);
  used.learning_rate = rate                                   ? detail::constant(value.type(), *rate)
                       : learning_rate.type() == value.type() ? learning_rate
                                                              : cast(learning_rate, value.type());
  std::vector<Update> updates = rule_.update(used);
  for (const Update& update : updates) {
    if (!update.leaf || !update.value || update.value.dims() != update.leaf.dims() ||
        update.value.type() != update.leaf.type()) {
      detail::fail(name() + ": its function returned an update of another shape or type for " +
                   detail::describe(value));
    }
  }
  return updates;
}

Optimizer::Optimizer(const Sgd& options)
    : Optimizer(
          "sgd", options.needs_state() ? std::vector<std::string>{"momentum"} : std::vector<std::string>{},
          [options](const Tensor& value, const Tensor& gradient, const Tensors& states, const Tensor& rate) {
            return sgd_one(value, gradient, states.empty() ? Tensor() : states[0], rate, options);
          }) {
  check("sgd", {{"momentum", options.momentum, true}, {"weight_decay", options.weight_decay}});
  if (options.nesterov && !options.needs_state()) {
    detail::fail("sgd: nesterov requires a momentum greater than 0");
  }
}

Optimizer::Optimizer(const Adam& options)
    : Optimizer(
          "adam", {"first_moment", "second_moment"},
          [options](const Tensor& value, const Tensor& gradient, const Tensors& states, const Tensor& rate) {
            std::vector<Update> updates;
            const Tensor step = adam_step(with_decay(gradient, value, options.weight_decay), states,
                                          options.beta1, options.beta2, options.eps, updates);
            updates.push_back({value, value - rate * step});
            return updates;
          }) {
  check("adam", {{"beta1", options.beta1, true},
                 {"beta2", options.beta2, true},
                 {"eps", options.eps},
                 {"weight_decay", options.weight_decay}});
}

Optimizer::Optimizer(const AdamW& options)
    : Optimizer(
          "adamw", {"first_moment", "second_moment"},
          [options](const Tensor& value, const Tensor& gradient, const Tensors& states, const Tensor& rate) {
            std::vector<Update> updates;
            const Tensor step =
                adam_step(gradient, states, options.beta1, options.beta2, options.eps, updates);
            updates.push_back({value, value * (1 - rate * options.weight_decay) - rate * step});
            return updates;
          }) {
  check("adamw", {{"beta1", options.beta1, true},
                  {"beta2", options.beta2, true},
                  {"eps", options.eps},
                  {"weight_decay", options.weight_decay}});
}

namespace {

std::vector<std::string> states_of(const RmsProp& options) {
  std::vector<std::string> states{"mean_square"};
  if (options.centered) {
    states.emplace_back("mean_gradient");
  }
  if (options.momentum != 0) {
    states.emplace_back("momentum");
  }
  return states;
}

}  // namespace

Optimizer::Optimizer(const RmsProp& options)
    : Optimizer(
          "rmsprop", states_of(options),
          [options](const Tensor& value, const Tensor& gradient, const Tensors& states, const Tensor& rate) {
            const Tensor g = with_decay(gradient, value, options.weight_decay);
            const Tensor mean_square = moving(states[0], options.decay, square(g));
            std::vector<Update> updates{{states[0], mean_square}};
            Tensor variance = mean_square;
            if (options.centered) {
              const Tensor mean = moving(states[1], options.decay, g);
              updates.push_back({states[1], mean});
              variance = maximum(variance - square(mean), 0.0);  // rounding may make it negative
            }
            Tensor step = g / (sqrt(variance) + options.eps);
            if (options.momentum != 0) {
              step = options.momentum * states.back() + step;
              updates.push_back({states.back(), step});
            }
            updates.push_back({value, value - rate * step});
            return updates;
          }) {
  check("rmsprop", {{"decay", options.decay, true},
                    {"eps", options.eps},
                    {"momentum", options.momentum, true},
                    {"weight_decay", options.weight_decay}});
}

Optimizer::Optimizer(const Adagrad& options)
    : Optimizer(
          "adagrad", {"sum_of_squares"},
          [options](const Tensor& value, const Tensor& gradient, const Tensors& states, const Tensor& rate) {
            const Tensor g = with_decay(gradient, value, options.weight_decay);
            const Tensor squares = states[0] + square(g);
            return std::vector<Update>{{states[0], squares},
                                       {value, value - rate * g / (sqrt(squares) + options.eps)}};
          }) {
  check("adagrad", {{"eps", options.eps}, {"weight_decay", options.weight_decay}});
}

Optimizer::Optimizer(const Lion& options)
    : Optimizer(
          "lion", {"momentum"},
          [options](const Tensor& value, const Tensor& gradient, const Tensors& states, const Tensor& rate) {
            const Tensor direction = sign(moving(states[0], options.beta1, gradient));
            const Tensor kept = options.weight_decay == 0 ? value : value * (1 - rate * options.weight_decay);
            return std::vector<Update>{{states[0], moving(states[0], options.beta2, gradient)},
                                       {value, kept - rate * direction}};
          }) {
  check("lion", {{"beta1", options.beta1, true},
                 {"beta2", options.beta2, true},
                 {"weight_decay", options.weight_decay}});
}

Optimizer::Optimizer(const Lamb& options)
    : Optimizer(OptimizerRule{
          .name = "lamb",
          .states = {"first_moment", "second_moment"},
          .update =
              [options](const UpdateOperands& now) {
                std::vector<Update> updates;
                const Tensor step = with_decay(
                    adam_step(now.gradient, now.states, options.beta1, options.beta2, options.eps, updates),
                    now.value, options.weight_decay);
                const Tensor of_value = norm(now.value);
                const Tensor of_step = norm(step);
                const Tensor ratio = cast(
                    where(logical_and(of_value > 0, of_step > 0), of_value / of_step, 1), now.value.type());
                updates.push_back({now.value, now.value - now.learning_rate * ratio * step});
                return updates;
              },
          .whole_parameters = true}) {
  check("lamb", {{"beta1", options.beta1, true},
                 {"beta2", options.beta2, true},
                 {"eps", options.eps},
                 {"weight_decay", options.weight_decay}});
  if (options.eps == 0) {
    detail::fail("lamb: eps is 0; it must be greater than 0");
  }
}

Optimizer optimizer_by_name(std::string_view name) {
  const Optimizer all[] = {Sgd{}, Adam{}, AdamW{}, RmsProp{}, Adagrad{}, Lion{}, Lamb{}};
  std::string listed;
  std::vector<std::string> names;
  for (const Optimizer& optimizer : all) {
    if (optimizer.name() == name) {
      return optimizer;
    }
    listed += (listed.empty() ? "" : ", ") + optimizer.name();
    names.push_back(optimizer.name());
  }
  throw Error(ErrorCode::kNotFound, "no optimizer is named '" + std::string(name) + "'; the optimizers are " +
                                        listed + did_you_mean(name, names));
}

std::vector<Update> sgd_one(const Tensor& value, const Tensor& gradient, const Tensor& momentum_state,
                            const Tensor& learning_rate, const Sgd& options) {
  detail::require(value, "sgd_one");
  detail::require(gradient, "sgd_one");
  detail::require(learning_rate, "sgd_one");
  const auto is_updatable = [](const Tensor& leaf) {
    return leaf.source() == Source::kParameter || leaf.source() == Source::kPlaceholder;
  };
  if (!is_updatable(value)) {
    detail::fail("sgd_one: " + detail::describe(value) +
                 " is not a parameter; pass the tensor of a Parameter, or a placeholder for it");
  }
  if (gradient.dims() != value.dims() || learning_rate.rank() != 0) {
    detail::fail("sgd_one: the gradient " + detail::describe(gradient) + " must have the shape of " +
                 detail::describe(value) + ", and the learning rate " + detail::describe(learning_rate) +
                 " must be a scalar");
  }
  if (options.nesterov && options.momentum == 0) {
    detail::fail("sgd_one: nesterov requires a momentum greater than 0");
  }
  const Tensor rate = learning_rate.type() == value.type() || detail::constant_of(learning_rate) != nullptr
                          ? learning_rate
                          : cast(learning_rate, value.type());
  Tensor delta = with_decay(gradient, value, options.weight_decay);
  std::vector<Update> updates;
  if (options.momentum != 0) {
    detail::require(momentum_state, "sgd_one");
    if (!is_updatable(momentum_state) || momentum_state.dims() != value.dims()) {
      detail::fail("sgd_one: the momentum " + detail::describe(momentum_state) +
                   " must be a parameter or placeholder with the shape of " + detail::describe(value));
    }
    const Tensor momentum = options.momentum * momentum_state + delta;
    updates.push_back({momentum_state, momentum});
    delta = options.nesterov ? delta + options.momentum * momentum : momentum;
  }
  updates.push_back({value, value - rate * delta});
  return updates;
}

}  // namespace yoke
