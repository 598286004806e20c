// SPDX-License-Identifier: Apache-2.0
// frontends/tensor/src/precision.cpp: mixed precision: products in 16 bits, everything else in f32.
#include <yoke/data_parallel_options.h>
#include <yoke/ops.h>
#include <yoke/runtime/closest.h>
#include <yoke/runtime/error.h>

#include <algorithm>
#include <array>
#include <string>
#include <unordered_map>
#include <utility>

#include "rewrite.h"

namespace yoke {

namespace detail {

namespace {

bool is_sum_of_products(const Node& node) {
  return node.kind == Kind::kReduce && node.reduce == program::Reduce::kSum && node.args.size() > 1;
}

// A conversion to f32 from another type.
bool is_widening(const Node& node, Type from) {
  return node.kind == Kind::kMap && node.op == program::Op::kCast && node.type == Type::kF32 &&
         node.args[0].type() == from;
}

bool is_rearrangement(const Node& node) {
  return node.kind == Kind::kView || node.kind == Kind::kReshape || node.kind == Kind::kStop;
}

std::shared_ptr<Node> retyped_copy(const Node& node, Type type) {
  auto copy = std::make_shared<Node>(node);
  copy->type = type;
  copy->name.clear();
  return copy;
}

// Rounds f32 tensors, each once.
class Narrowing {
 public:
  explicit Narrowing(Type type) : type_(type) {}

  Tensor operator()(const Tensor& x) {
    const auto known = narrowed_.find(x.node().get());
    if (known != narrowed_.end()) {
      return known->second.second;
    }
    Tensor made = rounded(x);
    narrowed_[x.node().get()] = {x, made};
    return made;
  }

 private:
  Tensor rounded(const Tensor& x) {
    const Node& node = *x.node();
    if (is_widening(node, type_)) {
      return node.args[0];
    }
    if (rounds_source(node)) {
      auto copy = retyped_copy(node, type_);
      copy->args[0] = (*this)(node.args[0]);
      return finish(std::move(copy));
    }
    const InComposite same(node.kind == Kind::kResult ? node.composite->parent : node.composite);
    return cast(x, type_);
  }

  // Whether the view of a rounded tensor costs less than rounding the view: windows repeat elements, and a scan reads
  // all of its xs, but a batch is a small part of the data.
  bool rounds_source(const Node& node) const {
    if (!is_rearrangement(node) || (node.is_filled && !program::same(node.type, node.literal, {}))) {
      return false;
    }
    const Node* base = &node;
    while (is_rearrangement(*base)) {
      base = base->args[0].node().get();
    }
    const bool is_round = std::any_of(node.view.begin(), node.view.end(), [](const ViewIndex& index) {
      return std::any_of(index.symbols.begin(), index.symbols.end(), [](const ViewIndex::SymbolTerm& term) {
        return term.symbol.name.starts_with(kVariablePrefix);
      });
    });
    return is_widening(*base, type_) || is_round || node.args[0].element_count() <= element_count(node.dims);
  }

  Type type_;
  std::unordered_map<const Node*, std::pair<Tensor, Tensor>> narrowed_;  // the tensor, and its rounded form
};

// Computes sums of products in f32 whose results were rounded and then cast to f32.
class Widening {
 public:
  Tensor operator()(const Tensor& gradient) {
    auto& known = widened_[gradient.node().get()];
    if (!known.second) {
      known = {gradient, widened(gradient)};
    }
    return known.second;
  }

 private:
  Tensor widened(const Tensor& gradient) {
    const Node& node = *gradient.node();
    if (node.kind == Kind::kMap && node.op == program::Op::kAdd) {
      const Tensor a = (*this)(node.args[0]);
      const Tensor b = (*this)(node.args[1]);
      return a.is(node.args[0]) && b.is(node.args[1]) ? gradient : a + b;
    }
    if (node.type == Type::kF32) {
      return is_widening(node, Type::kBF16) || is_widening(node, Type::kF16) ? (*this)(node.args[0])
                                                                             : gradient;
    }
    const bool is_sum_of_rounds = node.kind == Kind::kSummed;
    if (!is_sum_of_products(node) && !is_rearrangement(node) && !is_sum_of_rounds) {
      return cast(gradient, Type::kF32);
    }
    auto copy = retyped_copy(node, Type::kF32);
    if (!is_sum_of_products(node)) {
      Tensor& summed = is_sum_of_rounds ? copy->args.back() : copy->args[0];
      summed = (*this)(summed);
    }
    return finish(std::move(copy));
  }

  std::unordered_map<const Node*, std::pair<Tensor, Tensor>> widened_;  // the tensor, and its f32 form
};

}  // namespace

std::vector<Tensor> in_precision(std::span<const Tensor> values, Type type) {
  Narrowing narrow(type);
  return rewrite(values, [&](const Node& node, const std::vector<Tensor>& args) {
    const bool is_f32 = std::all_of(args.begin(), args.end(),
                                    [](const Tensor& arg) { return arg && arg.type() == Type::kF32; });
    if (!is_sum_of_products(node) || !is_f32) {
      return Tensor();
    }
    auto product = std::make_shared<Node>(node);
    product->type = type;
    std::transform(args.begin(), args.end(), product->args.begin(), std::ref(narrow));
    const InComposite same(node.composite);
    return cast(finish(std::move(product)), Type::kF32);
  });
}

void widen(std::vector<Tensor>& gradients) {
  Widening widened;
  for (Tensor& gradient : gradients) {
    if (gradient.type() == Type::kF32) {
      gradient = widened(gradient);
    }
  }
}

}  // namespace detail

namespace {

constexpr std::array<std::pair<Precision, const char*>, 3> kPrecisions = {
    {{Precision::kF32, "f32"}, {Precision::kBF16, "bf16"}, {Precision::kF16, "f16"}}};

}  // namespace

const char* precision_name(Precision precision) {
  const auto found = std::find_if(kPrecisions.begin(), kPrecisions.end(),
                                  [&](const auto& entry) { return entry.first == precision; });
  return found != kPrecisions.end() ? found->second : "unknown";
}

Precision precision_by_name(std::string_view name) {
  const auto found = std::find_if(kPrecisions.begin(), kPrecisions.end(),
                                  [&](const auto& entry) { return entry.second == name; });
  if (found == kPrecisions.end()) {
    throw Error(ErrorCode::kInvalidArgument, "unknown precision '" + std::string(name) +
                                                 "'; use f32, bf16 or f16" +
                                                 did_you_mean(name, {"f32", "bf16", "f16"}));
  }
  return found->first;
}

}  // namespace yoke
