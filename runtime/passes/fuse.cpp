// SPDX-License-Identifier: Apache-2.0
// runtime/passes/fuse.cpp: substitutes elementwise temporaries where they are read, if that is never slower.
#include "compose.h"
#include "cost.h"
#include "graph.h"

namespace yoke::passes {
namespace {

// The size limit of a fused statement, which keeps fusion and the backends' compilers fast.
constexpr std::size_t kMaxNodes = 64;

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

  bool may_move(Place i) const {
    return !graph_.is_removed(i) && !graph_.is_grouped(i) && graph_.target_of(i).role == Role::kTemp &&
           graph_.is_written_only_by(i) && !graph_.reads(i, at(i).target.tensor) &&
           is_elementwise(program_, at(i));
  }

  bool fuse_producer(Place i) {
    if (!may_move(i)) {
      return false;
    }
    const Cost cost = cost_of(program_, at(i));
    const Places& readers = graph_.readers(at(i).target.tensor);
    const bool may_repeat = cost == Cost::kFree || cost == Cost::kCopy || cost == Cost::kMoved;
    if (readers.empty() || (readers.size() > 1 && !may_repeat)) {
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
      graph_.replace(j, std::move(statement));
    }
    graph_.statistics().substituted += fused.size();
    if (readers.empty()) {
      graph_.remove(i);
    }
    return !fused.empty();
  }

  std::optional<Statement> fused_into(Place i, Place j, Cost cost, std::size_t consumer_count) const {
    const Statement& before = at(j);
    if (j < i || graph_.is_grouped(j) || graph_.is_disturbed(i, i + 1, j)) {
      return std::nullopt;
    }
    const bool contraction = is_contraction(before);
    if (contraction && cost != Cost::kCopy && cost != Cost::kMoved) {
      return std::nullopt;
    }
    Statement after = before;
    std::size_t sites = 0;
    bool each_once = true;
    if (!substitute_index(i, after.target, after.loops) || !keeps_loops(before, after) ||
        !substitute(i, after.value, after.loops, sites, each_once)) {
      return std::nullopt;
    }
    const bool repeats = sites > 1 || !each_once;
    if ((cost == Cost::kWork && repeats) ||
        (cost == Cost::kMoved && !contraction && (repeats || consumer_count > 1))) {
      return std::nullopt;
    }
    if ((contraction && !stays_contraction(before, after)) || !own_target_is_safe(i, after)) {
      return std::nullopt;
    }
    if (node_count(after.value) > std::max(kMaxNodes, node_count(before.value))) {
      return std::nullopt;
    }
    return after;
  }

  bool substitute_index(Place i, Access& access, const std::vector<Loop>& loops) const {
    const Producer producer{program_, at(i)};
    for (Index& index : access.indices) {
      if (index.element_of == producer.tensor()) {
        std::optional<Index> direct = composed_index(producer, index, loops);
        if (!direct) {
          return false;
        }
        index = std::move(*direct);
      }
    }
    return true;
  }

  bool substitute(Place i, Expr& expr, const std::vector<Loop>& loops, std::size_t& sites,
                  bool& each_once) const {
    if (expr.op == Op::kRead) {
      const Producer producer{program_, at(i)};
      if (!substitute_index(i, expr.access, loops)) {
        return false;
      }
      if (expr.access.tensor != producer.tensor()) {
        return true;
      }
      ++sites;
      each_once = each_once && reads_each_once(expr.access, loops);
      std::optional<Expr> value = composed(producer, expr.access, loops);
      if (!value) {
        return false;
      }
      expr = std::move(*value);
      return true;
    }
    for (Expr& arg : expr.args) {
      if (!substitute(i, arg, loops, sites, each_once)) {
        return false;
      }
    }
    return true;
  }

  // If the producer reads the consumer's target, then only at the element that is written, so that the
  // fused statement works in place.
  bool own_target_is_safe(Place i, const Statement& after) const {
    const std::uint32_t target = after.target.tensor;
    if (!graph_.reads(i, target)) {
      return true;
    }
    if (after.reduce || has_element_index(after.target)) {
      return false;
    }
    bool safe = true;
    visit_expr(after.value, [&](const Expr& node) {
      if (node.op != Op::kRead) {
        return;
      }
      if (node.access.tensor == target &&
          (node.access.otherwise || node.access.indices != after.target.indices)) {
        safe = false;
      }
      program::visit_index_tensors(node.access,
                                   [&](std::uint32_t tensor) { safe = safe && tensor != target; });
    });
    return safe;
  }

  // `y[i] = t[i]` of whole tensors: if no other statement uses y while t is live, y replaces t.
  bool forward_target(Place j) {
    const Statement& copy = at(j);
    if (graph_.is_removed(j) || graph_.is_grouped(j) || copy.value.op != Op::kRead ||
        copy.value.access.otherwise || !is_elementwise(program_, copy) ||
        copy.value.access.indices != copy.target.indices) {
      return false;
    }
    const std::uint32_t from = copy.value.access.tensor;
    const std::uint32_t to = copy.target.tensor;
    const Tensor& source = program_.tensors[from];
    const Tensor& target = program_.tensors[to];
    if (from == to || source.role != Role::kTemp || source.type != target.type ||
        source.dims != target.dims || graph_.is_written(from, j + 1, graph_.size()) ||
        graph_.is_written(to, j + 1, graph_.size()) ||
        graph_.is_touched(to, graph_.writers(from).front(), j)) {
      return false;
    }
    graph_.remove(j);
    graph_.rename(from, to);
    ++graph_.statistics().substituted;
    return true;
  }

  Graph& graph_;
  const Program& program_;
};

}  // namespace

bool fuse_in(Graph& graph) {
  bool changed = false;
  // Terminates, because each round removes a statement or a read of a temporary. Usually one round suffices.
  while (Fuser(graph).run()) {
    changed = true;
  }
  return changed;
}

}  // namespace yoke::passes
