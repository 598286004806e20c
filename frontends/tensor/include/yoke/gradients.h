// SPDX-License-Identifier: Apache-2.0
// frontends/tensor/include/yoke/gradients.h: reverse-mode differentiation: expressions in, expressions out.
#pragma once

#include <yoke/tensor.h>

#include <span>
#include <vector>

namespace yoke {

// d loss / d t for each of `tensors`, in their order, with their dims and types; zeros where the loss does
// not depend on t. The loss is a float scalar, else Error. Any node may be asked for, not leaves only. The
// results are expressions: differentiable again.
std::vector<Tensor> gradients(const Tensor& loss, std::span<const Tensor> tensors);
std::vector<Tensor> gradients(const Tensor& loss, const std::vector<Tensor>& tensors);

}  // namespace yoke
