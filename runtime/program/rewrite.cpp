// SPDX-License-Identifier: Apache-2.0
// runtime/program/rewrite.cpp: what the passes ask of a program, and the edits they share.
#include "rewrite.h"

#include <bit>
#include <cmath>

namespace yoke::passes {
namespace {

void add_access(const Access& access, std::vector<std::uint32_t>& out) {
  for (const Index& index : access.indices) {
    if (index.element_of) {
      out.push_back(*index.element_of);
    }
  }
}

void make_set(std::vector<std::uint32_t>& tensors) {
  std::sort(tensors.begin(), tensors.end());
  tensors.erase(std::unique(tensors.begin(), tensors.end()), tensors.end());
}

void add_reads(const Expr& expr, std::vector<std::uint32_t>& out) {
  visit_expr(expr, [&](const Expr& node) {
    if (node.op == Op::kRead) {
      out.push_back(node.access.tensor);
      add_access(node.access, out);
    }
  });
}

void rename_in(Access& access, std::uint32_t from, std::uint32_t to) {
  if (access.tensor == from) {
    access.tensor = to;
  }
  for (Index& index : access.indices) {
    if (index.element_of == from) {
      index.element_of = to;
    }
  }
}

void renumber(Access& access, const std::vector<std::uint32_t>& numbers) {
  access.tensor = numbers[access.tensor];
  for (Index& index : access.indices) {
    if (index.element_of) {
      index.element_of = numbers[*index.element_of];
    }
  }
}

}  // namespace

std::size_t node_count(const Expr& expr) {
  std::size_t count = 0;
  visit_expr(expr, [&](const Expr&) { ++count; });
  return count;
}

std::vector<std::uint32_t> index_tensors(const Access& access) {
  std::vector<std::uint32_t> tensors;
  add_access(access, tensors);
  make_set(tensors);
  return tensors;
}

std::vector<std::uint32_t> tensors_read(const Expr& expr) {
  std::vector<std::uint32_t> tensors;
  add_reads(expr, tensors);
  make_set(tensors);
  return tensors;
}

std::vector<std::uint32_t> tensors_read(const Statement& statement) {
  std::vector<std::uint32_t> tensors;
  add_reads(statement.value, tensors);
  add_access(statement.target, tensors);
  if (statement.assign != Assign::kSet) {
    tensors.push_back(statement.target.tensor);
  }
  make_set(tensors);
  return tensors;
}

bool writes_whole(const Program& program, const Statement& statement) {
  if (statement.assign != Assign::kSet) {
    return false;
  }
  const Tensor& tensor = program.tensors[statement.target.tensor];
  std::vector<bool> used(statement.loops.size(), false);
  for (std::size_t d = 0; d < tensor.dims.size(); ++d) {
    const Index& index = statement.target.indices[d];
    if (index.element_of) {
      return false;
    }
    if (tensor.dims[d] == 1) {
      continue;  // a verified index can only be 0
    }
    // A loop as long as the dimension, alone but for an offset, which can then only be the one that fits.
    std::optional<std::uint32_t> loop;
    for (const Affine::Term& term : index.affine.terms) {
      if (term.is_symbol) {
        continue;
      }
      if (loop || (term.coefficient != 1 && term.coefficient != -1)) {
        return false;
      }
      loop = term.id;
    }
    if (!loop || used[*loop] || statement.loops[*loop].extent != tensor.dims[d]) {
      return false;
    }
    used[*loop] = true;
  }
  return true;
}

std::optional<Range> range_of(const Program& program, const std::vector<Loop>& loops, const Affine& affine) {
  Range range{affine.constant, affine.constant};
  for (const Affine::Term& term : affine.terms) {
    std::int64_t low = 0;
    std::int64_t high = 0;
    if (term.is_symbol) {
      const program::Symbol& symbol = program.symbols[term.id];
      low = symbol.low;
      std::int64_t span = 0;
      if (__builtin_sub_overflow(symbol.high - 1, symbol.low, &span)) {
        return std::nullopt;
      }
      high = symbol.low + span / symbol.step * symbol.step;
    } else {
      high = static_cast<std::int64_t>(loops[term.id].extent) - 1;
    }
    if (term.coefficient < 0) {
      std::swap(low, high);
    }
    std::int64_t at_low = 0;
    std::int64_t at_high = 0;
    if (__builtin_mul_overflow(term.coefficient, low, &at_low) ||
        __builtin_mul_overflow(term.coefficient, high, &at_high) ||
        __builtin_add_overflow(range.low, at_low, &range.low) ||
        __builtin_add_overflow(range.high, at_high, &range.high)) {
      return std::nullopt;
    }
  }
  return range;
}

bool stays_inside(const Program& program, const std::vector<Loop>& loops, const Index& index,
                  std::uint64_t dim) {
  if (index.element_of) {
    return false;
  }
  const std::optional<Range> range = range_of(program, loops, index.affine);
  return range && range->low >= 0 && static_cast<std::uint64_t>(range->high) < dim;
}

bool same_literal(Type type, const Literal& a, const Literal& b) {
  Expr left = Expr::constant(type, 0);
  Expr right = left;
  left.literal = a;
  right.literal = b;
  return program::same(left, right);
}

void rename_tensor(Statement& statement, std::uint32_t from, std::uint32_t to) {
  rename_in(statement.target, from, to);
  visit_expr(statement.value, [&](Expr& node) {
    if (node.op == Op::kRead) {
      rename_in(node.access, from, to);
    }
  });
}

void remove_statements(Program& program, const std::vector<bool>& marked) {
  std::vector<Statement> kept;
  std::vector<std::int32_t> hint_numbers(program.hints.size(), -1);
  std::vector<std::string> hints;
  for (std::size_t i = 0; i < program.statements.size(); ++i) {
    if (marked[i]) {
      continue;
    }
    Statement& statement = program.statements[i];
    if (statement.hint >= 0) {
      const auto old = static_cast<std::size_t>(statement.hint);
      if (hint_numbers[old] < 0) {
        hint_numbers[old] = static_cast<std::int32_t>(hints.size());
        hints.push_back(program.hints[old]);
      }
      statement.hint = hint_numbers[old];
    }
    kept.push_back(std::move(statement));
  }
  program.statements = std::move(kept);
  program.hints = std::move(hints);
}

void remove_unused_temporaries(Program& program) {
  std::vector<bool> used(program.tensors.size(), false);
  for (const Statement& statement : program.statements) {
    used[statement.target.tensor] = true;
    for (const std::uint32_t tensor : tensors_read(statement)) {
      used[tensor] = true;
    }
  }
  std::vector<std::uint32_t> numbers(program.tensors.size(), 0);
  std::vector<Tensor> kept;
  for (std::size_t i = 0; i < program.tensors.size(); ++i) {
    numbers[i] = static_cast<std::uint32_t>(kept.size());
    if (used[i] || program.tensors[i].role != Role::kTemp) {
      kept.push_back(std::move(program.tensors[i]));
    }
  }
  program.tensors = std::move(kept);
  for (Statement& statement : program.statements) {
    renumber(statement.target, numbers);
    visit_expr(statement.value, [&](Expr& node) {
      if (node.op == Op::kRead) {
        renumber(node.access, numbers);
      }
    });
  }
}

}  // namespace yoke::passes
