// SPDX-License-Identifier: Apache-2.0
// frontends/tensor/src/reverse.h: reverse-mode differentiation of a list of nodes.
#pragma once

#include <unordered_map>
#include <utility>
#include <vector>

#include "loop.h"

namespace yoke::detail {

// Adds to `active` the nodes of `order` that gradients flow through because of nodes that are active already.
void spread_activity(const std::vector<const Node*>& order, NodeSet& active);

class Reverse {
 public:
  // `order` lists arguments before users. With `body`, only nodes in it are differentiated; outside() returns
  // their contributions to other nodes.
  Reverse(std::vector<const Node*> order, NodeSet active, const NodeSet* body = nullptr)
      : order_(std::move(order)), active_(std::move(active)), body_(body) {}

  // Adds to the gradient of `arg`. `gradient` may have the shape of a broadcast result, and is then summed.
  void add(const Tensor& arg, const Tensor& gradient);
  void run();
  Tensor of(const Node* node) const;  // empty if nothing was added
  // Contributions to nodes that are not in the body. For a view of such a node, `to` is the view.
  const std::vector<Contribution>& outside() const { return outside_; }

 private:
  bool needs_gradient(const Tensor& arg) const;
  void visit(const Node& node);
  template <class Rule>
  void pass(const Tensor& arg, const Rule& rule);
  void visit_map(const Node& node);
  void visit_concat(const Node& node);
  void visit_reduce(const Node& node);
  void visit_sum(const Node& node);
  void visit_view(const Node& node);
  void visit_results(const std::vector<const Node*>& results);
  Tensor gather_adjoint(const Node& node) const;
  Tensor prod_adjoint(const Node& node) const;
  Tensor extremum_adjoint(const Node& node) const;

  std::vector<const Node*> order_;
  NodeSet active_;
  const NodeSet* body_;
  std::unordered_map<const Node*, Tensor> gradients_;
  std::vector<Contribution> outside_;
  Tensor dy_;  // of the node being visited
  Tensor y_;
};

}  // namespace yoke::detail
