// SPDX-License-Identifier: Apache-2.0
// frontends/tensor/src/loop_products.cpp: moves products out of a loop, such as a recurrent layer's weights
// times its inputs. One large product is faster than one product for each round, and so are its gradients.
#include <yoke/ops.h>

#include <algorithm>
#include <utility>

#include "loop.h"

namespace yoke::detail {
namespace {

class Products {
 public:
  Products(const std::vector<Tensor>& values, const Loop& loop)
      : loop_(loop), body_(varying_nodes(values, loop, loop.order)) {
    for (const Node* node : body_) {
      if (node->kind == Kind::kCarry ||
          std::any_of(node->args.begin(), node->args.end(),
                      [&](const Tensor& arg) { return carried_.contains(arg.node().get()); })) {
        carried_.insert(node);
      }
    }
    varying_ = {body_.begin(), body_.end()};
    limit_ = movable_elements(varying_, values, loop);
    find_operands();
  }

  std::vector<Tensor> replaced_in(std::vector<Tensor> values) {
    for (const Node* node : body_) {
      if (operands_.contains(node)) {
        over_rounds_[node] = all_rounds(*node);
      }
      if (const Tensor all = is_product(*node) ? over_rounds(*node) : Tensor()) {
        replaced_[node] = element_in_round(all, loop_.variable, 1, 0);
      } else {
        replace_args(*node);
      }
    }
    for (Tensor& value : values) {
      value = replaced(value);
    }
    return values;
  }

 private:
  static bool is_product(const Node& node) { return node.kind == Kind::kReduce && node.args.size() > 1; }
  bool varies(const Tensor& x) const { return varying_.contains(x.node().get()); }

  Tensor replaced(const Tensor& x) const {
    const auto found = replaced_.find(x.node().get());
    return found == replaced_.end() ? x : found->second;
  }

  void replace_args(const Node& node) {
    std::vector<Tensor> args;
    bool is_new = false;
    for (const Tensor& arg : node.args) {
      args.push_back(replaced(arg));
      is_new = is_new || !args.back().is(arg);
    }
    if (!is_new) {
      return;
    }
    if (node.kind == Kind::kView) {
      const InComposite same(node.composite);
      replaced_[&node] = view_node(args[0], node.dims, node.view, node.literal);
      return;
    }
    auto copy = std::make_shared<Node>(node);
    copy->order = next_order();
    copy->args = std::move(args);
    replaced_[&node] = finish(std::move(copy));
  }

  // Products that do not depend on the carries, and what they are computed from.
  void find_operands() {
    for (auto node = body_.rbegin(); node != body_.rend(); ++node) {
      if (carried_.contains(*node) || (!is_product(**node) && !operands_.contains(*node))) {
        continue;
      }
      operands_.insert(*node);
      for (const Tensor& arg : (*node)->args) {
        if (varies(arg)) {
          operands_.insert(arg.node().get());
        }
      }
    }
  }

  // The node's value in all rounds, [rounds, ...], computed without the loop. Empty if that is not possible
  // or takes too much memory.
  Tensor over_rounds(const Node& node) const {
    const auto known = over_rounds_.find(&node);
    return known == over_rounds_.end() ? Tensor() : known->second;
  }

  // The same, computed from that of the node's arguments.
  Tensor all_rounds(const Node& node) const {
    if (node.dims.size() == 8) {
      return {};
    }
    if (node.kind == Kind::kSymbol) {
      return iota({loop_.rounds()}, 0);
    }
    if (node.kind != Kind::kView && elements_in_all_rounds(node.dims, loop_) > limit_) {
      return {};
    }
    std::vector<Tensor> args;
    for (const Tensor& arg : node.args) {
      args.push_back(varies(arg) ? over_rounds(*arg.node()) : arg);
      if (!args.back()) {
        return {};
      }
    }
    return with_args(node, std::move(args));
  }

  Tensor with_args(const Node& node, std::vector<Tensor> args) const {
    Dims dims = node.dims;
    dims.insert(dims.begin(), loop_.rounds());
    switch (node.kind) {
      case Kind::kView: {
        std::vector<ViewIndex> indices = view_over_rounds(node, loop_);
        if (varies(node.args[0])) {
          indices.insert(indices.begin(), ViewIndex::of_axis(0));
        }
        return view_node(args[0], std::move(dims), std::move(indices), node.literal);
      }
      case Kind::kReduce:
        if (node.reduce != program::Reduce::kSum) {
          return {};
        }
        return product_over_rounds(node, std::move(args), loop_, varying_, false);
      case Kind::kMap:
        for (std::size_t i = 0; i < args.size(); ++i) {
          if (varies(node.args[i])) {
            Dims aligned = node.args[i].dims();
            aligned.insert(aligned.begin(), node.dims.size() - aligned.size(), 1);
            aligned.insert(aligned.begin(), loop_.rounds());
            args[i] = reshape(args[i], aligned);
          }
        }
        break;
      case Kind::kGather:
        if (node.axis >= 0 || varies(node.args[0])) {
          return {};
        }
        break;
      case Kind::kStop:
        break;
      default:
        return {};
    }
    auto copy = new_node(node.kind, node.type, std::move(dims));
    copy->op = node.op;
    copy->axis = node.axis;
    copy->args = std::move(args);
    return finish(std::move(copy));
  }

  const Loop& loop_;
  std::vector<const Node*> body_;
  NodeSet varying_;
  NodeSet carried_;   // nodes that depend on the carries
  NodeSet operands_;  // products that do not depend on the carries, and nodes below them
  double limit_ = 0;
  std::unordered_map<const Node*, Tensor> over_rounds_;
  std::unordered_map<const Node*, Tensor> replaced_;
};

}  // namespace

std::vector<Tensor> with_products_hoisted(const std::vector<Tensor>& values, const Loop& loop) {
  return Products(values, loop).replaced_in(values);
}

}  // namespace yoke::detail
