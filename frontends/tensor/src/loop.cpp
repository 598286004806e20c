// SPDX-License-Identifier: Apache-2.0
// frontends/tensor/src/loop.cpp: the body and the results of a scan.
#include "loop.h"

#include <yoke/ops.h>

#include <algorithm>
#include <numeric>
#include <utility>

namespace yoke::detail {

std::shared_ptr<const Loop> new_loop(std::uint64_t rounds, std::size_t carry_count) {
  const std::uint64_t order = next_order();
  const Symbol variable{std::string(kVariablePrefix) + std::to_string(order), 0,
                        static_cast<std::int64_t>(rounds), 1};
  return std::make_shared<const Loop>(Loop{variable, order, carry_count});
}

Tensor carry_node(const std::shared_ptr<const Loop>& loop, std::size_t number, Type type, const Dims& dims) {
  auto node = new_node(Kind::kCarry, type, dims);
  node->loop = loop;
  node->axis = static_cast<int>(number);
  return finish(std::move(node));
}

Tensor element_in_round(const Tensor& source, const Symbol& variable, std::int64_t scale,
                        std::int64_t offset) {
  std::vector<ViewIndex> indices = same_axes(source.rank() - 1);
  ViewIndex first;
  first.constant = offset;
  if (scale != 0) {
    first.symbols.push_back({variable, scale});
  }
  indices.insert(indices.begin(), std::move(first));
  return view_node(source, {source.dims().begin() + 1, source.dims().end()}, std::move(indices));
}

std::vector<const Node*> varying_nodes(std::span<const Tensor> roots, const Loop& loop, std::uint64_t floor,
                                       const NodeSet& known) {
  std::vector<const Node*> varying;
  NodeSet found = known;
  const auto has_variable = [&](const Node& node) {
    return (node.kind == Kind::kCarry && node.loop.get() == &loop) ||
           (node.symbol && *node.symbol == loop.variable) ||
           std::any_of(node.view.begin(), node.view.end(), [&](const ViewIndex& index) {
             return std::any_of(index.symbols.begin(), index.symbols.end(),
                                [&](const auto& term) { return term.symbol == loop.variable; });
           });
  };
  for (const Node* node : topological(roots, floor)) {
    const bool varies = has_variable(*node) ||
                        std::any_of(node->args.begin(), node->args.end(),
                                    [&](const Tensor& arg) { return found.contains(arg.node().get()); });
    if (varies && !known.contains(node) && !(is_loop_result(*node) && node->loop.get() == &loop)) {
      found.insert(node);
      varying.push_back(node);
    }
  }
  return varying;
}

ViewIndex with_variable(ViewIndex index, const Symbol& variable, const Symbol& by, std::int64_t scale,
                        std::int64_t offset) {
  for (auto& term : index.symbols) {
    if (term.symbol == variable) {
      index.constant += term.coefficient * offset;
      term = {by, term.coefficient * scale};
    }
  }
  return index;
}

std::vector<ViewIndex> view_over_rounds(const Node& view, const Loop& loop) {
  std::vector<ViewIndex> indices;
  for (ViewIndex index : view.view) {
    for (auto& term : index.terms) {
      ++term.axis;
    }
    for (const auto& [symbol, coefficient] : index.symbols) {
      if (symbol == loop.variable) {
        index.terms.push_back({0, coefficient});
      }
    }
    std::erase_if(index.symbols, [&](const auto& term) { return term.symbol == loop.variable; });
    indices.push_back(std::move(index));
  }
  return indices;
}

double elements_in_all_rounds(const Dims& dims, const Loop& loop) {
  return static_cast<double>(element_count(dims)) * static_cast<double>(loop.rounds());
}

double movable_elements(const NodeSet& body, std::span<const Tensor> returned, const Loop& loop) {
  constexpr double kMultiple = 4;  // the gates of an LSTM
  double total = 0;
  for (const Tensor& one : returned) {
    total += elements_in_all_rounds(one.dims(), loop);
  }
  std::unordered_map<const Node*, double> unread;
  for (const Node* node : body) {
    if (node->kind == Kind::kView && !body.contains(node->args[0].node().get())) {
      const Tensor& source = node->args[0];
      const auto left = unread.try_emplace(source.node().get(), static_cast<double>(source.element_count()));
      const double count = std::min(left.first->second, elements_in_all_rounds(node->dims, loop));
      left.first->second -= count;
      total += count;
    }
  }
  return kMultiple * total;
}

Results::Results(std::shared_ptr<const Loop> loop, std::vector<Tensor> first, std::vector<Tensor> next,
                 NodeSet varying, Order order)
    : loop_(std::move(loop)), order_(order), args_(std::move(first)), varying_(std::move(varying)) {
  args_.insert(args_.end(), next.begin(), next.end());
  for (const Node* node : varying_) {
    for (const Tensor& arg : node->args) {
      used_.insert(arg.node().get());
    }
  }
  limit_ = movable_elements(varying_, next, *loop_);
}

void Results::use(const Tensor& result) {
  const Node& node = *result.node();
  if (node.kind == Kind::kHistory) {
    histories_[static_cast<std::size_t>(node.axis)] = result;
  } else if (node.kind == Kind::kStacked) {
    stacked_[node.args.back().node().get()] = node.axis == 0 ? result : flip(result, {0});
  }
}

Tensor Results::result(Kind kind, const Tensor& value, Dims dims, std::size_t axis) const {
  auto node = new_node(kind, value.type(), std::move(dims));
  node->args = args_;
  if (kind != Kind::kHistory) {
    node->args.push_back(value);
  }
  node->loop = loop_;
  node->axis = static_cast<int>(axis);
  return finish(std::move(node));
}

Tensor Results::history(std::size_t carry) {
  Tensor& known = histories_[carry];
  if (!known) {
    Dims dims = args_[carry].dims();
    dims.insert(dims.begin(), loop_->rounds() + 1);
    known = result(Kind::kHistory, args_[carry], std::move(dims), carry);
  }
  return known;
}

Tensor Results::last(std::size_t carry) {
  return element_in_round(history(carry), loop_->variable, 0, static_cast<std::int64_t>(loop_->rounds()));
}

std::optional<std::size_t> Results::carry_after(const Tensor& x) const {
  for (std::size_t k = 0; k < loop_->carry_count; ++k) {
    if (args_[loop_->carry_count + k].is(x)) {
      return k;
    }
  }
  return std::nullopt;
}

// Whether over_rounds(x) needs no memory besides that of existing results.
bool Results::is_stored(const Tensor& x) const {
  return !varies(x) || x.node()->kind == Kind::kCarry || carry_after(x) ||
         stacked_.contains(x.node().get()) || x.node()->kind == Kind::kView;
}

Tensor Results::over_rounds(const Tensor& x) {
  std::vector<const Node*> views;  // each is a view of the next; the last is a view of `base`
  Tensor base = x;
  while (varies(base) && !carry_after(base) && base.node()->kind == Kind::kView &&
         (is_stored(base.node()->args[0]) || base.element_count() >= base.node()->args[0].element_count())) {
    views.push_back(base.node().get());
    base = Tensor(views.back()->args[0]);
  }
  Tensor all = varies(base) || views.empty() ? stored_over_rounds(base) : base;
  for (auto view = views.rbegin(); view != views.rend(); ++view) {
    std::vector<ViewIndex> indices = view_over_rounds(**view, *loop_);
    if (varies((*view)->args[0])) {
      indices.insert(indices.begin(), ViewIndex::of_axis(0));
    }
    Dims dims = (*view)->dims;
    dims.insert(dims.begin(), loop_->rounds());
    all = view_node(all, std::move(dims), std::move(indices), (*view)->literal);
  }
  return all;
}

Tensor Results::stored_over_rounds(const Tensor& x) {
  const Node& node = *x.node();
  Dims dims = x.dims();
  dims.insert(dims.begin(), loop_->rounds());
  if (!varies(x)) {
    std::vector<int> axes(x.rank());
    std::iota(axes.begin(), axes.end(), 1);
    return permute_node(x, std::move(dims), axes);
  }
  if (const auto carry = carry_after(x)) {
    return slice(history(*carry), 0, 1, loop_->rounds() + 1);
  }
  if (node.kind == Kind::kCarry) {
    return slice(history(static_cast<std::size_t>(node.axis)), 0, 0, loop_->rounds());
  }
  Tensor& known = stacked_[&node];
  if (!known) {
    known = in_order(result(Kind::kStacked, x, std::move(dims), order_ == Order::kReversed ? 1 : 0));
  }
  return known;
}

Tensor product_over_rounds(const Node& node, std::vector<Tensor> args, const Loop& loop,
                           const NodeSet& varying, bool is_summed) {
  Dims extents = node.dims;
  extents.insert(extents.end(), node.reduced.begin(), node.reduced.end());
  const int round = static_cast<int>(extents.size());
  extents.push_back(loop.rounds());
  std::vector<std::vector<int>> labels = node.labels;
  for (std::size_t i = 0; i < args.size(); ++i) {
    if (varying.contains(node.args[i].node().get())) {
      labels[i].insert(labels[i].begin(), round);
    }
  }
  std::vector<int> out(node.dims.size());
  std::iota(out.begin(), out.end(), 0);
  if (!is_summed) {
    out.insert(out.begin(), round);
  }
  return contract(std::move(args), std::move(labels), out, extents);
}

Tensor Results::product(const Node& node, bool is_summed) {
  std::vector<Tensor> args;
  for (const Tensor& arg : node.args) {
    args.push_back(varies(arg) ? in_order(over_rounds(arg)) : arg);
  }
  const Tensor all = product_over_rounds(node, std::move(args), *loop_, varying_, is_summed);
  return is_summed ? all : in_order(all);
}

// Whether over_rounds() of the arguments is not too large to be stored.
bool Results::may_store_operands(const Node& node, double more) const {
  return std::all_of(node.args.begin(), node.args.end(), [&](const Tensor& arg) {
    const Tensor* base = &arg;
    while (varies(*base) && base->node()->kind == Kind::kView) {
      base = &base->node()->args[0];
    }
    const double count =
        std::min(elements_in_all_rounds(arg.dims(), *loop_), elements_in_all_rounds(base->dims(), *loop_));
    return !varies(arg) || (arg.rank() < 8 && (is_stored(*base) || count <= limit_ + more));
  });
}

Tensor Results::after_loop(const Tensor& x) {
  const Node& node = *x.node();
  const bool is_product =
      node.kind == Kind::kReduce && node.reduce == program::Reduce::kSum && node.args.size() > 1;
  return varies(x) && is_product && !used_.contains(&node) && !carry_after(x) &&
                 may_store_operands(node, movable_elements({}, {&x, 1}, *loop_))
             ? product(node, false)
             : over_rounds(x);
}

// Whether the sum of the node over the rounds is the node applied to the sum of its first argument.
bool Results::is_linear(const Node& node) const {
  switch (node.kind) {
    case Kind::kView:
      return program::same(node.type, node.literal, {}) &&
             std::all_of(node.view.begin(), node.view.end(), [&](const ViewIndex& index) {
               return index == with_variable(index, loop_->variable, loop_->variable, 0, 0);
             });
    case Kind::kReshape:
      return true;
    case Kind::kMap:
      return node.op == program::Op::kNeg ||
             (node.op == program::Op::kMul && node.args[0].dims() == node.dims &&
              constant_of(node.args[1]) != nullptr);
    default:
      return false;
  }
}

Tensor Results::sum_of_rounds(const Tensor& x) {
  std::vector<const Node*> linear;
  const Tensor* inner = &x;
  while (varies(*inner) && is_linear(*inner->node())) {
    linear.push_back(inner->node().get());
    inner = &inner->node()->args[0];
  }
  Tensor total = sum_of_terms(*inner);
  for (auto node = linear.rbegin(); node != linear.rend(); ++node) {
    switch ((*node)->kind) {
      case Kind::kView:
        total = view_node(total, (*node)->dims, (*node)->view);
        break;
      case Kind::kReshape:
        total = reshape(total, (*node)->dims);
        break;
      default:
        total = (*node)->op == program::Op::kNeg ? -total : total * (*node)->args[1];
    }
  }
  return total;
}

Tensor Results::sum_of_terms(const Tensor& x) {
  const Node& node = *x.node();
  if (!varies(x)) {
    return x * constant(x.type(), static_cast<double>(loop_->rounds()));
  }
  if (node.kind == Kind::kReduce && node.reduce == program::Reduce::kSum && may_store_operands(node)) {
    return product(node, true);
  }
  if (node.kind == Kind::kScatter && node.axis < 0 && node.args[1].rank() < 8) {
    return scatter_node(in_order(over_rounds(node.args[0])), in_order(over_rounds(node.args[1])), node.dims,
                        -1);
  }
  return result(Kind::kSummed, x, node.dims, 0);
}

}  // namespace yoke::detail
