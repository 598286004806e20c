// SPDX-License-Identifier: Apache-2.0
// runtime/passes/compose.cpp: replaces a read of a temporary by the expression that computes it.
#include "compose.h"

#include "cost.h"

namespace yoke::passes {
namespace {

class Composer {
 public:
  Composer(const Producer& producer, const std::vector<Index>& outer, const std::vector<Loop>& loops)
      : producer_(producer), outer_(outer), may_exceed_(outer.size(), false) {
    for (std::size_t d = 0; d < outer.size(); ++d) {
      may_exceed_[d] = may_be_out_of_range(producer.program, loops, outer[d], producer.dims()[d]);
    }
  }

  bool may_exceed() const {
    return std::find(may_exceed_.begin(), may_exceed_.end(), true) != may_exceed_.end();
  }

  std::optional<Affine> affine(const Affine& inner) const {
    Affine result = Affine::number(inner.constant);
    for (const Affine::Term& term : inner.terms) {
      if (term.is_symbol) {
        if (!add_scaled(result, Affine::symbol(term.id), term.coefficient)) {
          return std::nullopt;
        }
        continue;
      }
      const Index& index = outer_[producer_.dim_of(term.id)];
      if (index.element_of || index.divisor != 1 || !add_scaled(result, index.affine, term.coefficient)) {
        return std::nullopt;
      }
    }
    return result;
  }

  std::optional<Index> index(const Index& inner) const {
    Index result = inner;
    if (inner.element_of) {
      for (Affine& element : result.element_indices) {
        std::optional<Affine> composed_element = affine(element);
        if (!composed_element || may_exceed(element)) {  // no `else` covers the index tensor
          return std::nullopt;
        }
        element = std::move(*composed_element);
      }
      return result;
    }
    if (const auto loop = inner.divisor == 1 ? inner.affine.single_loop() : std::nullopt) {
      return outer_[producer_.dim_of(*loop)];
    }
    std::optional<Affine> composed_affine = affine(inner.affine);
    if (!composed_affine) {
      return std::nullopt;
    }
    result.affine = std::move(*composed_affine);
    return result;
  }

  bool expr(Expr& inner) const {
    if (inner.op == Op::kIndex) {
      const std::optional<Affine> value = affine(inner.affine);
      if (!value) {
        return false;
      }
      inner = value_of(*value);
      return true;
    }
    for (Index& own : inner.access.indices) {
      std::optional<Index> direct = index(own);
      if (!direct) {
        return false;
      }
      own = std::move(*direct);
    }
    return std::all_of(inner.args.begin(), inner.args.end(), [&](Expr& arg) { return expr(arg); });
  }

  // Whether an access is out of range in the temporary exactly if the
  // copy's access is out of range in its source.
  bool exceeds_with(const Access& source) const {
    const std::vector<std::uint64_t>& source_dims = producer_.program.tensors[source.tensor].dims;
    for (std::size_t d = 0; d < may_exceed_.size(); ++d) {
      if (!may_exceed_[d]) {
        continue;
      }
      bool is_alone = false;
      for (std::size_t s = 0; s < source.indices.size(); ++s) {
        const Index& index = source.indices[s];
        if (index.divisor == 1 && source_dims[s] == producer_.dims()[d]) {
          const std::optional<std::uint32_t> loop = index.affine.single_loop();
          is_alone = is_alone || (loop && producer_.dim_of(*loop) == d);
        }
      }
      if (!is_alone) {
        return false;
      }
    }
    return true;
  }

 private:
  bool may_exceed(const Affine& inner) const {
    return std::any_of(inner.terms.begin(), inner.terms.end(), [&](const Affine::Term& term) {
      return !term.is_symbol && may_exceed_[producer_.dim_of(term.id)];
    });
  }

  const Producer& producer_;
  const std::vector<Index>& outer_;
  std::vector<bool> may_exceed_;
};

// The size limit of a statement with substituted values, which keeps passes and the backends' compilers fast.
constexpr std::size_t kMaxNodes = 64;

// The element of another tensor that holds the same value; nothing unless the producer copies it.
std::optional<Index> composed_index(const Producer& producer, const Index& index,
                                    const std::vector<Loop>& loops) {
  const std::optional<Expr> value = composed(producer, access_of(index), loops);
  const bool is_plain = value && value->op == Op::kRead && !value->access.otherwise;
  return is_plain ? program::element_of(value->access) : std::nullopt;
}

bool substitute_index(const Producer& producer, Access& access, const std::vector<Loop>& loops) {
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

// Whether most iterations of the reader read out of range. Precondition: it reads each element at most
// once. A guard computes the value before discarding it, so substitution would add work.
bool is_mostly_out_of_range(const Producer& producer, const Statement& reader) {
  const std::uint64_t count = producer.program.tensors[producer.tensor()].element_count();
  std::uint64_t iterations = 1;
  for (const Loop& loop : reader.loops) {
    iterations *= loop.extent;
  }
  return iterations / 2 > count;
}

bool substitute(const Producer& producer, Expr& expr, Substitution& result) {
  if (expr.op != Op::kRead) {
    return std::all_of(expr.args.begin(), expr.args.end(),
                       [&](Expr& arg) { return substitute(producer, arg, result); });
  }
  const std::vector<Loop>& loops = result.statement.loops;
  if (!substitute_index(producer, expr.access, loops)) {
    return false;
  }
  if (expr.access.tensor != producer.tensor()) {
    return true;
  }
  ++result.sites;
  result.each_once = result.each_once && reads_each_once(expr.access, result.statement) &&
                     !is_mostly_out_of_range(producer, result.statement);
  std::optional<Expr> value = composed(producer, expr.access, loops);
  if (!value) {
    return false;
  }
  expr = std::move(*value);
  return true;
}

}  // namespace

std::size_t Producer::dim_of(std::uint32_t loop) const {
  for (std::size_t d = 0; d < statement.target.indices.size(); ++d) {
    if (statement.target.indices[d].affine.single_loop() == loop) {
      return d;
    }
  }
  return 0;  // unreachable: is_elementwise found a dimension for every loop
}

bool is_elementwise(const Program& program, const Statement& statement) {
  if (statement.assign != Assign::kSet) {  // a scatter never assigns with =
    return false;
  }
  const std::vector<std::uint64_t>& dims = program.tensors[statement.target.tensor].dims;
  std::vector<int> use_counts(statement.loops.size(), 0);
  for (std::size_t d = 0; d < dims.size(); ++d) {
    const std::optional<std::uint32_t> loop = statement.target.indices[d].affine.single_loop();
    if (dims[d] != (loop ? statement.loops[*loop].extent : 1)) {
      return false;
    }
    if (loop) {
      ++use_counts[*loop];
    }
  }
  // The summed loops index no dimension, so a reduction is rejected.
  return std::all_of(use_counts.begin(), use_counts.end(), [](int count) { return count == 1; });
}

// Whether no iteration writes what another iteration reads.
bool keeps_what_it_reads(const Statement& statement) {
  bool keeps = !has_element_index(statement.target);
  visit_expr(statement.value, [&](const Expr& node) {
    if (node.op != Op::kRead) {
      return;
    }
    const Access& access = node.access;
    const std::uint32_t target = statement.target.tensor;
    const bool is_own = !statement.reduce && access.indices == statement.target.indices;
    keeps = keeps && (access.tensor != target || is_own || are_apart(access, statement.target));
    program::visit_index_tensors(access, [&](std::uint32_t index) { keeps = keeps && index != target; });
  });
  return keeps;
}

bool is_producer(const Graph& graph, Place i) {
  return !graph.is_removed(i) && graph.target_of(i).role == Role::kTemp && graph.is_written_only_by(i) &&
         !graph.reads(i, graph.at(i).target.tensor) && is_elementwise(graph.program(), graph.at(i));
}

std::optional<Substitution> substitution(const Graph& graph, Place i, Place j) {
  const Statement& before = graph.at(j);
  // Within a group, a later statement reads the value of the same round.
  const bool enters_block = !graph.is_grouped(i) && graph.is_repeated(j) && before.hint < 0;
  if (j < i || (!enters_block && !graph.are_together(i, j)) ||
      graph.is_disturbed(i, i + 1, enters_block ? graph.end_of_group(j) : j)) {
    return std::nullopt;
  }
  const Producer producer{graph.program(), graph.at(i)};
  Substitution result{before};
  Statement& after = result.statement;
  if (!substitute_index(producer, after.target, after.loops) ||
      loops_of(before.target, before) != loops_of(after.target, after) ||  // an element index lost a loop
      !substitute(producer, after.value, result) ||
      (graph.reads(i, after.target.tensor) && !keeps_what_it_reads(after)) ||
      node_count(after.value) > std::max(kMaxNodes, node_count(before.value))) {
    return std::nullopt;
  }
  return result;
}

std::optional<Expr> composed(const Producer& producer, const Access& access, const std::vector<Loop>& loops) {
  const Composer composer(producer, access.indices, loops);
  Expr value = producer.statement.value;
  if (!composer.may_exceed()) {
    return composer.expr(value) ? std::optional(std::move(value)) : std::nullopt;
  }
  // Without an `else`, the read is in a guard, which then covers what replaces the read.
  const std::optional<Literal>& otherwise = access.otherwise;
  if (otherwise && value.op == Op::kConst) {
    return same(value.type, value.literal, *otherwise) ? std::optional(std::move(value)) : std::nullopt;
  }
  if (otherwise && value.access.otherwise && same(value.type, *value.access.otherwise, *otherwise)) {
    value.access.otherwise.reset();
  }
  bool exceeds = false;
  visit_open_reads(value, [&](const Expr& read) { exceeds = exceeds || composer.exceeds_with(read.access); });
  if (!exceeds || !composer.expr(value)) {
    return std::nullopt;
  }
  return otherwise ? Expr::guard(std::move(value), *otherwise) : std::move(value);
}

}  // namespace yoke::passes
