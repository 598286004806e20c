// SPDX-License-Identifier: Apache-2.0
// frontends/tensor/src/lower/graph.cpp: numbers expressions, symbols and random draws.
#include "graph.h"

namespace yoke::detail::lowering {
namespace {

constexpr std::int64_t kFirstDraw = std::int64_t{1} << 32U;

}  // namespace

Graph::Graph(std::span<const Tensor> roots) {
  const std::vector<const Node*> nodes = topological(roots);
  number_draws(nodes);
  for (const Node* node : nodes) {
    if (node->symbol) {
      add_symbol(*node->symbol, false);
    }
    for (const ViewIndex& index : node->view) {
      for (const auto& term : index.symbols) {
        add_symbol(term.symbol, false);
      }
    }
    if (node->kind == Kind::kRandom) {
      add_symbol(seed_symbol(), true);
      if (node->key.every_step) {
        add_symbol(step_symbol(), true);
      }
    }
    Value value{node, {}};
    for (const Tensor& arg : node->args) {
      value.args.push_back(of(arg));
    }
    ids_[node] = static_cast<Id>(values.size());
    values.push_back(std::move(value));
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
  return kind == Kind::kPlaceholder || kind == Kind::kLiteral || kind == Kind::kParameter ||
         kind == Kind::kScalar;
}

}  // namespace yoke::detail::lowering
