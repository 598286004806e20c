// SPDX-License-Identifier: Apache-2.0
// frontends/tensor/include/yoke/losses.h: losses and scores: scalars.
#pragma once

#include <yoke/tensor.h>

#include <cstdint>

namespace yoke {

enum class Reduce : std::uint8_t { kMean, kSum };

Tensor gelu(const Tensor& x);
Tensor softmax(const Tensor& x, int axis = -1);  // stable: the maximum is taken off first
Tensor log_softmax(const Tensor& x, int axis = -1);

// -log softmax(logits)[label], over all rows. logits [..., classes]; labels [...] are class numbers (u8, u32,
// i32 or i64), below the number of classes: the caller checks the data. Stable for any finite logits; the
// gradient is softmax(logits) - one_hot(labels), scaled.
Tensor cross_entropy(const Tensor& logits, const Tensor& labels, Reduce reduce = Reduce::kMean);
// (output - target)^2. Equal shapes, except that [..., 1] may meet [...].
Tensor mse(const Tensor& output, const Tensor& target, Reduce reduce = Reduce::kMean);
// max(0, 1 - output * target), target -1 or 1. Shapes as for mse.
Tensor hinge(const Tensor& output, const Tensor& target, Reduce reduce = Reduce::kMean);
// The share of rows whose largest logit is at the label: f32. Not differentiable.
Tensor accuracy(const Tensor& logits, const Tensor& labels);

}  // namespace yoke
