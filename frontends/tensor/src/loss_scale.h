// SPDX-License-Identifier: Apache-2.0
// frontends/tensor/src/loss_scale.h: dynamic loss scaling, as torch.amp.GradScaler does it.
//
// Gradient programs multiply the loss by a scale. The optimizer divides the merged gradients by it. A step whose merged
// gradients, or whose number over all gradients, are not finite changes no parameter and no optimizer state. The scale
// and its counts are StepPlan's number over all gradients, a vector, so every shard has them and the host never waits
// for them.
#pragma once

#include <yoke/data_parallel.h>
#include <yoke/optimizer.h>

#include <cstddef>
#include <cstdint>
#include <vector>

namespace yoke::detail {

// The elements of the vector: the number of the optimizer's rule, if it has one; 1 / the scale of the latest merged
// gradients, or 0 if their step was skipped; and the state for the next step, as in LossScale.
enum ScaleElement : std::uint8_t { kNumberOfRule, kInverseScale, kScale, kCleanSteps, kSkippedSteps };
inline constexpr std::uint32_t kScaleElements = 5;

inline constexpr LossScale kFirstLossScale = {65536, 0, 0};

Tensor scale_leaf(const char* name);  // a placeholder
// Element `element` of such a vector, an f64 scalar.
Tensor scale_element(const Tensor& vector, ScaleElement element);
// The term that replaces OptimizerRule::term: the sum is not finite if an element of the gradient is not.
Tensor scaled_term(const OptimizerRule& rule, const Tensor& gradient, const Tensor& vector);
// The next vector. `total` is the sum of the terms over all gradients.
Tensor next_scale(const OptimizerRule& rule, const Tensor& total, const Tensor& vector);
// The optimizer's updates; operands.number is the next vector. Where the optimizer counts steps, it does not count
// those that were skipped. The learning rate's schedule counts all.
std::vector<Update> scaled_update(const Optimizer& optimizer, const UpdateOperands& operands);

// The vector on the host.
std::vector<std::byte> scale_bytes(const LossScale& scale);
LossScale scale_of_bytes(const std::vector<std::byte>& bytes);
// Whether a run can go on from these values.
bool is_valid(const LossScale& scale);

}  // namespace yoke::detail
