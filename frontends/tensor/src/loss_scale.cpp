// SPDX-License-Identifier: Apache-2.0
// frontends/tensor/src/loss_scale.cpp: dynamic loss scaling, as torch.amp.GradScaler does it.
#include "loss_scale.h"

#include <yoke/ops.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <limits>
#include <utility>

#include "rewrite.h"

namespace yoke::detail {

namespace {

constexpr double kGrowth = 2;
constexpr double kBackoff = 0.5;
constexpr std::int64_t kGrowthInterval = 2000;  // clean steps
// Both the scale and 1 / the scale are normal f32 numbers.
const double kLargestScale = std::ldexp(1, 100);
const double kSmallestScale = std::ldexp(1, -100);

constexpr double kLargestNumber = std::numeric_limits<double>::max();

// In f32 for f16, which cannot hold the inverse of a large scale.
Tensor unscaled_gradient(const Tensor& gradient, const Tensor& inverse) {
  const Type type = gradient.type();
  const Type wide = type == Type::kF64 ? type : Type::kF32;
  const Tensor product = (type == wide ? gradient : cast(gradient, wide)) * cast(inverse, wide);
  return type == wide ? product : cast(product, type);
}

}  // namespace

Tensor scale_leaf(const char* name) {
  return placeholder(name, Type::kF64, {kScaleElements});
}

Tensor scale_element(const Tensor& vector, ScaleElement element) {
  return squeeze(slice(vector, 0, element, element + 1), 0);
}

Tensor scaled_term(const OptimizerRule& rule, const Tensor& gradient, const Tensor& vector) {
  const Tensor inverse = 1.0 / scale_element(vector, kScale);
  const Tensor unscaled = unscaled_gradient(gradient, inverse);
  const Tensor fault = cast(unscaled - unscaled, Type::kF64);  // 0 or NaN
  return rule.term ? cast(rule.term(unscaled), Type::kF64) + fault : fault;
}

Tensor next_scale(const OptimizerRule& rule, const Tensor& total, const Tensor& vector) {
  const Tensor scale = scale_element(vector, kScale);
  const Tensor clean = scale_element(vector, kCleanSteps) + 1.0;
  const Tensor skipped = scale_element(vector, kSkippedSteps);
  const Tensor is_clean = abs(total) <= kLargestNumber;
  const Tensor grows = clean >= static_cast<double>(kGrowthInterval);
  const Tensor grown = where(grows, minimum(scale * kGrowth, kLargestScale), scale);
  return stack({rule.number ? rule.number(total) : total, where(is_clean, 1.0 / scale, 0.0),
                where(is_clean, grown, maximum(scale * kBackoff, kSmallestScale)),
                where(logical_and(is_clean, logical_not(grows)), clean, 0.0),
                where(is_clean, skipped, skipped + 1.0)});
}

std::vector<Update> scaled_update(const Optimizer& optimizer, const UpdateOperands& operands) {
  const Tensor& vector = operands.number;
  const Tensor inverse = scale_element(vector, kInverseScale);
  const Type type = operands.value.type();
  // Stand-ins, so that steps are replaced only in what the optimizer computes: the schedule of the rate and the loss
  // also count skipped steps.
  const Tensor rate = placeholder("rate", type, {});
  const Tensor slope = placeholder("slope", type, operands.value.dims());
  const Tensor number = placeholder("number", Type::kF64, {});
  UpdateOperands unscaled = operands;
  unscaled.gradient = slope;
  unscaled.learning_rate = rate;
  unscaled.number = optimizer.rule().term ? number : Tensor();
  std::vector<Update> updates = optimizer.update(unscaled);
  std::vector<Tensor> values(updates.size());
  std::transform(updates.begin(), updates.end(), values.begin(),
                 [](const Update& update) { return update.value; });
  Tensor steps = symbol_value(step_symbol()) - cast(scale_element(vector, kSkippedSteps), Type::kI64);
  const std::array<std::pair<Tensor, Tensor>, 3> stand_ins = {
      {{rate, cast(operands.learning_rate, type)},
       {slope, unscaled_gradient(operands.gradient, inverse)},
       {number, scale_element(vector, kNumberOfRule)}}};
  values = rewrite(values, [&](const Node& node, const std::vector<Tensor>&) {
    if (node.symbol == step_symbol()) {
      return steps;
    }
    const auto found = std::find_if(stand_ins.begin(), stand_ins.end(),
                                    [&](const auto& pair) { return pair.first.node().get() == &node; });
    return found == stand_ins.end() ? Tensor() : found->second;
  });
  for (std::size_t i = 0; i < updates.size(); ++i) {
    updates[i].value = where(inverse > 0.0, values[i], updates[i].leaf);
  }
  return updates;
}

std::vector<std::byte> scale_bytes(const LossScale& scale) {
  const std::array<double, kScaleElements> numbers = {0, 1 / scale.scale, scale.scale,
                                                      static_cast<double>(scale.clean_steps),
                                                      static_cast<double>(scale.skipped_steps)};
  const auto bytes = std::as_bytes(std::span(numbers));
  return {bytes.begin(), bytes.end()};
}

LossScale scale_of_bytes(const std::vector<std::byte>& bytes) {
  std::array<double, kScaleElements> numbers{};
  std::memcpy(numbers.data(), bytes.data(), sizeof(numbers));
  return {numbers[kScale], static_cast<std::int64_t>(numbers[kCleanSteps]),
          static_cast<std::int64_t>(numbers[kSkippedSteps])};
}

bool is_valid(const LossScale& scale) {
  return scale.scale >= kSmallestScale && scale.scale <= kLargestScale && scale.clean_steps >= 0 &&
         scale.clean_steps < kGrowthInterval && scale.skipped_steps >= 0;
}

}  // namespace yoke::detail
