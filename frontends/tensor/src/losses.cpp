// SPDX-License-Identifier: Apache-2.0
// frontends/tensor/src/losses.cpp: losses, accuracy, and activations built from several operations.
#include <yoke/losses.h>
#include <yoke/ops.h>

#include <string>

#include "node.h"

namespace yoke {
namespace {

Tensor reduced(const Tensor& terms, Reduce reduce) {
  return reduce == Reduce::kMean ? mean(terms) : sum(terms);
}

// The maximum, which is subtracted before exponentiation. It cancels in the result, so it needs no gradient.
Tensor shift_of(const Tensor& x, int axis) {
  return stop_gradient(max(x, {axis}, true));
}

void require_classes(const Tensor& logits, const Tensor& labels, const char* operation) {
  detail::require(logits, operation);
  detail::require(labels, operation);
  const std::string call = std::string(operation) + ": ";
  if (!program::is_float(logits.type())) {
    detail::fail(call + "the logits " + detail::describe(logits) + " are " +
                 std::string(program::type_name(logits.type())) + "; they must be floats");
  }
  if (!program::is_integer(labels.type())) {
    detail::fail(call + "the labels " + detail::describe(labels) + " are " +
                 std::string(program::type_name(labels.type())) +
                 "; they must be class numbers of integer type");
  }
  if (logits.rank() == 0 || Dims(logits.dims().begin(), logits.dims().end() - 1) != labels.dims()) {
    detail::fail(call + "the labels " + detail::describe(labels) + " must have the shape of the logits " +
                 detail::describe(logits) + " without the last axis");
  }
}

// Accepts equal shapes, and an output of shape [..., 1] for a target of shape
// [...]. Other shapes that broadcast are likely mistakes.
Tensor matched(const Tensor& output, const Tensor& target, const char* operation) {
  detail::require(output, operation);
  detail::require(target, operation);
  if (output.rank() == target.rank() + 1 && output.dims().back() == 1 &&
      Dims(output.dims().begin(), output.dims().end() - 1) == target.dims()) {
    return squeeze(output, -1);
  }
  if (output.dims() != target.dims()) {
    detail::fail(std::string(operation) + ": the output " + detail::describe(output) + " and the target " +
                 detail::describe(target) + " differ in shape");
  }
  return output;
}

}  // namespace

Tensor gelu(const Tensor& x) {
  return x * (0.5 * (1 + erf(x * 0.7071067811865476)));
}

Tensor gelu_tanh(const Tensor& x) {
  constexpr double kScale = 0.7978845608028654;  // sqrt(2 / pi)
  return 0.5 * x * (1 + tanh(kScale * (x + 0.044715 * x * square(x))));
}

Tensor silu(const Tensor& x) {
  return x * sigmoid(x);
}

Tensor softplus(const Tensor& x) {
  return relu(x) + log1p(exp(-abs(x)));
}

Tensor leaky_relu(const Tensor& x, double slope) {
  return where(x > 0, x, slope * x);
}

Tensor softmax(const Tensor& x, int axis) {
  detail::require(x, "softmax");
  const Tensor e = exp(x - shift_of(x, axis));
  return e / sum(e, {axis}, true);
}

Tensor log_softmax(const Tensor& x, int axis) {
  detail::require(x, "log_softmax");
  const Tensor shifted = x - shift_of(x, axis);
  return shifted - log(sum(exp(shifted), {axis}, true));
}

Tensor cross_entropy(const Tensor& logits, const Tensor& given, Reduce reduce, double label_smoothing,
                     std::optional<std::int64_t> ignored_class) {
  require_classes(logits, given, "cross_entropy");
  if (!(label_smoothing >= 0 && label_smoothing < 1)) {
    detail::fail("cross_entropy: label_smoothing " + std::to_string(label_smoothing) +
                 " is out of range [0, 1)");
  }
  Tensor labels = given;
  Tensor is_kept;
  if (ignored_class) {
    const Tensor wide = cast(given, Type::kI64);
    is_kept = not_equal(wide, *ignored_class);
    labels = where(is_kept, wide, 0);
  }
  const Tensor shift = shift_of(logits, -1);
  const Tensor log_of_sum = log(sum(exp(logits - shift), {-1}));
  Tensor chosen = squeeze(take_along_axis(logits, unsqueeze(labels, -1), -1), -1);
  if (label_smoothing != 0) {
    chosen = (1 - label_smoothing) * chosen + label_smoothing * mean(logits, {-1});
  }
  const Tensor rows = log_of_sum - (chosen - squeeze(shift, -1));
  if (!ignored_class) {
    return reduced(rows, reduce);
  }
  const Tensor total = sum(where(is_kept, rows, 0));
  return reduce == Reduce::kSum ? total : total / maximum(sum(cast(is_kept, total.type())), 1);
}

Tensor binary_cross_entropy(const Tensor& logits, const Tensor& target, Reduce reduce,
                            double positive_weight) {
  const Tensor x = matched(logits, target, "binary_cross_entropy");
  if (positive_weight == 1) {
    return reduced(softplus(x) - x * target, reduce);
  }
  return reduced((1 - target) * x + (1 + (positive_weight - 1) * target) * softplus(-x), reduce);
}

Tensor mae(const Tensor& output, const Tensor& target, Reduce reduce) {
  return reduced(abs(matched(output, target, "mae") - target), reduce);
}

Tensor huber(const Tensor& output, const Tensor& target, double delta, Reduce reduce) {
  if (!(delta > 0)) {
    detail::fail("huber: delta " + std::to_string(delta) + " must be greater than 0");
  }
  const Tensor distance = abs(matched(output, target, "huber") - target);
  const Tensor inner = minimum(distance, delta);
  return reduced(inner * (distance - 0.5 * inner), reduce);
}

Tensor kl_divergence(const Tensor& log_p, const Tensor& target, Reduce reduce) {
  detail::require(log_p, "kl_divergence");
  detail::require(target, "kl_divergence");
  if (log_p.rank() == 0 || log_p.dims() != target.dims()) {
    detail::fail("kl_divergence: the logarithms " + detail::describe(log_p) + " and the target " +
                 detail::describe(target) + " must have one shape, with classes on the last axis");
  }
  const Tensor is_used = target > 0;
  const Tensor log_q = log(where(is_used, target, 1));
  return reduced(sum(where(is_used, target * (log_q - log_p), 0), {-1}), reduce);
}

Tensor mse(const Tensor& output, const Tensor& target, Reduce reduce) {
  return reduced(square(matched(output, target, "mse") - target), reduce);
}

Tensor hinge(const Tensor& output, const Tensor& target, Reduce reduce) {
  return reduced(relu(1 - matched(output, target, "hinge") * target), reduce);
}

Tensor accuracy(const Tensor& logits, const Tensor& labels) {
  require_classes(logits, labels, "accuracy");
  return mean(cast(equal(argmax(logits, -1), cast(labels, Type::kI64)), Type::kF32));
}

}  // namespace yoke
