// SPDX-License-Identifier: Apache-2.0
// runtime/passes/fuse.cpp: substitutes elementwise temporaries where they are read, if that is never slower.
#include "compose.h"
#include "cost.h"

namespace yoke::passes {
namespace {

// The size limit of a fused statement, which keeps fusion and the backends' compilers fast.
constexpr std::size_t kMaxNodes = 64;

class Fuser {
 public:
  explicit Fuser(Program& program) : program_(program), removed_(program.statements.size(), false) {
    for (const Statement& statement : program_.statements) {
      reads_.push_back(tensors_read(statement));
    }
  }

  bool run() {
    bool changed = false;
    for (std::size_t i = 0; i < program_.statements.size(); ++i) {
      changed = fuse_producer(i) || changed;
    }
    for (std::size_t i = 0; i < program_.statements.size(); ++i) {
      changed = forward_target(i) || changed;
    }
    if (changed) {
      remove_statements(program_, removed_);
      remove_unused_temporaries(program_);
    }
    return changed;
  }

 private:
  const Statement& at(std::size_t i) const { return program_.statements[i]; }
  std::size_t count() const { return program_.statements.size(); }
  bool reads(std::size_t i, std::uint32_t tensor) const {
    return !removed_[i] && contains(reads_[i], tensor);
  }
  bool writes(std::size_t i, std::uint32_t tensor) const {
    return !removed_[i] && at(i).target.tensor == tensor;
  }

  bool may_move(std::size_t i) const {
    const Statement& statement = at(i);
    const std::uint32_t target = statement.target.tensor;
    if (removed_[i] || statement.hint >= 0 || program_.tensors[target].role != Role::kTemp ||
        !is_elementwise(program_, statement)) {
      return false;
    }
    for (std::size_t j = 0; j < count(); ++j) {
      if (j != i && writes(j, target)) {
        return false;
      }
    }
    return !reads(i, target);
  }

  bool fuse_producer(std::size_t i) {
    if (!may_move(i)) {
      return false;
    }
    const Cost cost = cost_of(program_, at(i));
    std::vector<std::size_t> consumers;
    for (std::size_t j = i + 1; j < count(); ++j) {
      if (reads(j, at(i).target.tensor)) {
        consumers.push_back(j);
      }
    }
    const bool may_repeat = cost == Cost::kFree || cost == Cost::kCopy || cost == Cost::kMoved;
    if (consumers.empty() || (consumers.size() > 1 && !may_repeat)) {
      return false;
    }
    std::vector<std::pair<std::size_t, Statement>> fused;
    for (const std::size_t j : consumers) {
      std::optional<Statement> statement = fused_into(i, j, cost, consumers.size());
      if (statement) {
        fused.emplace_back(j, std::move(*statement));
      } else if (cost != Cost::kFree) {
        return false;  // the temporary would stay, so nothing is gained
      }
    }
    for (auto& [j, statement] : fused) {
      program_.statements[j] = std::move(statement);
      reads_[j] = tensors_read(at(j));
    }
    removed_[i] = fused.size() == consumers.size();
    return !fused.empty();
  }

  // Whether a statement between the two writes a tensor that the producer reads.
  bool is_disturbed(std::size_t producer, std::size_t consumer) const {
    for (std::size_t k = producer + 1; k < consumer; ++k) {
      if (!removed_[k] && contains(reads_[producer], at(k).target.tensor)) {
        return true;
      }
    }
    return false;
  }

  std::optional<Statement> fused_into(std::size_t i, std::size_t j, Cost cost,
                                      std::size_t consumer_count) const {
    const Statement& before = at(j);
    if (before.hint >= 0 || is_disturbed(i, j)) {
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

  bool substitute_index(std::size_t i, Access& access, const std::vector<Loop>& loops) const {
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

  bool substitute(std::size_t i, Expr& expr, const std::vector<Loop>& loops, std::size_t& sites,
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
  bool own_target_is_safe(std::size_t i, const Statement& after) const {
    const std::uint32_t target = after.target.tensor;
    if (!contains(reads_[i], target)) {
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
  bool forward_target(std::size_t j) {
    const Statement& copy = at(j);
    if (removed_[j] || copy.hint >= 0 || copy.value.op != Op::kRead || copy.value.access.otherwise ||
        !is_elementwise(program_, copy) || copy.value.access.indices != copy.target.indices) {
      return false;
    }
    const std::uint32_t from = copy.value.access.tensor;
    const std::uint32_t to = copy.target.tensor;
    const Tensor& source = program_.tensors[from];
    const Tensor& target = program_.tensors[to];
    if (from == to || source.role != Role::kTemp || source.type != target.type ||
        source.dims != target.dims) {
      return false;
    }
    bool source_lives = false;
    for (std::size_t k = 0; k < count(); ++k) {
      const bool touches_target = writes(k, to) || reads(k, to);
      source_lives = source_lives || writes(k, from);
      if ((k < j && source_lives && touches_target) || (k > j && (writes(k, from) || writes(k, to)))) {
        return false;
      }
    }
    removed_[j] = true;
    for (std::size_t k = 0; k < count(); ++k) {
      rename_tensor(program_.statements[k], from, to);
      reads_[k] = tensors_read(at(k));
    }
    return true;
  }

  Program& program_;
  std::vector<bool> removed_;
  std::vector<std::vector<std::uint32_t>> reads_;  // by statement
};

}  // namespace

bool fuse_in(Program& program) {
  bool changed = false;
  // Terminates, because each round removes a statement or a read of a temporary, or moves an epilogue.
  // Usually one round suffices.
  while (Fuser(program).run() || place_epilogues_in(program)) {
    changed = true;
  }
  return changed;
}

}  // namespace yoke::passes
