// SPDX-License-Identifier: Apache-2.0
// frontends/tensor/src/rewrite.h: copies of expressions in which some nodes are replaced.
#pragma once

#include <yoke/optimizer.h>

#include <functional>
#include <span>
#include <vector>

#include "node.h"

namespace yoke::detail {

// Replaces each node for which `rule` returns a tensor, and copies what depends on these nodes. `args` are the node's
// arguments after their replacement. The rule gets arguments before users; what it returns is not visited.
using RewriteRule = std::function<Tensor(const Node& node, const std::vector<Tensor>& args)>;
std::vector<Tensor> rewrite(std::span<const Tensor> values, const RewriteRule& rule);

// Computes sums of products of f32 tensors, such as products of matrices and convolutions, in `type`, one of 16 bits:
// rounds their operands and their results, and converts the results to f32, in which everything else is computed.
std::vector<Tensor> in_precision(std::span<const Tensor> values, Type type);
// Changes gradients of such values: sums of products that only contribute to an f32 gradient are not rounded first.
void widen(std::vector<Tensor>& gradients);

}  // namespace yoke::detail
