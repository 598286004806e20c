// SPDX-License-Identifier: Apache-2.0
// frontends/tensor/src/lower/graph.cpp: numbers expressions, symbols and random draws.
#include "graph.h"

#include <algorithm>

#include "../composite.h"

namespace yoke::detail::lowering {
namespace {

constexpr std::int64_t kFirstDraw = std::int64_t{1} << 32U;

template <class Visit>
void for_each_symbol(const Node& node, const Visit& visit) {
  if (node.symbol) {
    visit(*node.symbol);
  }
  for (const ViewIndex& index : node.view) {
    for (const auto& term : index.symbols) {
      visit(term.symbol);
    }
  }
}

[[noreturn]] void fail_outside_of_body() {
  fail(
      "lower: an argument of a scan's body is used outside the body, but exists only there; "
      "return the values that you need from the body");
}

// Other nodes are leaves, or inlined wherever they are used.
bool has_statements(const Node& node) {
  return !node.args.empty() || node.kind == Kind::kRandom || node.kind == Kind::kIota;
}

}  // namespace

Graph::Graph(std::span<const Tensor> roots) {
  const std::vector<const Node*> nodes = used_nodes(roots);
  number_draws(nodes);
  add_loops(nodes);
  refuse_escaped(roots, nodes);
  for (const Node* node : nodes) {
    require_mode(*node, "lower");
    for_each_symbol(*node, [&](const Symbol& symbol) { add_symbol(symbol, false); });
    if (node->kind == Kind::kRandom) {
      add_symbol(node->key.by_row ? run_seed_symbol() : seed_symbol(), true);
      if (node->key.by_row) {
        add_symbol(batch_row_symbol(), true);
      }
      if (node->key.every_step) {
        add_symbol(step_symbol(), true);
      }
    }
    if (node->kind == Kind::kEntry) {
      ids_[node] = of(node->args[0]);
      continue;
    }
    if (node->kind == Kind::kResult) {
      add_group(*node);
      ids_[node] = of(node->args[static_cast<std::size_t>(node->axis)]);
      continue;
    }
    Value value{node, {}};
    for (const Tensor& arg : node->args) {
      value.args.push_back(of(arg));
    }
    value.loop = loop_of(value);
    ids_[node] = static_cast<Id>(values.size());
    if (is_loop_result(*node)) {
      loops[static_cast<std::size_t>(variables_.at(node->loop->variable.name))].results.push_back(ids_[node]);
    }
    if (const Composite* own = outermost_composite_of(*node); own != nullptr && has_statements(*node)) {
      members_[own].push_back(ids_[node]);
    }
    values.push_back(std::move(value));
  }
  for (const LoopResults& one : loops) {
    symbol_ids_[one.loop->variable.name] = static_cast<std::uint32_t>(symbols.size());
    symbols.push_back({"", 0, one.loop->variable.high, 1, {}, true});
  }
  for (const Tensor& root : roots) {
    if (values[of(root)].loop >= 0) {
      fail_outside_of_body();
    }
  }
}

void Graph::add_loops(const std::vector<const Node*>& nodes) {
  for (const Node* node : nodes) {
    if (is_loop_result(*node) &&
        variables_.try_emplace(node->loop->variable.name, static_cast<std::int32_t>(loops.size())).second) {
      loops.push_back({node->loop.get(), {}});
    }
  }
}

std::int32_t Graph::loop_of(const Value& value) const {
  const Node& node = *value.node;
  const bool is_result = is_loop_result(node);
  std::int32_t loop = is_result ? variables_.at(node.loop->variable.name) : -1;
  const auto join = [&](std::int32_t other) {
    if (other >= 0 && loop >= 0 && other != loop) {
      fail(
          "lower: a scan in the body of another scan depends on the outer scan's carry or xs, "
          "but repeat blocks do not nest; unroll the inner scan with a C++ loop");
    }
    loop = std::max(loop, other);
  };
  if (node.kind == Kind::kCarry) {
    if (!variables_.contains(node.loop->variable.name)) {
      fail_outside_of_body();
    }
    join(variables_.at(node.loop->variable.name));
  }
  for_each_symbol(node, [&](const Symbol& symbol) {
    const auto found = variables_.find(symbol.name);
    join(found == variables_.end() ? -1 : found->second);
  });
  for (const Id arg : value.args) {
    join(values[arg].loop);
  }
  return is_result ? -1 : loop;
}

void Graph::add_group(const Node& result) {
  std::vector<Id>& members = members_[result.composite.get()];
  if (members.empty() || values[members[0]].group >= 0) {
    return;
  }
  Group group;
  group.name = result.composite->name;
  group.members = members;
  for (const Id id : members) {
    values[id].group = static_cast<std::int32_t>(groups.size());
    group.loop = std::max(group.loop, values[id].loop);
  }
  // The whole hint is in the repeat block, also what does not vary.
  for (const Id id : members) {
    values[id].loop = group.loop;
  }
  for (std::size_t k = 0; k < result.composite->output_count; ++k) {
    if (const Id id = of(result.args[k]); values[id].group == static_cast<std::int32_t>(groups.size())) {
      group.outputs.push_back(id);
    }
  }
  groups.push_back(std::move(group));
}

void Graph::refuse_escaped(std::span<const Tensor> roots, const std::vector<const Node*>& nodes) const {
  const auto check = [](const Composite* user, const Node& used) {
    const Composite* own = outermost_composite_of(used);
    if (own != nullptr && own != user && has_statements(used)) {
      fail("lower: a tensor that the composite '" + own->name +
           "' creates is used outside of it; return it from the composite");
    }
  };
  for (const Tensor& root : roots) {
    check(nullptr, *root.node());
  }
  for (const Node* node : nodes) {
    for (const Tensor& arg : node->args) {
      if (node->kind != Kind::kResult) {
        check(outermost_composite_of(*node), *arg.node());
      }
    }
  }
}

void Graph::add_symbol(const Symbol& symbol, bool is_implicit) {
  if (variables_.contains(symbol.name)) {
    return;
  }
  if (symbol.name.starts_with(kVariablePrefix)) {
    fail_outside_of_body();
  }
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
      streams_[node->draw] = 0;
    }
  }
  std::int64_t next = kFirstDraw;
  for (auto& [order, stream] : streams_) {
    stream = next++;
  }
}

std::int64_t Graph::stream_of(const Node& random) const {
  return random.key.stream ? *random.key.stream : streams_.at(random.draw);
}

bool Graph::is_leaf(Id id) const {
  const Kind kind = values[id].node->kind;
  return kind == Kind::kPlaceholder || kind == Kind::kLiteral || kind == Kind::kParameter ||
         kind == Kind::kScalar;
}

}  // namespace yoke::detail::lowering
