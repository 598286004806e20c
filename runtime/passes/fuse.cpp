// SPDX-License-Identifier: Apache-2.0
// runtime/passes/fuse.cpp: substitutes elementwise temporaries where they are read, if that is never slower.
#include "compose.h"
#include "cost.h"
#include "graph.h"

namespace yoke::passes {
namespace {

// Whether tensor `to` can hold the value of the temporary `from` until statement j: its old value is not
// needed from where the temporary is first written.
bool may_hold(const Graph& graph, std::uint32_t from, std::uint32_t to, Place j) {
  const Tensor& source = graph.program().tensors[from];
  const Tensor& target = graph.program().tensors[to];
  if (source.role != Role::kTemp || source.type != target.type || source.dims != target.dims) {
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
  return !in_place.reduce && reads_only_at(in_place.value, in_place.target) &&
         !graph.is_touched(to, first + 1, j);
}

// Whether each index of the statement's reads of the tensor has at most one loop with several iterations. Convolutions
// are recognized by indices with two, which a reshape would mix with others.
bool has_simple_reads(const Expr& expr, const Statement& statement, std::uint32_t tensor) {
  const auto is_simple = [&](const Index& index) {
    return std::count_if(index.affine.terms.begin(), index.affine.terms.end(), [&](const Affine::Term& term) {
             return !term.is_symbol && statement.loops[term.id].extent > 1;
           }) <= 1;
  };
  return (expr.op != Op::kRead || expr.access.tensor != tensor ||
          std::all_of(expr.access.indices.begin(), expr.access.indices.end(), is_simple)) &&
         std::all_of(expr.args.begin(), expr.args.end(),
                     [&](const Expr& arg) { return has_simple_reads(arg, statement, tensor); });
}

// Statement j with the value of producer i in place of its temporary; nothing if that costs more. `is_once`:
// the readers together compute each element at most once.
std::optional<Statement> fused_into(const Graph& graph, Place i, Place j, Cost cost, bool is_once) {
  std::optional<Substitution> result = substitution(graph, i, j);
  if (!result) {
    return std::nullopt;
  }
  const bool contraction = is_contraction(graph.at(j));
  const bool repeats = result->sites > 1 || !result->each_once;
  const bool enters_block = !graph.are_together(i, j);
  const bool allowed = enters_block ? cost == Cost::kFree && !contraction
                       : contraction
                           ? cost == Cost::kCopy || cost == Cost::kMoved ||
                                 (cost == Cost::kReshape &&
                                  has_simple_reads(graph.at(j).value, graph.at(j), graph.at(i).target.tensor))
                       : cost == Cost::kWork  ? !repeats
                       : cost == Cost::kLight ? result->each_once
                       : cost == Cost::kMoved ? !repeats && is_once
                                              : true;
  if (!allowed || (contraction && !stays_contraction(graph.at(j), result->statement))) {
    return std::nullopt;
  }
  return std::move(result->statement);
}

// Whether the readers copy parts of producer i's value that together have no more elements than it.
bool copy_parts(const Graph& graph, Place i, const Places& readers) {
  std::uint64_t copied = 0;
  for (const Place j : readers) {
    const Statement& reader = graph.at(j);
    if (reader.value.op != Op::kRead || !is_elementwise(graph.program(), reader)) {
      return false;
    }
    copied += graph.target_of(j).element_count();
  }
  return copied <= graph.target_of(i).element_count();
}

// Whether the tensors that the producer reads have more bytes than its temporary.
bool reads_more_bytes(const Graph& graph, Place i) {
  std::uint64_t bytes = 0;
  for (const std::uint32_t tensor : tensors_read(graph.at(i))) {
    bytes += graph.program().tensors[tensor].byte_count();
  }
  return bytes > graph.target_of(i).byte_count();
}

bool fuse_producer(Graph& graph, Place i) {
  if (!is_producer(graph, i)) {
    return false;
  }
  const Cost cost = cost_of(graph.program(), graph.at(i));
  const Places& readers = graph.readers(graph.at(i).target.tensor);
  const bool is_once = readers.size() == 1 || copy_parts(graph, i, readers);
  if (readers.empty() || (!is_once && (cost == Cost::kCheap || cost == Cost::kWork)) ||
      (!is_once && (cost == Cost::kLight || (cost == Cost::kWidened && reads_more_bytes(graph, i))) &&
       !inputs_live_until(graph, i, readers.back()))) {
    return false;
  }
  std::vector<std::pair<Place, Statement>> fused;
  for (const Place j : readers) {
    std::optional<Statement> statement = fused_into(graph, i, j, cost, is_once);
    if (statement) {
      fused.emplace_back(j, std::move(*statement));
    } else if (cost != Cost::kFree) {
      return false;  // the temporary would stay, so nothing is gained
    }
  }
  for (auto& [j, statement] : fused) {
    graph.note(i,
               [&, at = line_of(graph.at(j))] { return "computed in " + at + " instead of being stored"; });
    graph.replace(j, std::move(statement));
  }
  graph.report().substituted += fused.size();
  if (readers.empty()) {
    graph.remove(i);
  }
  return !fused.empty();
}

// `y[i] = t[i]` of whole tensors: y replaces t.
bool forward_target(Graph& graph, Place j) {
  const Statement& copy = graph.at(j);
  // Within a repeat block, the rounds together may write all of t; the verifier could not prove that for y.
  if (graph.is_removed(j) || graph.is_repeated(j) || copy.value.op != Op::kRead ||
      !is_elementwise(graph.program(), copy) || copy.value.access.indices != copy.target.indices) {
    return false;
  }
  const std::uint32_t from = copy.value.access.tensor;
  const std::uint32_t to = copy.target.tensor;
  const Places& writers = graph.writers(from);
  const auto is_elsewhere = [&](Place writer) { return !graph.are_together(writer, j); };
  if ((graph.is_grouped(j) && std::any_of(writers.begin(), writers.end(), is_elsewhere)) ||
      !may_hold(graph, from, to, j) || graph.is_written(from, j + 1, graph.size()) ||
      graph.is_written(to, j + 1, graph.size())) {
    return false;
  }
  const std::vector<Tensor>& tensors = graph.program().tensors;
  graph.note(j, [&] { return "removed: " + tensors[from].name + " is computed in " + tensors[to].name; });
  graph.remove(j);
  graph.rename(from, to);
  ++graph.report().substituted;
  return true;
}

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
    if (graph.end_of(from) == j + 1 && reads_only_at(after.value, after.target) &&
        may_hold(graph, from, to, j)) {
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

bool for_each_place(Graph& graph, bool (*apply)(Graph&, Place)) {
  bool changed = false;
  for (Place i = 0; i < graph.size(); ++i) {
    changed = apply(graph, i) || changed;
  }
  return changed;
}

}  // namespace

bool share_in(Graph& graph) {
  return for_each_place(graph, share);
}

bool fuse_in(Graph& graph) {
  bool changed = false;
  // Terminates, because each run removes a statement or a read of a temporary. Usually one suffices.
  for (bool again = true; again; changed = changed || again) {
    again = for_each_place(graph, fuse_producer);
    again = for_each_place(graph, forward_target) || again;
  }
  return changed;
}

}  // namespace yoke::passes
