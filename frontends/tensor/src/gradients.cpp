// SPDX-License-Identifier: Apache-2.0
// frontends/tensor/src/gradients.cpp: reverse-mode differentiation, with one rule per operation.
#include <yoke/gradients.h>
#include <yoke/ops.h>

#include <algorithm>
#include <numeric>
#include <unordered_map>
#include <utility>

#include "node.h"

namespace yoke {

using detail::Kind;
using detail::Node;
using program::Op;

namespace {

class Reverse {
 public:
  Reverse(const Tensor& loss, std::span<const Tensor> tensors)
      : order_(detail::topological(std::vector<Tensor>{loss})) {
    handles_[loss.node().get()] = loss;
    for (const Node* node : order_) {
      for (const Tensor& arg : node->args) {
        handles_[arg.node().get()] = arg;
      }
    }
    for (const Tensor& tensor : tensors) {
      active_[tensor.node().get()] = true;
    }
    for (const Node* node : order_) {
      bool& active = active_[node];
      const bool passes = program::is_float(node->type) && node->kind != Kind::kStop;
      active = active || (passes && std::any_of(node->args.begin(), node->args.end(), [&](const Tensor& arg) {
                            return active_[arg.node().get()];
                          }));
    }
    add(loss, detail::constant(loss.type(), 1));
    for (auto node = order_.rbegin(); node != order_.rend(); ++node) {
      const auto found = gradients_.find(*node);
      if (found != gradients_.end() && !(*node)->args.empty()) {
        dy_ = found->second;
        y_ = handles_.at(*node);
        visit(**node);
      }
    }
  }

  Tensor of(const Tensor& tensor) const {
    const auto found = gradients_.find(tensor.node().get());
    return found == gradients_.end() ? zeros(tensor.type(), tensor.dims()) : found->second;
  }

 private:
  bool needs_gradient(const Tensor& arg) const {
    return active_.at(arg.node().get()) && program::is_float(arg.type());
  }

  // Adds to the gradient of `arg`. `gradient` may have the shape of a broadcast result, and is then summed.
  void add(const Tensor& arg, const Tensor& gradient) {
    Tensor fitted = gradient;
    if (gradient.dims() != arg.dims()) {
      fitted = detail::sum_to(gradient.rank() < arg.rank() ? broadcast_to(gradient, arg.dims()) : gradient,
                              arg.dims());
    }
    Tensor& total = gradients_[arg.node().get()];
    total = total ? total + fitted : fitted;
  }

  // Every kind has a rule here, or an error.
  void visit(const Node& node) {
    switch (node.kind) {
      case Kind::kMap:
        visit_map(node);
        return;
      case Kind::kReduce:
        visit_reduce(node);
        return;
      case Kind::kConcat:
        visit_concat(node);
        return;
      case Kind::kView:
        pass(node.args[0], [&] { return detail::view_adjoint(node, dy_); });
        return;
      case Kind::kReshape:
        pass(node.args[0], [&] { return reshape(dy_, node.args[0].dims()); });
        return;
      case Kind::kGather:
        pass(node.args[0], [&] { return gather_adjoint(node); });
        return;
      case Kind::kScatter:
        pass(node.args[1], [&] {
          return node.axis < 0 ? take(dy_, node.args[0]) : take_along_axis(dy_, node.args[0], node.axis);
        });
        return;
      case Kind::kStop:
        return;
      case Kind::kPlaceholder:
      case Kind::kLiteral:
      case Kind::kParameter:
      case Kind::kScalar:
      case Kind::kConstant:
      case Kind::kSymbol:
      case Kind::kIota:
      case Kind::kRandom:
        return;  // no operands
    }
    detail::fail("gradients: an operation has no derivative");
  }

  template <class Rule>
  void pass(const Tensor& arg, const Rule& rule) {
    if (needs_gradient(arg)) {
      add(arg, rule());
    }
  }

  void visit_map(const Node& node) {
    std::vector<bool> needed;
    for (const Tensor& arg : node.args) {
      needed.push_back(needs_gradient(arg));
    }
    const std::vector<Tensor> gradients = detail::map_gradients(node, y_, dy_, needed);
    for (std::size_t i = 0; i < gradients.size(); ++i) {
      if (gradients[i]) {
        add(node.args[i], gradients[i]);
      }
    }
  }

  Tensor gather_adjoint(const Node& node) const {
    const Tensor& x = node.args[0];
    const Tensor& ids = node.args[1];
    if (node.axis < 0 || ids.dims()[static_cast<std::size_t>(node.axis)] != 1) {
      return detail::scatter_node(ids, dy_, x.dims(), node.axis);
    }
    // One element along the axis: comparing with the index is independent for each element of x.
    return where(equal(iota(x.dims(), node.axis), cast(ids, Type::kI64)), dy_, detail::constant(x.type(), 0));
  }

  void visit_concat(const Node& node) {
    std::uint64_t begin = 0;
    for (const Tensor& part : node.args) {
      const std::uint64_t end = begin + part.dims()[static_cast<std::size_t>(node.axis)];
      if (needs_gradient(part)) {
        add(part, slice(dy_, node.axis, begin, end));
      }
      begin = end;
    }
  }

  void visit_reduce(const Node& node) {
    switch (node.reduce) {
      case program::Reduce::kSum:
        visit_sum(node);
        return;
      case program::Reduce::kProd:
        pass(node.args[0], [&] { return prod_adjoint(node); });
        return;
      case program::Reduce::kMax:
      case program::Reduce::kMin:
        pass(node.args[0], [&] { return extremum_adjoint(node); });
        return;
      case program::Reduce::kAny:
        detail::fail_without_derivative("any", node);
      case program::Reduce::kAll:
        detail::fail_without_derivative("all", node);
      case program::Reduce::kArgMax:
        detail::fail_without_derivative("argmax", node);
      case program::Reduce::kArgMin:
        detail::fail_without_derivative("argmin", node);
    }
  }

  static std::vector<std::size_t> reduced_axes(const Node& node) {
    std::vector<std::size_t> axes;
    for (std::size_t k = 0; k < node.labels[0].size(); ++k) {
      if (node.labels[0][k] >= static_cast<int>(node.dims.size())) {
        axes.push_back(k);
      }
    }
    return axes;
  }

  // The derivative by an element is the product of the others. If one element is zero, all other derivatives
  // are 0; if several are zero, all derivatives are 0.
  Tensor prod_adjoint(const Node& node) const {
    const Tensor& x = node.args[0];
    const std::vector<std::size_t> axes = reduced_axes(node);
    const Axes reduced(axes.begin(), axes.end());
    const Tensor zero = detail::constant(x.type(), 0);
    const Tensor is_zero = equal(x, zero);
    const Tensor zero_count = detail::keep_axes(sum(cast(is_zero, x.type()), reduced), x.dims(), axes);
    const Tensor rest =
        detail::keep_axes(prod(where(is_zero, detail::constant(x.type(), 1), x), reduced), x.dims(), axes);
    const Tensor at_zero = where(equal(zero_count, 1), rest, zero);
    const Tensor elsewhere = where(equal(zero_count, 0), rest / x, zero);
    return detail::keep_axes(dy_, x.dims(), axes) * where(is_zero, at_zero, elsewhere);
  }

  Tensor extremum_adjoint(const Node& node) const {
    const Tensor& x = node.args[0];
    const std::vector<std::size_t> axes = reduced_axes(node);
    const Tensor is_best = equal(x, detail::keep_axes(y_, x.dims(), axes));
    const Tensor share = dy_ / sum(cast(is_best, x.type()), Axes(axes.begin(), axes.end()));
    return where(is_best, detail::keep_axes(share, x.dims(), axes), detail::constant(x.type(), 0));
  }

  void visit_sum(const Node& node) {
    Dims extents = node.dims;
    extents.insert(extents.end(), node.reduced.begin(), node.reduced.end());
    std::vector<int> of_result(node.dims.size());
    std::iota(of_result.begin(), of_result.end(), 0);
    for (std::size_t i = 0; i < node.args.size(); ++i) {
      if (!needs_gradient(node.args[i])) {
        continue;
      }
      std::vector<Tensor> args = {dy_};
      std::vector<std::vector<int>> labels = {of_result};
      for (std::size_t other = 0; other < node.args.size(); ++other) {
        if (other != i) {
          args.push_back(node.args[other]);
          labels.push_back(node.labels[other]);
        }
      }
      add(node.args[i], detail::contract(std::move(args), std::move(labels), node.labels[i], extents));
    }
  }

  std::vector<const Node*> order_;
  std::unordered_map<const Node*, Tensor> handles_;
  std::unordered_map<const Node*, bool> active_;
  std::unordered_map<const Node*, Tensor> gradients_;
  Tensor dy_;  // of the node being visited
  Tensor y_;
};

}  // namespace

std::vector<Tensor> gradients(const Tensor& loss, std::span<const Tensor> tensors) {
  detail::require(loss, "gradients");
  if (loss.rank() != 0 || !program::is_float(loss.type())) {
    detail::fail("gradients: the loss must be a floating-point scalar, but got " + detail::describe(loss) +
                 " of type " + std::string(program::type_name(loss.type())) +
                 "; reduce it with sum or mean first");
  }
  for (const Tensor& tensor : tensors) {
    detail::require(tensor, "gradients");
    if (!program::is_float(tensor.type())) {
      detail::fail("gradients: " + detail::describe(tensor) + " is " +
                   std::string(program::type_name(tensor.type())) +
                   ", but only floating-point tensors have gradients; cast it first");
    }
  }
  const Reverse reverse(loss, tensors);
  std::vector<Tensor> results;
  results.reserve(tensors.size());
  for (const Tensor& tensor : tensors) {
    results.push_back(reverse.of(tensor));
  }
  return results;
}

std::vector<Tensor> gradients(const Tensor& loss, const std::vector<Tensor>& tensors) {
  return gradients(loss, std::span<const Tensor>(tensors));
}

}  // namespace yoke
