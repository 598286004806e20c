// SPDX-License-Identifier: Apache-2.0
// frontends/tensor/src/lower/canonical.cpp: merges equal expressions into one value.
#include <algorithm>
#include <bit>
#include <set>

#include "graph.h"

namespace yoke::detail::lowering {
namespace {

constexpr std::int64_t kFirstDraw = std::int64_t{1} << 32U;

bool is_alias(const Node& node) {
  if (node.kind == Kind::kStop) {
    return true;
  }
  if (node.kind != Kind::kPermute || node.dims != node.args[0].dims()) {
    return false;
  }
  for (std::size_t k = 0; k < node.axes.size(); ++k) {
    if (node.axes[k] != static_cast<int>(k)) {
      return false;
    }
  }
  return true;
}

bool commutes(const Node& node) {
  using program::Op;
  return node.kind == Kind::kMap && (node.op == Op::kAdd || node.op == Op::kMul || node.op == Op::kEqual ||
                                     node.op == Op::kAnd || node.op == Op::kOr || node.op == Op::kNotEqual);
}

class Key {
 public:
  template <class Number>
  Key& add(Number number) {
    text_ += std::to_string(number) + ",";
    return *this;
  }
  template <class Number>
  Key& add_all(const std::vector<Number>& numbers) {
    for (const Number& number : numbers) {
      add(number);
    }
    text_ += ";";
    return *this;
  }
  Key& add_text(const std::string& text) {
    text_ += text + ";";
    return *this;
  }
  std::string take() { return std::move(text_); }

 private:
  std::string text_;
};

}  // namespace

Graph::Graph(std::span<const Tensor> roots) {
  const std::vector<const Node*> nodes = topological(roots);
  number_draws(nodes);
  for (const Node* node : nodes) {
    if (node->symbol) {
      add_symbol(*node->symbol, false);
    }
    if (node->kind == Kind::kRandom) {
      add_symbol(seed_symbol(), true);
      if (node->key.every_step) {
        add_symbol(step_symbol(), true);
      }
    }
    ids_[node] = canonical(*node);
  }
}

void Graph::add_symbol(const Symbol& symbol, bool is_implicit) {
  const auto [found, is_new] =
      symbol_ids_.try_emplace(symbol.name, static_cast<std::uint32_t>(symbols.size()));
  if (is_new) {
    symbols.push_back({symbol.name, symbol.low, symbol.high, symbol.step, {}});
    implicit_[symbol.name] = is_implicit;
    return;
  }
  program::Symbol& known = symbols[found->second];
  if (is_implicit || (known.low == symbol.low && known.high == symbol.high && known.step == symbol.step)) {
    return;
  }
  if (!implicit_[symbol.name]) {
    const auto range = [](std::int64_t low, std::int64_t high, std::int64_t step) {
      return std::to_string(low) + ".." + std::to_string(high) + " step " + std::to_string(step);
    };
    fail("lower: symbol '" + symbol.name + "' is " + range(known.low, known.high, known.step) +
         " in one place and " + range(symbol.low, symbol.high, symbol.step) +
         " in another; use the same range, or different names");
  }
  known = {symbol.name, symbol.low, symbol.high, symbol.step, {}};
  implicit_[symbol.name] = false;
}

void Graph::number_draws(const std::vector<const Node*>& nodes) {
  for (const Node* node : nodes) {
    if (node->kind == Kind::kRandom && !node->key.stream) {
      streams_[node->order] = 0;
    }
  }
  std::int64_t next = kFirstDraw;
  for (auto& [order, stream] : streams_) {
    stream = next++;
  }
}

std::int64_t Graph::stream_of(const Node& random) const {
  return random.key.stream ? *random.key.stream : streams_.at(random.order);
}

bool Graph::is_leaf(Id id) const {
  const Kind kind = values[id].node->kind;
  return kind == Kind::kPlaceholder || kind == Kind::kLiteral || kind == Kind::kParameter;
}

Id Graph::canonical(const Node& node) {
  std::vector<Id> args;
  args.reserve(node.args.size());
  for (const Tensor& arg : node.args) {
    args.push_back(ids_.at(arg.node().get()));
  }
  if (is_alias(node)) {
    return args[0];
  }
  const auto [found, is_new] = keys_.try_emplace(key_of(node, args), static_cast<Id>(values.size()));
  if (is_new) {
    Value value;
    value.node = &node;
    value.args = std::move(args);
    values.push_back(std::move(value));
  }
  return found->second;
}

std::string Graph::key_of(const Node& node, const std::vector<Id>& args) const {
  Key key;
  key.add(static_cast<int>(node.kind)).add(static_cast<int>(node.type));
  switch (node.kind) {
    case Kind::kPlaceholder:
    case Kind::kLiteral:
    case Kind::kParameter:
      return key.add(std::bit_cast<std::uintptr_t>(&node)).take();
    case Kind::kConstant:
      return key.add(std::bit_cast<std::int64_t>(node.literal.number)).add(node.literal.integer).take();
    case Kind::kSymbol:
      return key.add_text(node.symbol->name).take();
    case Kind::kRandom:
      key.add(stream_of(node)).add(static_cast<int>(node.key.every_step)).add(node.lane).add(node.lanes);
      return key.add_all(node.dims).take();
    default:
      break;
  }
  std::vector<Id> ordered = args;
  if (commutes(node)) {
    std::sort(ordered.begin(), ordered.end());
  }
  key.add_all(node.dims).add_all(ordered).add(static_cast<int>(node.op)).add(node.axis).add(node.symbol_axis);
  key.add_all(node.axes).add_all(node.starts).add_text(node.symbol ? node.symbol->name : "");
  key.add(static_cast<int>(node.reduce)).add_all(node.reduced);
  for (const auto& labels : node.labels) {
    key.add_all(labels);
  }
  return key.take();
}

}  // namespace yoke::detail::lowering
