// SPDX-License-Identifier: Apache-2.0
// frontends/tensor/src/loop_gradients.cpp: the gradient of a scan, which is a scan from the last round to the
// first.
//
// Round s of the second loop differentiates round t = rounds - 1 - s of the first loop. The carries of the
// second loop are the gradients of the first loop's carries. The first loop stacks the values of its body
// that the second loop reads. Gradients of values that are the same in all rounds are summed after the second
// loop.
#include <yoke/ops.h>

#include <algorithm>
#include <utility>

#include "loop.h"
#include "reverse.h"

namespace yoke::detail {
namespace {

class LoopGradients {
 public:
  LoopGradients(const std::vector<Tensor>& results, const std::vector<Tensor>& gradients,
                const NodeSet& active)
      : results_(results),
        gradients_(gradients),
        loop_(results[0].node()->loop),
        active_(active),
        last_(static_cast<std::int64_t>(loop_->rounds()) - 1),
        floor_(next_order()) {
    const std::vector<Tensor>& args = results[0].node()->args;
    const auto count = static_cast<std::ptrdiff_t>(loop_->carry_count);
    first_ = {args.begin(), args.begin() + count};
    next_ = {args.begin() + count, args.begin() + 2 * count};
    std::vector<Tensor> roots = next_;
    history_gradients_.resize(next_.size());
    for (std::size_t i = 0; i < results.size(); ++i) {
      if (results[i].node()->kind != Kind::kHistory) {
        roots.push_back(results[i].node()->args.back());
      } else if (Tensor& total = history_gradients_[static_cast<std::size_t>(results[i].node()->axis)];
                 gradients[i]) {
        total = total ? total + gradients[i] : gradients[i];
      }
    }
    body_ = varying_nodes(roots, *loop_, loop_->order);
    in_body_ = {body_.begin(), body_.end()};
    residuals_.emplace(loop_, first_, next_, in_body_);
    for (const Tensor& result : results) {
      residuals_->use(result);
    }
  }

  std::vector<Contribution> run() {
    if (std::none_of(gradients_.begin(), gradients_.end(), [](const Tensor& one) { return bool(one); })) {
      return {};
    }
    spread();
    for (std::size_t k = 0; k < next_.size(); ++k) {
      if (history_gradients_[k] && is_active(k)) {
        reached_.push_back(k);
      }
    }
    while (differentiates_further()) {
    }
    return finish();
  }

 private:
  bool is_active(std::size_t carry) const { return active_.contains(carries_[carry].node().get()); }

  // A carry is active if its first value or its next value is active.
  void spread() {
    carries_.resize(next_.size());
    for (const Node* node : body_) {
      if (node->kind == Kind::kCarry) {
        carries_[static_cast<std::size_t>(node->axis)] = Tensor(node->shared_from_this());
      }
    }
    for (std::size_t k = 0; k < next_.size(); ++k) {
      if (!carries_[k]) {  // the body does not use it
        carries_[k] = carry_node(loop_, k, first_[k].type(), first_[k].dims());
      }
    }
    for (std::size_t count = active_.size() + 1; count != active_.size();) {
      count = active_.size();
      for (std::size_t k = 0; k < next_.size(); ++k) {
        const bool is_float = program::is_float(first_[k].type());
        if (is_float &&
            (active_.contains(first_[k].node().get()) || active_.contains(next_[k].node().get()))) {
          active_.insert(carries_[k].node().get());
        }
      }
      spread_activity(body_, active_);
    }
  }

  // Differentiates the body, given which carries receive gradients from later rounds. Returns true if this
  // shows that other carries receive gradients, too.
  bool differentiates_further() {
    second_ = new_loop(loop_->rounds(), reached_.size());
    body_gradients_.emplace(body_, active_, &in_body_);
    const auto seed = [&](const Tensor& value, const Tensor& gradient) {
      if (active_.contains(value.node().get())) {
        body_gradients_->add(value, gradient);
      }
    };
    for (std::size_t i = 0; i < reached_.size(); ++i) {
      const Tensor& carry = first_[reached_[i]];
      seed(next_[reached_[i]], carry_node(second_, i, carry.type(), carry.dims()));
    }
    for (std::size_t i = 0; i < results_.size(); ++i) {
      const Node& result = *results_[i].node();
      if (result.kind != Kind::kHistory && gradients_[i]) {
        seed(result.args.back(), result.kind == Kind::kSummed ? gradients_[i]
                                 : result.axis == 0           ? reversed(gradients_[i], 0)
                                                              : in_round(gradients_[i]));
      }
    }
    body_gradients_->run();
    const std::size_t before = reached_.size();
    for (std::size_t k = 0; k < carries_.size(); ++k) {
      if (std::find(reached_.begin(), reached_.end(), k) == reached_.end() &&
          body_gradients_->of(carries_[k].node().get())) {
        reached_.push_back(k);
      }
    }
    return reached_.size() != before;
  }

  // source[rounds - 1 - s + offset]
  Tensor reversed(const Tensor& source, std::int64_t offset) const {
    return element_in_round(source, second_->variable, -1, last_ + offset);
  }

  // source[s]
  Tensor in_round(const Tensor& source) const { return element_in_round(source, second_->variable, 1, 0); }

  std::vector<Contribution> finish() {
    std::vector<Tensor> roots;
    for (const std::size_t k : reached_) {
      roots.push_back(body_gradients_->of(carries_[k].node().get()));
    }
    for (const Contribution& one : body_gradients_->outside()) {
      roots.push_back(one.gradient);
    }
    rewrite_all(roots);
    std::vector<Tensor> first;
    std::vector<Tensor> next;
    for (std::size_t i = 0; i < reached_.size(); ++i) {
      const Tensor& history = history_gradients_[reached_[i]];
      const Tensor& carry = first_[reached_[i]];
      const Tensor zero = zeros(carry.type(), carry.dims());
      first.push_back(history ? element_in_round(history, second_->variable, 0, last_ + 1) : zero);
      Tensor total = roots[i] ? rewritten(roots[i]) : Tensor();
      if (history) {
        total = total ? total + reversed(history, 0) : reversed(history, 0);
      }
      next.push_back(total ? total : zero);
    }
    for (Tensor& root : roots) {
      root = root ? rewritten(root) : root;
    }
    std::vector<Tensor> all = next;
    all.insert(all.end(), roots.begin(), roots.end());
    const auto varying = varying_nodes(all, *second_, floor_);
    Results results(second_, first, next, {varying.begin(), varying.end()}, Order::kReversed);
    std::vector<Contribution> contributions;
    for (std::size_t i = 0; i < reached_.size(); ++i) {
      if (active_.contains(first_[reached_[i]].node().get())) {
        contributions.push_back({first_[reached_[i]], results.last(i)});
      }
    }
    for (std::size_t i = 0; i < body_gradients_->outside().size(); ++i) {
      const Tensor& to = body_gradients_->outside()[i].to;
      const Tensor& gradient = roots[reached_.size() + i];
      if (!in_body_.contains(to.node().get())) {
        contributions.push_back({to, results.sum_of_rounds(gradient)});
        continue;
      }
      // Each round selects a slice of a tensor with the variable. All these slices together are also a view.
      Dims dims = to.dims();
      dims.insert(dims.begin(), loop_->rounds());
      const auto parts = new_node(Kind::kView, to.type(), std::move(dims));
      parts->args = to.node()->args;
      parts->view = view_over_rounds(*to.node(), *loop_);
      parts->is_filled = to.node()->is_filled;
      contributions.push_back(
          {parts->args[0], view_adjoint(*parts, flip(results.after_loop(gradient), {0}))});
    }
    return contributions;
  }

  // The nodes of the gradients read values of round t of the first loop. This creates nodes of the second
  // loop that replace them.
  void rewrite_all(const std::vector<Tensor>& roots) {
    for (const Node* node : varying_nodes(roots, *loop_, floor_, in_body_)) {
      std::vector<Tensor> args;
      for (const Tensor& arg : node->args) {
        args.push_back(rewritten(arg));
      }
      rewritten_[node] = copied(*node, std::move(args));
    }
  }

  // Not recursive: a long chain of views would overflow the stack.
  Tensor rewritten(const Tensor& x) {
    const auto is_open = [&](const Tensor& one) {
      return in_body_.contains(one.node().get()) && !rewritten_.contains(one.node().get());
    };
    for (std::vector<Tensor> open = {x}; !open.empty();) {
      const Tensor last = open.back();
      const std::size_t before = open.size();
      if (is_open(last) && is_computed_again(last)) {
        std::copy_if(last.node()->args.begin(), last.node()->args.end(), std::back_inserter(open), is_open);
      }
      if (open.size() == before) {
        if (is_open(last)) {
          rewritten_[last.node().get()] = residual(last);
        }
        open.pop_back();
      }
    }
    const auto found = rewritten_.find(x.node().get());
    return found != rewritten_.end() ? found->second : x;
  }

  std::optional<std::size_t> carry_after(const Tensor& x) const {
    const auto found = std::find_if(next_.begin(), next_.end(), [&](const Tensor& one) { return one.is(x); });
    return found == next_.end() ? std::nullopt
                                : std::optional(static_cast<std::size_t>(found - next_.begin()));
  }

  // Whether the second loop computes the value again. A value of rank 8 cannot be stacked.
  bool is_computed_again(const Tensor& x) const {
    const Node& node = *x.node();
    const bool is_cast = node.kind == Kind::kMap && node.op == program::Op::kCast;
    return !carry_after(x) &&
           (is_cast || node.kind == Kind::kSymbol || node.kind == Kind::kView || node.kind == Kind::kStop ||
            node.kind == Kind::kRoll || node.kind == Kind::kReshape ||
            (node.dims.size() == 8 && node.kind != Kind::kResult));
  }

  // The value of a node of the first loop's body in round t.
  Tensor residual(const Tensor& x) {
    const Node& node = *x.node();
    if (const auto carry = carry_after(x)) {
      return reversed(residuals_->history(*carry), 1);
    }
    if (is_computed_again(x)) {
      std::vector<Tensor> args;
      for (const Tensor& arg : node.args) {
        args.push_back(rewritten(arg));
      }
      return copied(node, std::move(args));
    }
    return node.kind == Kind::kCarry ? reversed(residuals_->history(static_cast<std::size_t>(node.axis)), 0)
                                     : reversed(residuals_->over_rounds(x), 0);
  }

  Tensor copied(const Node& node, std::vector<Tensor> args) const {
    if (node.kind == Kind::kView) {
      const InComposite same(node.composite);
      std::vector<ViewIndex> indices;
      for (const ViewIndex& index : node.view) {
        indices.push_back(with_variable(index, loop_->variable, second_->variable, -1, last_));
      }
      return view_node(args[0], node.dims, std::move(indices), node.literal);
    }
    if (node.kind == Kind::kSymbol) {
      return constant_integer(Type::kI64, last_) - symbol_value(second_->variable);
    }
    auto copy = std::make_shared<Node>(node);
    copy->order = next_order();
    copy->args = std::move(args);
    return detail::finish(std::move(copy));
  }

  const std::vector<Tensor>& results_;
  const std::vector<Tensor>& gradients_;
  std::shared_ptr<const Loop> loop_;
  NodeSet active_;
  std::int64_t last_;    // the last round
  std::uint64_t floor_;  // this object created the nodes whose order is not below this
  std::vector<Tensor> first_;
  std::vector<Tensor> next_;
  std::vector<Tensor> carries_;
  std::vector<Tensor> history_gradients_;  // per carry
  std::vector<const Node*> body_;
  NodeSet in_body_;
  std::optional<Results> residuals_;
  // The carries that receive gradients from later rounds. These gradients are the second loop's carries.
  std::vector<std::size_t> reached_;
  std::shared_ptr<const Loop> second_;
  std::optional<Reverse> body_gradients_;
  std::unordered_map<const Node*, Tensor> rewritten_;
};

}  // namespace

std::vector<Contribution> loop_gradients(const std::vector<Tensor>& results,
                                         const std::vector<Tensor>& gradients, const NodeSet& active) {
  return LoopGradients(results, gradients, active).run();
}

}  // namespace yoke::detail
