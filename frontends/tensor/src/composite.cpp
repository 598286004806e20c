// SPDX-License-Identifier: Apache-2.0
// frontends/tensor/src/composite.cpp: traces composites, and differentiates them.
//
// kEntry and kResult nodes separate the body from other nodes: views are not composed across them, and
// products do not move out of a loop. The body thus stays as it was traced.
#include "composite.h"

#include <yoke/composite.h>
#include <yoke/ops.h>
#include <yoke/program/text.h>

#include <algorithm>
#include <utility>

#include "reverse.h"

namespace yoke {
namespace detail {
namespace {

using Tensors = std::vector<Tensor>;
using Body = std::function<Tensors(const Tensors& inputs)>;

bool is_within(const Node& node, const Composite& composite) {
  const Composite* one = composite_of(node);
  while (one != nullptr && one != &composite) {
    one = one->parent.get();
  }
  return one != nullptr;
}

bool is_entry_of(const Node& node, const Composite& composite) {
  return node.kind == Kind::kEntry && node.composite.get() == &composite;
}

// The nodes of the body that the values depend on, arguments before users.
std::vector<const Node*> body_of(const Composite& composite, const Tensors& values) {
  return topological(values, [&](const Node& node) { return is_within(node, composite); });
}

// The outputs of a composite with this body. Drops empty outputs that `body` returns.
Tensors traced(const std::shared_ptr<Composite>& own, const Tensors& inputs, const Body& body) {
  Tensors args;
  {
    const InComposite tracing(own);
    Tensors entries;
    for (const Tensor& input : inputs) {
      auto entry = new_node(Kind::kEntry, input.type(), input.dims());
      entry->axis = static_cast<int>(entries.size());
      entry->args = {input};
      entries.push_back(finish(std::move(entry)));
    }
    args = body(entries);
  }
  std::erase_if(args, [](const Tensor& one) { return !one; });
  own->output_count = args.size();
  for (const Node* node : body_of(*own, args)) {
    if (is_loop_result(*node)) {
      fail("composite '" + own->name +
           "': forward or backward uses a scan; call the composite in the scan's body instead, or "
           "unroll the scan with a C++ loop");
    }
  }
  args.insert(args.end(), inputs.begin(), inputs.end());
  Tensors outputs;
  for (std::size_t k = 0; k < own->output_count; ++k) {
    auto result = new_node(Kind::kResult, args[k].type(), args[k].dims());
    result->axis = static_cast<int>(k);
    result->args = args;
    result->composite = own;
    outputs.push_back(finish(std::move(result)));
  }
  return outputs;
}

// The gradient of one call of a composite is a call of another composite.
class CompositeGradients {
 public:
  CompositeGradients(const Tensors& outputs, const Tensors& gradients, const NodeSet& active)
      : own_(outputs[0].node()->composite) {
    const Node& first = *outputs[0].node();
    const auto count = static_cast<std::ptrdiff_t>(own_->output_count);
    returned_ = {first.args.begin(), first.args.begin() + count};
    inputs_ = {first.args.begin() + count, first.args.end()};
    for (int k = 0; k < static_cast<int>(count); ++k) {
      auto result = std::make_shared<Node>(first);
      result->axis = k;
      result->type = returned_[static_cast<std::size_t>(k)].type();
      result->dims = returned_[static_cast<std::size_t>(k)].dims();
      outputs_.push_back(finish(std::move(result)));
    }
    gradients_.resize(outputs_.size());
    for (std::size_t i = 0; i < outputs.size(); ++i) {
      const auto k = static_cast<std::size_t>(outputs[i].node()->axis);
      outputs_[k] = outputs[i];
      if (gradients[i]) {
        gradients_[k] = gradients_[k] ? gradients_[k] + gradients[i] : gradients[i];
      }
    }
    for (const Tensor& input : inputs_) {
      needed_.push_back(active.contains(input.node().get()));
    }
    refuse_captured(active);
  }

  std::vector<Contribution> run() {
    if (std::none_of(gradients_.begin(), gradients_.end(), [](const Tensor& one) { return bool(one); })) {
      return {};
    }
    if (const std::string name = own_->name + "_gradient"; program::name_fault(name).empty()) {
      back_ = std::make_shared<Composite>(Composite{name, {}, current_composite()});
    } else {
      fail("gradients: the name of the composite '" + own_->name + "' is too long to be differentiated");
    }
    Tensors inputs = inputs_;
    inputs.insert(inputs.end(), outputs_.begin(), outputs_.end());
    for (std::size_t k = 0; k < gradients_.size(); ++k) {
      if (!gradients_[k] && own_->backward && program::is_float(outputs_[k].type())) {
        gradients_[k] = zeros(outputs_[k].type(), outputs_[k].dims());
      }
      if (gradients_[k]) {
        inputs.push_back(gradients_[k]);
      }
    }
    std::vector<std::size_t> reached;
    const Tensors results = traced(back_, inputs, [&](const Tensors& entries) {
      split(entries);
      Tensors all = own_->backward ? checked(own_->backward(x_, y_, dy_)) : derived();
      for (std::size_t i = 0; i < all.size(); ++i) {
        all[i] = needed_[i] ? all[i] : Tensor();
        if (all[i]) {
          reached.push_back(i);
        }
      }
      return all;
    });
    std::vector<Contribution> contributions;
    for (std::size_t i = 0; i < results.size(); ++i) {
      contributions.push_back({inputs_[reached[i]], results[i]});
    }
    return contributions;
  }

 private:
  void split(const Tensors& entries) {
    auto next = entries.begin();
    x_ = {next, next + static_cast<std::ptrdiff_t>(inputs_.size())};
    next += static_cast<std::ptrdiff_t>(inputs_.size());
    y_ = {next, next + static_cast<std::ptrdiff_t>(outputs_.size())};
    next += static_cast<std::ptrdiff_t>(outputs_.size());
    for (const Tensor& gradient : gradients_) {
      dy_.push_back(gradient ? *next++ : Tensor());
    }
  }

  void refuse_captured(const NodeSet& active) const {
    const auto refuse = [&](const Tensor& x) {
      fail("gradients: the composite '" + own_->name + "' uses " + describe(x) +
           ", which needs a gradient, but is not one of its inputs; add it to the inputs");
    };
    const auto check = [&](const Tensor& used) {
      if (!is_within(*used.node(), *own_) && active.contains(used.node().get())) {
        refuse(used);
      }
    };
    std::for_each(returned_.begin(), returned_.end(), check);
    for (const Node* node : body_of(*own_, returned_)) {
      if (is_entry_of(*node, *own_)) {
        continue;
      }
      if (node->args.empty() && active.contains(node)) {
        refuse(Tensor(node->shared_from_this()));
      }
      std::for_each(node->args.begin(), node->args.end(), check);
    }
  }

  // Checks what the caller's function returns. Plain numbers are converted.
  Tensors checked(Tensors gradients) const {
    const std::string what = "gradients: backward of the composite '" + own_->name + "' returns ";
    if (gradients.size() != inputs_.size()) {
      fail(what + counted(gradients.size(), "gradient") + " for " + counted(inputs_.size(), "input"));
    }
    for (std::size_t i = 0; i < gradients.size(); ++i) {
      Tensor& one = gradients[i];
      if (!one) {
        continue;
      }
      if (const Node* number = constant_of(one); number != nullptr && number->weak) {
        one = broadcast_to(cast(one, inputs_[i].type()), inputs_[i].dims());
      }
      if (one.type() != inputs_[i].type() || one.dims() != inputs_[i].dims()) {
        fail(what + std::string(program::type_name(one.type())) + dims_text(one.dims()) + " for input " +
             std::to_string(i) + ", which is " + std::string(program::type_name(inputs_[i].type())) +
             dims_text(inputs_[i].dims()) + "; they must be equal");
      }
    }
    return gradients;
  }

  // Differentiates the body. In the result, values of the body are computed again.
  Tensors derived() {
    const std::uint64_t floor = next_order();
    std::vector<const Node*> body = body_of(*own_, returned_);
    std::vector<const Node*> entries;
    NodeSet active;
    for (const Node* node : body) {
      if (is_entry_of(*node, *own_)) {
        entries.push_back(node);
        if (needed_[static_cast<std::size_t>(node->axis)]) {
          active.insert(node);
        }
      }
    }
    spread_activity(body, active);
    Reverse reverse(std::move(body), active);
    for (std::size_t k = 0; k < dy_.size(); ++k) {
      if (dy_[k] && active.contains(returned_[k].node().get())) {
        reverse.add(returned_[k], dy_[k]);
      }
    }
    reverse.run();
    Tensors gradients(inputs_.size());
    for (const Node* entry : entries) {
      gradients[static_cast<std::size_t>(entry->axis)] = reverse.of(entry);
    }
    for (const Node* node : topological(
             gradients, [&](const Node& one) { return one.order >= floor || is_within(one, *own_); })) {
      rewritten_[node] = rewritten(*node);
    }
    for (Tensor& gradient : gradients) {
      gradient = gradient ? rewritten_.at(gradient.node().get()) : gradient;
    }
    return gradients;
  }

  // The node with the inputs and outputs of back_ in place of those of the body. Other nodes of the body
  // become nodes of back_.
  Tensor rewritten(const Node& node) {
    const bool moves = is_within(node, *own_);
    Tensor self(node.shared_from_this());
    if (is_entry_of(node, *own_)) {
      return x_[static_cast<std::size_t>(node.axis)];
    }
    for (std::size_t k = 0; moves && k < returned_.size(); ++k) {
      if (returned_[k].is(self)) {
        return y_[k];
      }
    }
    auto copy = std::make_shared<Node>(node);
    bool is_new = moves && !self.is_leaf();
    for (Tensor& arg : copy->args) {
      if (const auto found = rewritten_.find(arg.node().get()); found != rewritten_.end()) {
        is_new = is_new || !found->second.is(arg);
        arg = found->second;
      }
    }
    if (!is_new) {
      return self;
    }
    copy->order = next_order();
    copy->composite = moves ? moved(copy->composite) : copy->composite;
    return finish(std::move(copy));
  }

  // A composite in the body of this one, as one in the body of back_.
  std::shared_ptr<const Composite> moved(const std::shared_ptr<const Composite>& nested) {
    if (nested == own_) {
      return back_;
    }
    std::shared_ptr<const Composite>& known = moved_[nested.get()];
    if (!known) {
      Composite copy = *nested;
      copy.parent = moved(nested->parent);
      known = std::make_shared<const Composite>(std::move(copy));
    }
    return known;
  }

  const std::shared_ptr<const Composite> own_;
  std::shared_ptr<Composite> back_;
  Tensors returned_;  // by the body
  Tensors inputs_;
  Tensors outputs_;
  Tensors gradients_;         // of the outputs
  std::vector<bool> needed_;  // by input
  Tensors x_;                 // the inputs, outputs and gradients as entries of back_
  Tensors y_;
  Tensors dy_;
  std::unordered_map<const Node*, Tensor> rewritten_;
  std::unordered_map<const Composite*, std::shared_ptr<const Composite>> moved_;
};

}  // namespace

const Composite* outermost_composite_of(const Node& node) {
  const Composite* one = composite_of(node);
  while (one != nullptr && one->parent) {
    one = one->parent.get();
  }
  return one;
}

std::vector<Contribution> composite_gradients(const Tensors& outputs, const Tensors& gradients,
                                              const NodeSet& active) {
  return CompositeGradients(outputs, gradients, active).run();
}

}  // namespace detail

std::vector<Tensor> composite(const CompositeOptions& options, const std::vector<Tensor>& inputs) {
  // Names have at most 127 bytes, so `_gradient` can be appended three times.
  constexpr std::size_t kLongestName = 100;
  const std::string fault = program::name_fault(options.name);
  if (!fault.empty() || options.name == "fused" || options.name.size() > kLongestName) {
    detail::fail("composite: '" + options.name.substr(0, kLongestName) + "' is not a valid name; " +
                 (!fault.empty()            ? fault
                  : options.name == "fused" ? "the optimizer uses it for its regions"
                                            : "it has more than 100 characters"));
  }
  if (!options.forward) {
    detail::fail("composite '" + options.name + "': no forward function is given");
  }
  const auto require_all = [&](const std::vector<Tensor>& tensors, const std::string& what) {
    for (std::size_t i = 0; i < tensors.size(); ++i) {
      if (!tensors[i]) {
        detail::fail("composite '" + options.name + "': " + what + std::to_string(i) +
                     " is an empty Tensor; assign an expression to it first");
      }
    }
  };
  require_all(inputs, "input ");
  const auto own = std::make_shared<detail::Composite>(
      detail::Composite{options.name, options.backward, detail::current_composite()});
  return detail::traced(own, inputs, [&](const std::vector<Tensor>& entries) {
    std::vector<Tensor> outputs = options.forward(entries);
    if (outputs.empty()) {
      detail::fail("composite '" + options.name + "': forward returns no outputs");
    }
    require_all(outputs, "output ");
    return outputs;
  });
}

}  // namespace yoke
