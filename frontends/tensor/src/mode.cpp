// SPDX-License-Identifier: Apache-2.0
// frontends/tensor/src/mode.cpp: chooses between what a graph is in training and in evaluation.
#include <yoke/mode.h>
#include <yoke/ops.h>

#include <algorithm>
#include <unordered_set>

#include "rewrite.h"

namespace yoke {

using detail::fail;
using detail::Kind;
using detail::Node;

namespace {

std::string type_text(const Tensor& x) {
  return std::string(program::type_name(x.type())) + " " + dims_text(x.dims());
}

const Tensor& chosen(const Node& node, Mode mode) {
  return node.args[node.kind == Kind::kByMode && mode == Mode::kEval ? 1 : 0];
}

bool is_choice(const Node& node) {
  return node.kind == Kind::kByMode || node.kind == Kind::kReport;
}

// The nodes that the roots depend on in this mode, including the reported values.
std::unordered_set<const Node*> nodes_in(std::span<const Tensor> roots, Mode mode) {
  std::unordered_set<const Node*> found;
  std::vector<const Node*> stack;
  const auto visit = [&](const Tensor& x) {
    if (x && found.insert(x.node().get()).second) {
      stack.push_back(x.node().get());
    }
  };
  std::for_each(roots.begin(), roots.end(), visit);
  while (!stack.empty()) {
    const Node* node = stack.back();
    stack.pop_back();
    if (node->kind == Kind::kByMode || (node->kind == Kind::kReport && mode == Mode::kEval)) {
      visit(chosen(*node, mode));
    } else {
      std::for_each(node->args.begin(), node->args.end(), visit);
    }
  }
  return found;
}

}  // namespace

void detail::require_mode(const Node& node, const char* call) {
  if (is_choice(node)) {
    fail(std::string(call) +
         ": the expression has layers that differ between training and evaluation, such as dropout; choose "
         "with in_mode(x, Mode::kTrain) or in_mode(x, Mode::kEval) first");
  }
}

Tensor by_mode(const Tensor& train, const Tensor& eval) {
  detail::require(eval, "by_mode");
  if (train.is(eval)) {
    return train;
  }
  if (train && (train.type() != eval.type() || train.dims() != eval.dims())) {
    fail("by_mode: " + detail::describe(train) + " is " + type_text(train) + " in training, but " +
         type_text(eval) + " in evaluation; make them equal in shape and type");
  }
  auto node = detail::new_node(Kind::kByMode, eval.type(), eval.dims());
  node->args = {train, eval};
  return detail::finish(std::move(node));
}

Tensor report_state(const Tensor& x, const Parameter& state, const Tensor& next) {
  detail::require(x, "report_state");
  detail::require(next, "report_state");
  if (!state || !state.is_state()) {
    fail("report_state: " + (state ? "'" + state.name() + "'" : std::string("the parameter")) +
         " is not running state; create it with Parameter::state");
  }
  if (next.type() != state.type() || next.dims() != state.dims()) {
    fail("report_state: the next value of '" + state.name() + "' is " + type_text(next) +
         ", but the state is " + type_text(state.tensor()));
  }
  auto node = detail::new_node(Kind::kReport, x.type(), x.dims());
  node->args = {x, state.tensor(), next};
  return detail::finish(std::move(node));
}

InMode in_mode(std::span<const Tensor> values, Mode mode) {
  const std::unordered_set<const Node*> used = nodes_in(values, mode);
  InMode result{{values.begin(), values.end()}, {}};
  if (std::none_of(used.begin(), used.end(), [](const Node* node) { return is_choice(*node); })) {
    return result;
  }
  std::vector<double> reports;  // per update
  // Visits nodes of the other mode, too: both modes then have the same order.
  result.values = detail::rewrite(values, [&](const Node& node, const std::vector<Tensor>& args) {
    if (!used.contains(&node)) {
      return Tensor(node.shared_from_this());
    }
    if (!is_choice(node)) {
      return Tensor();
    }
    if (!chosen(node, mode)) {
      fail("a value of shape " + dims_text(node.dims) +
           " exists in evaluation only, such as a batch normalization of one value per channel; train with "
           "more rows per shard and micro-batch");
    }
    if (node.kind == Kind::kReport && mode == Mode::kTrain) {
      const auto known = std::find_if(result.updates.begin(), result.updates.end(),
                                      [&](const Update& u) { return u.leaf.is(node.args[1]); });
      const auto i = static_cast<std::size_t>(known - result.updates.begin());
      if (known == result.updates.end()) {
        result.updates.push_back({node.args[1], args[2]});
        reports.push_back(1);
      } else {
        known->value = known->value + args[2];
        reports[i] += 1;
      }
    }
    return args[node.kind == Kind::kByMode && mode == Mode::kEval ? 1 : 0];
  });
  for (std::size_t i = 0; i < reports.size(); ++i) {
    if (reports[i] > 1) {
      result.updates[i].value = result.updates[i].value * (1 / reports[i]);
    }
  }
  return result;
}

Tensor in_mode(const Tensor& value, Mode mode) {
  return in_mode(std::span<const Tensor>(&value, 1), mode).values[0];
}

}  // namespace yoke
