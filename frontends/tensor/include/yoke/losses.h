// SPDX-License-Identifier: Apache-2.0
// frontends/tensor/include/yoke/losses.h: losses, accuracy, and activations built from several operations.
//
// Invalid shapes and types are an Error kInvalidArgument that names the operation and the tensors.
#pragma once

#include <yoke/tensor.h>

#include <cstdint>
#include <optional>

namespace yoke {

enum class Reduce : std::uint8_t { kMean, kSum };

Tensor gelu(const Tensor& x);       // x * (1 + erf(x / sqrt(2))) / 2
Tensor gelu_tanh(const Tensor& x);  // x * (1 + tanh(sqrt(2 / pi) * (x + 0.044715 * x^3))) / 2, as in GPT-2
Tensor silu(const Tensor& x);       // x * sigmoid(x)
Tensor softplus(const Tensor& x);   // log(1 + exp(x)), without overflow
Tensor leaky_relu(const Tensor& x, double slope = 0.01);  // x where x > 0, else slope * x
// Both subtract the maximum along `axis` first, so that large inputs do not overflow.
Tensor softmax(const Tensor& x, int axis = -1);
Tensor log_softmax(const Tensor& x, int axis = -1);

// The cross entropy -log softmax(logits)[label], reduced over all rows: a scalar. logits: [..., classes];
// labels: [...], class numbers of an integer type. Stable for any finite logits. With label smoothing e, in [0, 1),
// the loss of a row is 1 - e times this plus e times the mean of -log softmax(logits) over all classes, as in PyTorch.
// Rows whose label is `ignored_class`, such as -100, count neither in the sum nor in the mean, which is 0 if all rows
// are ignored (NaN in PyTorch). Shards and micro-batches weigh a mean by their rows, ignored ones included.
// Precondition: every other label is in [0, classes); this is not checked.
Tensor cross_entropy(const Tensor& logits, const Tensor& labels, Reduce reduce = Reduce::kMean,
                     double label_smoothing = 0, std::optional<std::int64_t> ignored_class = std::nullopt);
// The cross entropy of independent targets in [0, 1]: -target * log(sigmoid(logit)) * positive_weight
// - (1 - target) * log(1 - sigmoid(logit)), reduced over all elements. Stable for any finite logits. Shapes as for mse.
Tensor binary_cross_entropy(const Tensor& logits, const Tensor& target, Reduce reduce = Reduce::kMean,
                            double positive_weight = 1);
// The squared error (output - target)^2, reduced to a scalar. The shapes are equal, or the output has the
// shape of the target plus a last axis of size 1.
Tensor mse(const Tensor& output, const Tensor& target, Reduce reduce = Reduce::kMean);
// The absolute error |output - target|, reduced to a scalar; its gradient at 0 is 0. Shapes as for mse.
Tensor mae(const Tensor& output, const Tensor& target, Reduce reduce = Reduce::kMean);
// r^2 / 2 where |r| <= delta, else delta * (|r| - delta / 2), for r = output - target. Shapes as for mse.
Tensor huber(const Tensor& output, const Tensor& target, double delta = 1, Reduce reduce = Reduce::kMean);
// The divergence of p from the target q: the sum over the last axis of q * (log q - log p), reduced over all rows;
// 0 where q is 0. The shapes are equal: log_p [..., classes], target [..., classes]. kMean is PyTorch's "batchmean"
// for a matrix.
Tensor kl_divergence(const Tensor& log_p, const Tensor& target, Reduce reduce = Reduce::kMean);
// The hinge loss max(0, 1 - output * target), reduced to a scalar; targets are -1 or 1. Shapes as for mse.
Tensor hinge(const Tensor& output, const Tensor& target, Reduce reduce = Reduce::kMean);
// The fraction of rows whose largest logit is at the label: an f32 scalar. Not differentiable.
Tensor accuracy(const Tensor& logits, const Tensor& labels);

}  // namespace yoke
