// SPDX-License-Identifier: Apache-2.0
// frontends/tensor/src/gradients.cpp: reverse-mode differentiation, with one rule per operation.
#include <yoke/gradients.h>
#include <yoke/ops.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <unordered_map>
#include <utility>

#include "composite.h"
#include "reverse.h"

namespace yoke {
namespace detail {
namespace {

std::vector<std::size_t> reduced_axes(const Node& node) {
  std::vector<std::size_t> axes;
  for (std::size_t k = 0; k < node.labels[0].size(); ++k) {
    if (node.labels[0][k] >= static_cast<int>(node.dims.size())) {
      axes.push_back(k);
    }
  }
  return axes;
}

}  // namespace

void spread_activity(const std::vector<const Node*>& order, NodeSet& active) {
  for (const Node* node : order) {
    if (program::is_float(node->type) && node->kind != Kind::kStop &&
        std::any_of(node->args.begin(), node->args.end(),
                    [&](const Tensor& arg) { return active.contains(arg.node().get()); })) {
      active.insert(node);
    }
  }
}

bool Reverse::needs_gradient(const Tensor& arg) const {
  return active_.contains(arg.node().get()) && program::is_float(arg.type());
}

void Reverse::add(const Tensor& arg, const Tensor& gradient) {
  Tensor fitted = gradient;
  if (gradient.dims() != arg.dims()) {
    fitted = sum_to(gradient.rank() < arg.rank() ? broadcast_to(gradient, arg.dims()) : gradient, arg.dims());
  }
  if (body_ != nullptr && !body_->contains(arg.node().get())) {
    outside_.push_back({arg, fitted});
    return;
  }
  Tensor& total = gradients_[arg.node().get()];
  total = total ? total + fitted : fitted;
}

Tensor Reverse::of(const Node* node) const {
  const auto found = gradients_.find(node);
  return found == gradients_.end() ? Tensor() : found->second;
}

void Reverse::run() {
  // The results of one loop or of one call of composite().
  std::map<std::pair<const void*, const void*>, std::vector<const Node*>> results;
  const auto has_results = [](const Node& node) {
    return is_loop_result(node) || node.kind == Kind::kResult;
  };
  const auto key = [](const Node& node) {
    return node.kind == Kind::kResult
               ? std::pair<const void*, const void*>(node.composite.get(), node.args[0].node().get())
               : std::pair<const void*, const void*>(node.loop.get(), nullptr);
  };
  for (const Node* node : order_) {
    if (has_results(*node)) {
      results[key(*node)].push_back(node);
    }
  }
  for (auto node = order_.rbegin(); node != order_.rend(); ++node) {
    if (has_results(**node)) {
      // When the walk reaches the first result, the gradients of all results are known.
      if (const auto& all = results.at(key(**node)); all.front() == *node) {
        visit_results(all);
      }
      continue;
    }
    dy_ = of(*node);
    if (dy_ && !(*node)->args.empty()) {
      y_ = Tensor((*node)->shared_from_this());
      visit(**node);
    }
  }
}

template <class Rule>
void Reverse::pass(const Tensor& arg, const Rule& rule) {
  if (needs_gradient(arg)) {
    add(arg, rule());
  }
}

// Every kind has a rule here or is an error.
void Reverse::visit(const Node& node) {
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
      visit_view(node);
      return;
    case Kind::kRoll:
      pass(node.args[0], [&] { return roll(dy_, -node.literal.integer, node.axis); });
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
    case Kind::kResult:
    case Kind::kHistory:
    case Kind::kStacked:
    case Kind::kSummed:
      break;            // run() handles them
    case Kind::kEntry:  // its gradient is that of the composite's input
    case Kind::kStop:
    case Kind::kByMode:  // gradients() refuses them
    case Kind::kReport:
    case Kind::kPlaceholder:
    case Kind::kLiteral:
    case Kind::kParameter:
    case Kind::kScalar:
    case Kind::kConstant:
    case Kind::kSymbol:
    case Kind::kIota:
    case Kind::kRandom:
    case Kind::kCarry:
      return;  // no operands that need gradients
  }
  fail("gradients: an operation has no derivative");
}

void Reverse::visit_map(const Node& node) {
  std::vector<bool> needed;
  for (const Tensor& arg : node.args) {
    needed.push_back(needs_gradient(arg));
  }
  const std::vector<Tensor> gradients = map_gradients(node, y_, dy_, needed);
  for (std::size_t i = 0; i < gradients.size(); ++i) {
    if (gradients[i]) {
      add(node.args[i], gradients[i]);
    }
  }
}

Tensor Reverse::gather_adjoint(const Node& node) const {
  const Tensor& x = node.args[0];
  const Tensor& ids = node.args[1];
  if (node.axis < 0 || ids.dims()[static_cast<std::size_t>(node.axis)] != 1) {
    return scatter_node(ids, dy_, x.dims(), node.axis);
  }
  // With one index along the axis, a comparison with this index decides for each element of x by itself.
  return where(equal(iota(x.dims(), node.axis), cast(ids, Type::kI64)), dy_, constant(x.type(), 0));
}

void Reverse::visit_concat(const Node& node) {
  std::uint64_t begin = 0;
  for (const Tensor& part : node.args) {
    const std::uint64_t end = begin + part.dims()[static_cast<std::size_t>(node.axis)];
    if (needs_gradient(part)) {
      add(part, slice(dy_, node.axis, begin, end));
    }
    begin = end;
  }
}

void Reverse::visit_reduce(const Node& node) {
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
      fail_without_derivative("any", node);
    case program::Reduce::kAll:
      fail_without_derivative("all", node);
    case program::Reduce::kArgMax:
      fail_without_derivative("argmax", node);
    case program::Reduce::kArgMin:
      fail_without_derivative("argmin", node);
  }
}

// The derivative by an element is the product of all elements before it and all elements after it. These
// products are computed in steps of doubling length and without a division, so that they can be
// differentiated again where elements are 0.
Tensor Reverse::prod_adjoint(const Node& node) const {
  const Tensor& x = node.args[0];
  const std::vector<std::size_t> axes = reduced_axes(node);
  Axes order;
  Dims joined;
  for (std::size_t k = 0; k < x.rank(); ++k) {
    if (std::find(axes.begin(), axes.end(), k) == axes.end()) {
      order.push_back(static_cast<int>(k));
      joined.push_back(x.dims()[k]);
    }
  }
  order.insert(order.end(), axes.begin(), axes.end());
  const Tensor last = permute(x, order);  // the reduced axes come last
  joined.push_back(x.element_count() / element_count(joined));
  const Tensor row = reshape(last, joined);
  const auto product_beside = [&](std::int64_t direction) {
    const auto moved = [&](const Tensor& of, std::int64_t distance) {
      std::vector<ViewIndex> indices = same_axes(joined.size());
      indices.back().constant = -direction * distance;
      return view_node(of, joined, std::move(indices), full(x.type(), {}, 1).node()->literal);
    };
    Tensor product = moved(row, 1);
    for (std::int64_t length = 1; length < static_cast<std::int64_t>(joined.back()); length *= 2) {
      product = product * moved(product, length);
    }
    return product;
  };
  Axes back(order.size());
  for (std::size_t k = 0; k < order.size(); ++k) {
    back[static_cast<std::size_t>(order[k])] = static_cast<int>(k);
  }
  const Tensor others = permute(reshape(product_beside(1) * product_beside(-1), last.dims()), back);
  return keep_axes(dy_, x.dims(), axes) * others;
}

Tensor Reverse::extremum_adjoint(const Node& node) const {
  const Tensor& x = node.args[0];
  const std::vector<std::size_t> axes = reduced_axes(node);
  const Tensor is_best = equal(x, keep_axes(y_, x.dims(), axes));
  const Tensor share = dy_ / sum(cast(is_best, x.type()), Axes(axes.begin(), axes.end()));
  return where(is_best, keep_axes(share, x.dims(), axes), constant(x.type(), 0));
}

void Reverse::visit_sum(const Node& node) {
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
    add(node.args[i], contract(std::move(args), std::move(labels), node.labels[i], extents));
  }
}

void Reverse::visit_view(const Node& node) {
  const Tensor& source = node.args[0];
  const bool is_outside = body_ != nullptr && !body_->contains(source.node().get());
  if (is_outside && needs_gradient(source) && node.dims.size() < 8) {  // all rounds need one more axis
    outside_.push_back({y_, dy_});
  } else {
    pass(source, [&] { return view_adjoint(node, dy_); });
  }
}

void Reverse::visit_results(const std::vector<const Node*>& results) {
  std::vector<Tensor> tensors;
  std::vector<Tensor> gradients;
  for (const Node* node : results) {
    tensors.emplace_back(node->shared_from_this());
    gradients.push_back(of(node));
  }
  const bool is_loop = is_loop_result(*results.front());
  for (const Contribution& one : is_loop ? loop_gradients(tensors, gradients, active_)
                                         : composite_gradients(tensors, gradients, active_)) {
    add(one.to, one.gradient);
  }
}

}  // namespace detail

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
  detail::NodeSet active;
  for (const Tensor& tensor : tensors) {
    active.insert(tensor.node().get());
  }
  std::vector<const detail::Node*> order = detail::topological(std::span(&loss, 1));
  for (const detail::Node* node : order) {
    detail::require_mode(*node, "gradients");
  }
  detail::spread_activity(order, active);
  detail::Reverse reverse(std::move(order), std::move(active));
  reverse.add(loss, detail::constant(loss.type(), 1));
  reverse.run();
  std::vector<Tensor> results;
  results.reserve(tensors.size());
  for (const Tensor& tensor : tensors) {
    const Tensor gradient = reverse.of(tensor.node().get());
    results.push_back(gradient ? gradient : zeros(tensor.type(), tensor.dims()));
  }
  return results;
}

std::vector<Tensor> gradients(const Tensor& loss, const std::vector<Tensor>& tensors) {
  return gradients(loss, std::span<const Tensor>(tensors));
}

}  // namespace yoke
