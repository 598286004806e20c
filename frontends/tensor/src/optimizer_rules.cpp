// SPDX-License-Identifier: Apache-2.0
// frontends/tensor/src/optimizer_rules.cpp: optimizers that wrap others: clipping, averages, groups of parameters.
#include <yoke/ops.h>
#include <yoke/optimizer.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "node.h"
#include "shortest.h"

namespace yoke {
namespace {

constexpr const char* kAverage = "average";

void check_limit(const char* call, const char* what, double limit) {
  if (!(limit > 0)) {
    detail::fail(std::string(call) + ": the " + what + " is " + std::to_string(limit) +
                 "; it must be greater than 0");
  }
}

// Whether `name` matches `pattern`, in which * stands for any characters.
bool matches(std::string_view pattern, std::string_view name) {
  const std::size_t star = pattern.find('*');
  if (star == std::string_view::npos) {
    return pattern == name;
  }
  if (!name.starts_with(pattern.substr(0, star))) {
    return false;
  }
  for (std::size_t from = star; from <= name.size(); ++from) {
    if (matches(pattern.substr(star + 1), name.substr(from))) {
      return true;
    }
  }
  return false;
}

}  // namespace

const OptimizerRule& detail::rule_of(const Optimizer& optimizer) {
  if (!optimizer.rule().update) {
    throw Error(ErrorCode::kFailedPrecondition, "the Optimizer was moved from; use the new object");
  }
  return optimizer.rule();
}

std::uint32_t Optimizer::group_of(std::string_view parameter) const {
  for (std::size_t i = 0; i < rule_.patterns.size(); ++i) {
    if (matches(rule_.patterns[i], parameter)) {
      return static_cast<std::uint32_t>(i) + 1;
    }
  }
  return 0;
}

Optimizer clip_by_value(const Optimizer& optimizer, double limit) {
  check_limit("clip_by_value", "limit", limit);
  const auto clip = [limit](const Tensor& gradient) { return minimum(maximum(gradient, -limit), limit); };
  OptimizerRule rule = detail::rule_of(optimizer);
  if (rule.term) {
    rule.term = [clip, term = rule.term](const Tensor& gradient) { return term(clip(gradient)); };
  }
  rule.update = [optimizer, clip](UpdateOperands now) {
    now.gradient = clip(now.gradient);
    return optimizer.update(now);
  };
  return Optimizer(std::move(rule));
}

Optimizer clip_by_global_norm(const Optimizer& optimizer, double max_norm) {
  check_limit("clip_by_global_norm", "largest norm", max_norm);
  OptimizerRule rule = detail::rule_of(optimizer);
  if (rule.term) {
    detail::fail("clip_by_global_norm: the optimizer '" + rule.name +
                 "' already has a number over all gradients; clip by one norm only");
  }
  rule.term = [](const Tensor& gradient) {
    return square(gradient.type() == Type::kF64 ? gradient : cast(gradient, Type::kF32));
  };
  rule.number = [max_norm](const Tensor& total) {
    const Tensor ratio = max_norm / (sqrt(total) + 1e-6);
    return where(ratio >= 1.0, 1.0, ratio);  // NaN stays NaN
  };
  rule.update = [optimizer](UpdateOperands now) {
    now.gradient = now.gradient * cast(now.number, now.gradient.type());
    now.number = {};
    return optimizer.update(now);
  };
  return Optimizer(std::move(rule));
}

Optimizer moving_average(const Optimizer& optimizer, double decay) {
  if (!(decay >= 0 && decay < 1)) {
    detail::fail("moving_average: the decay is " + detail::shortest(decay) + "; it must be in [0, 1)");
  }
  OptimizerRule rule = detail::rule_of(optimizer);
  rule.states.emplace_back(kAverage);
  rule.update = [optimizer, decay](UpdateOperands now) {
    const Tensor average = now.states.back();
    now.states.pop_back();
    std::vector<Update> updates = optimizer.update(now);
    const auto updated = std::find_if(updates.begin(), updates.end(),
                                      [&](const Update& update) { return update.leaf.is(now.value); });
    const Tensor value = updated != updates.end() ? updated->value : now.value;
    const Tensor is_first = equal(symbol_value(step_symbol()), 0);
    updates.push_back({average, where(is_first, value, average + (1 - decay) * (value - average))});
    return updates;
  };
  return Optimizer(std::move(rule));
}

Optimizer with_groups(const Optimizer& optimizer, const std::vector<ParameterGroup>& groups) {
  OptimizerRule rule = detail::rule_of(optimizer);
  const auto check = [&](const OptimizerRule& other) {
    if (other.name != rule.name || other.states != rule.states) {
      detail::fail("with_groups: the optimizers '" + rule.name + "' and '" + other.name +
                   "' differ in name or states; use the same optimizer with other numbers");
    }
    if (other.term || !other.patterns.empty()) {
      detail::fail("with_groups: the optimizer '" + other.name +
                   "' has groups or a number over all gradients; make the groups first, and clip the result");
    }
  };
  check(detail::rule_of(optimizer));
  for (const ParameterGroup& group : groups) {
    check(detail::rule_of(group.optimizer));
    if (!(group.learning_rate_factor >= 0 && std::isfinite(group.learning_rate_factor))) {
      detail::fail("with_groups: the learning rate factor of '" + group.pattern + "' is " +
                   detail::shortest(group.learning_rate_factor) + "; it must be at least 0");
    }
    rule.patterns.push_back(group.pattern);
    rule.whole_parameters = rule.whole_parameters || group.optimizer.rule().whole_parameters;
  }
  rule.update = [optimizer, groups](UpdateOperands now) {
    const std::uint32_t number = std::exchange(now.group, 0);
    if (number == 0) {
      return optimizer.update(now);
    }
    const ParameterGroup& group = groups[number - 1];
    if (group.learning_rate_factor != 1) {
      now.learning_rate = now.learning_rate * group.learning_rate_factor;
    }
    return group.optimizer.update(now);
  };
  return Optimizer(std::move(rule));
}

}  // namespace yoke
