// SPDX-License-Identifier: Apache-2.0
// runtime/passes/dead.cpp: removes statements whose results are never read, by liveness from the end.
#include "graph.h"

namespace yoke::passes {
namespace {

// Whether the statement is `t[i] = t[i]`, which changes nothing.
bool is_self_copy(const Statement& statement) {
  return statement.assign == Assign::kSet && !statement.reduce && statement.value.op == Op::kRead &&
         statement.value.access.tensor == statement.target.tensor &&
         statement.value.access.indices == statement.target.indices;
}

}  // namespace

bool remove_dead_in(Graph& graph) {
  const std::vector<Tensor>& tensors = graph.program().tensors;
  std::vector<bool> live;
  bool changed = false;
  for (std::uint32_t t = 0; t < tensors.size(); ++t) {
    live.push_back(tensors[t].role == Role::kOut || tensors[t].role == Role::kInOut);
    changed = changed || (tensors[t].role == Role::kTemp && graph.end_of(t) == 0);
  }
  const auto read = [&](Place i) {
    for (const std::uint32_t tensor : graph.reads(i)) {
      live[tensor] = true;
    }
  };
  // In a repeat block, each statement runs again after any other: if one is live, all tensors read are live.
  const auto enter_block = [&](Place last) {
    Place first = last;
    bool is_live = live[graph.at(last).target.tensor];
    for (; graph.continues_group(first); --first) {
      is_live = is_live || live[graph.at(first - 1).target.tensor];
    }
    for (Place i = first; is_live && i <= last; ++i) {
      read(i);
    }
  };
  for (Place i = graph.size(); i-- > 0;) {
    if (graph.is_repeated(i) && (i + 1 == graph.size() || !graph.continues_group(i + 1))) {
      enter_block(i);
    }
    const Statement& statement = graph.at(i);
    const std::uint32_t target = statement.target.tensor;
    if (!live[target] || is_self_copy(statement)) {
      graph.note(
          i, [&] { return live[target] ? "removed: changes nothing" : "removed: its result is not read"; });
      graph.remove(i);
      changed = true;
      continue;
    }
    // A partial or accumulating write keeps earlier elements, so the tensor stays live.
    if (overwrites_target(graph.program(), statement)) {
      live[target] = false;
    }
    read(i);
  }
  return changed;
}

}  // namespace yoke::passes
