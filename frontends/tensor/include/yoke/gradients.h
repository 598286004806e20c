// SPDX-License-Identifier: Apache-2.0
// frontends/tensor/include/yoke/gradients.h: reverse-mode differentiation of tensor expressions.
#pragma once

#include <yoke/tensor.h>

#include <span>
#include <vector>

namespace yoke {

// Returns d loss / d t for each t of `tensors`, in the same order and with the shape and type of t; zeros if
// the loss does not depend on t. Any node of the expression may be listed, not only leaves. The results are
// expressions and can be differentiated again.
// Error kInvalidArgument: the loss is not a floating-point scalar, or a tensor is not of floating-point type.
std::vector<Tensor> gradients(const Tensor& loss, std::span<const Tensor> tensors);
std::vector<Tensor> gradients(const Tensor& loss, const std::vector<Tensor>& tensors);

}  // namespace yoke
