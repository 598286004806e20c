// SPDX-License-Identifier: Apache-2.0
// frontends/tensor/src/composite.h: which nodes belong to a composite, and its gradient.
#pragma once

#include <vector>

#include "loop.h"

namespace yoke::detail {

// The composite whose body has the node; null if there is none. Composites nest.
inline const Composite* composite_of(const Node& node) {
  const Composite* own = node.composite.get();
  return own != nullptr && node.kind == Kind::kResult ? own->parent.get() : own;
}
// The composite whose hint has the node's statements.
const Composite* outermost_composite_of(const Node& node);

// What the outputs of one composite contribute to the gradients of its inputs. The gradient of an output may
// be empty. `active` are the nodes that need gradients.
std::vector<Contribution> composite_gradients(const std::vector<Tensor>& outputs,
                                              const std::vector<Tensor>& gradients, const NodeSet& active);

}  // namespace yoke::detail
