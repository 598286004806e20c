// SPDX-License-Identifier: Apache-2.0
// frontends/tensor/include/yoke/losses.h: losses, accuracy, and activations built from several operations.
//
// Invalid shapes and types are an Error kInvalidArgument that names the operation and the tensors.
#pragma once

#include <yoke/tensor.h>

#include <cstdint>

namespace yoke {

enum class Reduce : std::uint8_t { kMean, kSum };

Tensor gelu(const Tensor& x);  // x * (1 + erf(x / sqrt(2))) / 2
// Both subtract the maximum along `axis` first, so that large inputs do not overflow.
Tensor softmax(const Tensor& x, int axis = -1);
Tensor log_softmax(const Tensor& x, int axis = -1);

// The cross entropy -log softmax(logits)[label], reduced over all rows: a scalar. logits: [..., classes];
// labels: [...], class numbers of an integer type. Stable for any finite logits.
// Precondition: every label is in [0, classes); this is not checked.
Tensor cross_entropy(const Tensor& logits, const Tensor& labels, Reduce reduce = Reduce::kMean);
// The squared error (output - target)^2, reduced to a scalar. The shapes are equal, or the output has the
// shape of the target plus a last axis of size 1.
Tensor mse(const Tensor& output, const Tensor& target, Reduce reduce = Reduce::kMean);
// The hinge loss max(0, 1 - output * target), reduced to a scalar; targets are -1 or 1. Shapes as for mse.
Tensor hinge(const Tensor& output, const Tensor& target, Reduce reduce = Reduce::kMean);
// The fraction of rows whose largest logit is at the label: an f32 scalar. Not differentiable.
Tensor accuracy(const Tensor& logits, const Tensor& labels);

}  // namespace yoke
