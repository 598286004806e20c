// SPDX-License-Identifier: Apache-2.0
// runtime/passes/fuse.cpp: substitutes elementwise temporaries where they are read, if that is never slower.
#include "compose.h"
#include "cost.h"
#include "graph.h"

namespace yoke::passes {
namespace {

// Whether tensor `to` can hold the value of the temporary `from` until statement j: its old value is not needed
// from where the temporary is first written.
bool may_hold(const Graph& graph, std::uint32_t from, std::uint32_t to, Place j) {
  const Tensor& source = graph.program().tensors[from];
  const Tensor& target = graph.program().tensors[to];
  if (from == to || source.role != Role::kTemp || source.type != target.type || source.dims != target.dims) {
    return false;
  }
  Place first = graph.writers(from).front();
  while (graph.continues_group(first)) {
    --first;
  }
  if (!graph.reads(first, to) || graph.is_grouped(first)) {
    return !graph.is_touched(to, first, j);
  }
  Statement in_place = graph.at(first);
  rename_tensor(in_place, from, to);
  return in_place.assign == Assign::kSet && is_elementwise(graph.program(), in_place) &&
         works_in_place(in_place) && !graph.is_touched(to, first + 1, j);
}

class Fuser {
 public:
  explicit Fuser(Graph& graph) : graph_(graph), program_(graph.program()) {}

  bool run() {
    bool changed = false;
    for (Place i = 0; i < graph_.size(); ++i) {
      changed = fuse_producer(i) || changed;
    }
    for (Place i = 0; i < graph_.size(); ++i) {
      changed = forward_target(i) || changed;
    }
    return changed;
  }

 private:
  const Statement& at(Place i) const { return graph_.at(i); }

  bool fuse_producer(Place i) {
    if (!is_producer(graph_, i)) {
      return false;
    }
    const Cost cost = cost_of(program_, at(i));
    const Places& readers = graph_.readers(at(i).target.tensor);
    if (readers.empty() || (readers.size() > 1 && (cost == Cost::kCheap || cost == Cost::kWork)) ||
        (readers.size() > 1 && cost == Cost::kLight && !inputs_live_until(graph_, i, readers.back()))) {
      return false;
    }
    std::vector<std::pair<Place, Statement>> fused;
    for (const Place j : readers) {
      std::optional<Statement> statement = fused_into(i, j, cost, readers.size());
      if (statement) {
        fused.emplace_back(j, std::move(*statement));
      } else if (cost != Cost::kFree) {
        return false;  // the temporary would stay, so nothing is gained
      }
    }
    for (auto& [j, statement] : fused) {
      graph_.note(i, [&, at = line_of(at(j))] { return "computed in " + at + " instead of being stored"; });
      graph_.replace(j, std::move(statement));
    }
    graph_.report().substituted += fused.size();
    if (readers.empty()) {
      graph_.remove(i);
    }
    return !fused.empty();
  }

  std::optional<Statement> fused_into(Place i, Place j, Cost cost, std::size_t reader_count) const {
    std::optional<Substitution> result = substitution(graph_, i, j);
    if (!result) {
      return std::nullopt;
    }
    const bool contraction = is_contraction(at(j));
    const bool repeats = result->sites > 1 || !result->each_once;
    const bool allowed = contraction            ? cost == Cost::kCopy || cost == Cost::kMoved
                         : cost == Cost::kWork  ? !repeats
                         : cost == Cost::kLight ? result->each_once
                         : cost == Cost::kMoved ? !repeats && reader_count == 1
                                                : true;
    if (!allowed || (contraction && !stays_contraction(at(j), result->statement))) {
      return std::nullopt;
    }
    return std::move(result->statement);
  }

  // `y[i] = t[i]` of whole tensors: y replaces t.
  bool forward_target(Place j) {
    const Statement& copy = at(j);
    if (graph_.is_removed(j) || graph_.is_grouped(j) || copy.value.op != Op::kRead ||
        copy.value.access.otherwise || !is_elementwise(program_, copy) ||
        copy.value.access.indices != copy.target.indices) {
      return false;
    }
    const std::uint32_t from = copy.value.access.tensor;
    const std::uint32_t to = copy.target.tensor;
    if (!may_hold(graph_, from, to, j) || graph_.is_written(from, j + 1, graph_.size()) ||
        graph_.is_written(to, j + 1, graph_.size())) {
      return false;
    }
    graph_.note(j, [&] {
      return "removed: " + program_.tensors[from].name + " is computed in " + program_.tensors[to].name;
    });
    graph_.remove(j);
    graph_.rename(from, to);
    ++graph_.report().substituted;
    return true;
  }

  Graph& graph_;
  const Program& program_;
};

// `y[i] = f(t[i], ..)`, which uses t for the last time: y holds t too, and the statement works in place.
bool share(Graph& graph, Place j) {
  const Statement& statement = graph.at(j);
  const std::uint32_t to = statement.target.tensor;
  if (graph.is_grouped(j) || graph.reads(j, to) || !is_elementwise(graph.program(), statement)) {
    return false;
  }
  for (const std::uint32_t from : graph.reads(j)) {
    Statement after = statement;
    rename_tensor(after, from, to);
    if (graph.end_of(from) == j + 1 && works_in_place(after) && may_hold(graph, from, to, j)) {
      graph.note(j, [&] {
        return "overwrites " + graph.program().tensors[from].name + ", which is not needed any more";
      });
      // The temporary's name stays, unless the result is an argument.
      const bool is_argument = graph.target_of(j).role != Role::kTemp;
      graph.rename(is_argument ? from : to, is_argument ? to : from);
      return true;
    }
  }
  return false;
}

}  // namespace

bool share_in(Graph& graph) {
  bool changed = false;
  for (Place j = 0; j < graph.size(); ++j) {
    changed = share(graph, j) || changed;
  }
  return changed;
}

bool fuse_in(Graph& graph) {
  bool changed = false;
  // Terminates, because each round removes a statement or a read of a temporary. Usually one round suffices.
  while (Fuser(graph).run()) {
    changed = true;
  }
  return changed;
}

}  // namespace yoke::passes
