// SPDX-License-Identifier: Apache-2.0
// runtime/passes/cost.cpp: the cost of computing a temporary where it
// is read, and when a contraction stays one.
#include "cost.h"

namespace yoke::passes {
namespace {

const Expr& without_casts(const Expr& expr) {
  return expr.op == Op::kCast ? without_casts(expr.args[0]) : expr;
}

std::vector<bool> loops_of(const Access& access, std::size_t loop_count) {
  std::vector<bool> loops(loop_count, false);
  for (const Index& index : access.indices) {
    for (const Affine::Term& term : index.affine.terms) {
      if (!term.is_symbol) {
        loops[term.id] = true;
      }
    }
  }
  return loops;
}

bool mentions(const Access& access, std::uint32_t loop) {
  const auto has_loop = [&](const Affine& affine) {
    return std::any_of(affine.terms.begin(), affine.terms.end(),
                       [&](const Affine::Term& term) { return !term.is_symbol && term.id == loop; });
  };
  return std::any_of(access.indices.begin(), access.indices.end(), [&](const Index& index) {
    return has_loop(index.affine) ||
           std::any_of(index.element_indices.begin(), index.element_indices.end(), has_loop);
  });
}

// A slice, a transpose or a broadcast: at most one loop per index, unscaled, and no loop in two indices.
bool is_plain_copy(const Expr& value, std::size_t loop_count) {
  if (value.op != Op::kRead || value.access.otherwise) {
    return false;
  }
  std::vector<bool> used(loop_count, false);
  for (const Index& index : value.access.indices) {
    if (index.element_of) {
      return false;
    }
    bool has_loop = false;
    for (const Affine::Term& term : index.affine.terms) {
      if (term.is_symbol) {
        continue;
      }
      if (has_loop || term.coefficient != 1 || used[term.id]) {
        return false;
      }
      has_loop = used[term.id] = true;
    }
  }
  return true;
}

// Whether a plain copy reads its source in the order in which it writes, so that neighbors stay neighbors.
bool keeps_order(const Statement& statement, const Expr& read) {
  std::optional<std::uint32_t> last;
  bool last_index_has_loop = false;
  for (const Index& index : read.access.indices) {
    last_index_has_loop = false;
    for (const Affine::Term& term : index.affine.terms) {
      if (!term.is_symbol) {
        // Loops of an elementwise statement are numbered in the order of its target's dimensions.
        if (last && term.id < *last) {
          return false;
        }
        last = term.id;
        last_index_has_loop = true;
      }
    }
  }
  const bool reads_innermost = last && *last + 1 == statement.loops.size();
  return !reads_innermost || last_index_has_loop;
}

const Expr& without_guard(const Expr& expr) {
  return expr.op == Op::kGuard ? expr.args[0] : expr;
}

bool is_plain_operand(const Expr& operand) {
  const Expr& read = without_casts(operand);
  return read.op == Op::kRead && !read.access.otherwise && !has_element_index(read.access);
}

// The time that each element takes, in additions. Elements of index tensors point anywhere in memory.
int work_of(const Expr& expr) {
  int work = op_info(expr.op).cost + (expr.op == Op::kRead && has_element_index(expr.access) ? 8 : 0);
  for (const Expr& arg : expr.args) {
    work += work_of(arg);
  }
  return work;
}
constexpr int kLightWork = 6;

// Operands with at least a quarter of the elements that the statement writes. Others are broadcast.
std::vector<std::uint32_t> large_operands(const Program& program, const Statement& statement) {
  const std::uint64_t count = program.tensors[statement.target.tensor].element_count();
  std::vector<std::uint32_t> operands = tensors_read(statement);
  std::erase_if(operands, [&](std::uint32_t tensor) {
    return program.tensors[tensor].element_count() < std::max<std::uint64_t>(count / 4, 2);
  });
  return operands;
}

}  // namespace

bool inputs_live_until(const Graph& graph, Place producer, Place last) {
  const std::vector<std::uint32_t> large = large_operands(graph.program(), graph.at(producer));
  return large.size() <= 1 && std::all_of(large.begin(), large.end(), [&](std::uint32_t tensor) {
           return graph.program().tensors[tensor].role != Role::kTemp || graph.end_of(tensor) > last;
         });
}

bool is_contraction(const Statement& statement) {
  const Expr& product = without_guard(statement.value);
  if (statement.reduce != Reduce::kSum || product.op != Op::kMul) {
    return false;
  }
  const Expr& a = without_casts(product.args[0]);
  const Expr& b = without_casts(product.args[1]);
  const std::size_t count = statement.loops.size();
  return a.op == Op::kRead && b.op == Op::kRead && loops_of(a.access, count) != loops_of(b.access, count);
}

bool is_matrix_product(const Statement& statement) {
  if (!is_contraction(statement)) {
    return false;
  }
  const std::vector<Expr>& factors = without_guard(statement.value).args;
  const std::size_t count = statement.loops.size();
  const std::vector<bool> a = loops_of(without_casts(factors[0]).access, count);
  const std::vector<bool> b = loops_of(without_casts(factors[1]).access, count);
  bool only_a = false;
  bool only_b = false;
  for (std::size_t i = 0; i < count; ++i) {
    only_a = only_a || (a[i] && !b[i]);
    only_b = only_b || (b[i] && !a[i]);
  }
  return only_a && only_b;
}

bool keeps_loops(const Statement& before, const Statement& after) {
  for (std::uint32_t loop = 0; loop < before.loops.size(); ++loop) {
    if (mentions(before.target, loop) && !mentions(after.target, loop)) {
      return false;
    }
  }
  return true;
}

Cost cost_of(const Program& program, const Statement& statement) {
  const Expr* leaf = &statement.value;
  std::size_t depth = 0;
  while (leaf->op == Op::kCast || leaf->op == Op::kNeg) {
    leaf = &leaf->args[0];
    ++depth;
  }
  const bool is_scalar = leaf->op == Op::kRead && program.tensors[leaf->access.tensor].dims.empty();
  if ((leaf->op == Op::kConst || leaf->op == Op::kIndex || is_scalar) && depth <= 2) {
    return Cost::kFree;
  }
  if (!is_plain_copy(*leaf, statement.loops.size()) || depth > 1) {
    return work_of(statement.value) <= kLightWork ? Cost::kLight : Cost::kWork;
  }
  const bool in_order = keeps_order(statement, *leaf);
  if (depth == 1) {
    return in_order ? Cost::kCheap : Cost::kWork;
  }
  return in_order ? Cost::kCopy : Cost::kMoved;
}

bool reads_each_once(const Access& access, const std::vector<Loop>& loops) {
  for (const Index& index : access.indices) {
    std::size_t loop_count = 0;
    for (const Affine::Term& term : index.affine.terms) {
      loop_count += term.is_symbol ? 0 : 1;
    }
    if (index.element_of || loop_count > 1) {
      return false;
    }
  }
  const std::vector<bool> present = loops_of(access, loops.size());
  for (std::size_t i = 0; i < loops.size(); ++i) {
    if (!present[i] && loops[i].extent > 1) {
      return false;
    }
  }
  return true;
}

bool stays_contraction(const Statement& before, const Statement& after) {
  if (!is_contraction(after)) {
    return false;
  }
  const std::size_t loop_count = before.loops.size();
  const std::vector<Expr>& factors_before = without_guard(before.value).args;
  const std::vector<Expr>& factors = without_guard(after.value).args;
  std::vector<bool> now[2];
  for (std::size_t i = 0; i < 2; ++i) {
    now[i] = loops_of(without_casts(factors[i]).access, loop_count);
  }
  for (std::size_t i = 0; i < 2; ++i) {
    if (!program::same(factors_before[i], factors[i]) && !is_plain_operand(factors[i])) {
      return false;
    }
    const std::vector<bool> was = loops_of(without_casts(factors_before[i]).access, loop_count);
    for (std::uint32_t loop = 0; loop < loop_count; ++loop) {
      if (was[loop] && !now[i][loop] && (before.reduces(loop) || !now[1 - i][loop])) {
        return false;
      }
    }
  }
  return true;
}

}  // namespace yoke::passes
