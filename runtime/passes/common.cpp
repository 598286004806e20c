// SPDX-License-Identifier: Apache-2.0
// runtime/passes/common.cpp: computes equal values once, by numbering them: equal operations on operands with
// equal numbers have equal numbers.
#include <bit>
#include <unordered_map>

#include "graph.h"

namespace yoke::passes {
namespace {

using Key = std::vector<std::uint64_t>;

struct HashOfKey {
  std::size_t operator()(const Key& key) const {
    std::uint64_t hash = key.size();
    for (const std::uint64_t number : key) {
      hash = (hash ^ number) * 0x9E3779B97F4A7C15U;
      hash ^= hash >> 29;
    }
    return hash;
  }
};

void append(Key& key, std::int64_t number) {
  key.push_back(static_cast<std::uint64_t>(number));
}

void append(Key& key, const Affine& affine) {
  append(key, affine.constant);
  key.push_back(affine.terms.size());
  for (const Affine::Term& term : affine.terms) {
    key.push_back(term.id * 2 + (term.is_symbol ? 1 : 0));
    append(key, term.coefficient);
  }
}

class Commoner {
 public:
  explicit Commoner(Graph& graph) : graph_(graph) {
    for (std::uint64_t t = 0; t < graph.program().tensors.size(); ++t) {
      contents_.push_back(number_of({kInitial, t}));
    }
  }

  bool run() {
    for (Place i = 0; i < graph_.size(); ++i) {
      changed_ = visit(i) || changed_;
    }
    return changed_;
  }

 private:
  // First elements of keys, beyond those of operations.
  enum : std::uint64_t { kInitial = 1000, kChanged, kEntered, kStatement };

  std::uint64_t number_of(const Key& key) { return numbers_.try_emplace(key, numbers_.size()).first->second; }

  void append_indices(Key& key, const Access& access) {
    for (const Index& index : access.indices) {
      append(key, index.affine);
      append(key, index.divisor);
      key.push_back(index.element_of ? contents_[*index.element_of] + 1 : 0);
      for (const Affine& affine : index.element_indices) {
        append(key, affine);
      }
    }
  }

  void append_literal(Key& key, Type type, const Literal& literal) {
    key.push_back(program::is_float(type) ? std::bit_cast<std::uint64_t>(literal.number)
                                          : static_cast<std::uint64_t>(literal.integer));
  }

  // Also writes equal parts of a value alike, so that rules and backends find them: of `a + b` and `b + a`,
  // the second becomes the first. Loops count by their numbers, so their names do not matter.
  std::uint64_t number_of(Expr& expr) {
    ++graph_.report().visits;
    Key key = {static_cast<std::uint64_t>(expr.op), static_cast<std::uint64_t>(expr.type)};
    switch (expr.op) {
      case Op::kConst:
        append_literal(key, expr.type, expr.literal);
        break;
      case Op::kRead:
        key.push_back(contents_[expr.access.tensor]);
        append_indices(key, expr.access);
        if (expr.access.otherwise) {
          append_literal(key, expr.type, *expr.access.otherwise);
        }
        break;
      case Op::kIndex:
        append(key, expr.affine);
        break;
      case Op::kGuard:
        append_literal(key, expr.type, expr.literal);
        key.push_back(number_of(expr.args[0]));
        break;
      default:
        for (Expr& arg : expr.args) {
          key.push_back(number_of(arg));
        }
        if (op_info(expr.op).commutes) {
          std::sort(key.begin() + 2, key.begin() + 4);
        }
    }
    const std::uint64_t number = number_of(key);
    if (!expr.args.empty()) {
      const auto [known, is_new] = parts_.try_emplace(number, &expr);
      if (!is_new && !program::same(*known->second, expr)) {
        Expr copy = *known->second;
        expr = std::move(copy);
        changed_ = true;
      }
    }
    return number;
  }

  // At the start of a round, what the block writes may be from the round before. Within a round, its
  // statements run once, in order.
  void enter_block(Place first) {
    for (Place i = first; i < graph_.end_of_group(first); ++i) {
      const std::uint32_t target = graph_.at(i).target.tensor;
      contents_[target] = number_of({kEntered, first, target});
    }
  }

  bool visit(Place i) {
    const Statement& statement = graph_.at(i);
    const std::uint32_t target = statement.target.tensor;
    if (graph_.is_repeated(i) && !graph_.continues_group(i)) {
      enter_block(i);
    }
    parts_.clear();
    const std::uint64_t value = number_of(graph_.value(i));
    if (statement.assign != Assign::kSet) {
      contents_[target] = number_of({kChanged, i});
      return false;
    }
    // Two partial writes may also be equal, if nothing writes the target in between.
    const bool whole = overwrites_target(graph_.program(), statement);
    Key key = {kStatement, static_cast<std::uint64_t>(graph_.target_of(i).type), statement.loops.size(),
               statement.reduce_loops.size(), graph_.target_of(i).dims.size()};
    key.insert(key.end(), graph_.target_of(i).dims.begin(), graph_.target_of(i).dims.end());
    if (!whole) {
      key.insert(key.end(), {target, contents_[target]});
    }
    append_indices(key, statement.target);
    for (const Loop& loop : statement.loops) {
      key.push_back(loop.extent);
    }
    append(key, statement.reduce ? static_cast<std::int64_t>(*statement.reduce) : -1);
    key.insert(key.end(), statement.reduce_loops.begin(), statement.reduce_loops.end());
    append(key, static_cast<std::int64_t>(statement.accumulator_type()));
    key.push_back(value);
    contents_[target] = number_of(key);
    if (!whole) {
      return false;
    }
    const auto [known, is_new] = computed_.try_emplace(contents_[target], i);
    if (is_new) {
      return false;
    }
    const bool merged = merge(known->second, i);
    if (!merged) {
      known->second = i;  // the latest is the most likely to be unchanged
    }
    graph_.report().merged += merged ? 1 : 0;
    return merged;
  }

  bool merge(Place earlier, Place later) {
    const std::uint32_t a = graph_.at(earlier).target.tensor;
    const std::uint32_t b = graph_.at(later).target.tensor;
    if (!graph_.are_together(earlier, later) || graph_.is_written(a, earlier + 1, later)) {
      return false;
    }
    const auto is_own_temporary = [&](Place i) {
      return graph_.target_of(i).role == Role::kTemp && graph_.is_written_only_by(i);
    };
    const bool drops_b = is_own_temporary(later) && !graph_.is_written(a, later + 1, graph_.end_of(b));
    const bool drops_a = is_own_temporary(earlier) && !graph_.is_touched(b, earlier, later) &&
                         !graph_.is_written(b, later + 1, graph_.end_of(a));
    if (a != b && !drops_b && !drops_a) {
      return copy_result(earlier, later);
    }
    graph_.note(later,
                [&] { return "removed: " + line_of(graph_.at(earlier)) + " computes the same value"; });
    graph_.remove(later);
    if (a != b) {
      graph_.rename(drops_b ? b : a, drops_b ? a : b);
    }
    return true;
  }

  // If two arguments receive the same result, the second becomes a copy of the first if that saves a
  // reduction.
  bool copy_result(Place earlier, Place later) {
    if (!graph_.at(later).reduce) {
      return false;
    }
    graph_.note(later, [&] { return "copies the same value from " + line_of(graph_.at(earlier)); });
    graph_.edit(later, [&](Statement& statement) {
      statement.loops.resize(statement.loops.size() - statement.reduce_loops.size());
      statement.reduce.reset();
      statement.reduce_loops.clear();
      statement.accumulator.reset();
      Access source = statement.target;
      source.tensor = graph_.at(earlier).target.tensor;
      statement.value = Expr::read(graph_.target_of(later).type, std::move(source));
    });
    return true;
  }

  Graph& graph_;
  bool changed_ = false;
  std::unordered_map<std::uint64_t, const Expr*> parts_;  // of the current value
  std::unordered_map<Key, std::uint64_t, HashOfKey> numbers_;
  std::vector<std::uint64_t> contents_;                // the number of each tensor's present value
  std::unordered_map<std::uint64_t, Place> computed_;  // where a value was last computed
};

}  // namespace

bool merge_equal_in(Graph& graph) {
  return Commoner(graph).run();
}

}  // namespace yoke::passes
