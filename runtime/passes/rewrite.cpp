// SPDX-License-Identifier: Apache-2.0
// runtime/passes/rewrite.cpp: queries and edits that the passes share.
#include "rewrite.h"

#include <numeric>

namespace yoke::passes {
namespace {

// Calls visit(tensor number) for every use of a tensor, by reference, so that it can be changed.
template <typename Visit>
void visit_mentions(Access& access, const Visit& visit) {
  visit(access.tensor);
  for (Index& index : access.indices) {
    if (index.element_of) {
      visit(*index.element_of);
    }
  }
}
template <typename Visit>
void visit_mentions(Statement& statement, const Visit& visit) {
  visit_mentions(statement.target, visit);
  visit_expr(statement.value, [&](Expr& node) {
    if (node.op == Op::kRead) {
      visit_mentions(node.access, visit);
    }
  });
}

}  // namespace

std::size_t node_count(const Expr& expr) {
  std::size_t count = 0;
  visit_expr(expr, [&](const Expr&) { ++count; });
  return count;
}

std::string line_of(const Statement& statement) {
  return "line " + std::to_string(statement.at.line);
}

std::vector<std::uint32_t> tensors_read(const Statement& statement) {
  std::vector<std::uint32_t> tensors;
  const auto add = [&](std::uint32_t tensor) { tensors.push_back(tensor); };
  program::visit_read_tensors(statement.value, add);
  program::visit_index_tensors(statement.target, add);
  if (statement.assign != Assign::kSet) {
    add(statement.target.tensor);
  }
  std::sort(tensors.begin(), tensors.end());
  tensors.erase(std::unique(tensors.begin(), tensors.end()), tensors.end());
  return tensors;
}

bool reads_only_at(const Expr& expr, std::uint32_t tensor, const std::vector<Index>& indices) {
  bool only = true;
  visit_expr(expr, [&](const Expr& node) {
    if (node.op == Op::kRead) {
      const Access& access = node.access;
      only = only && (access.tensor != tensor || (!access.otherwise && access.indices == indices));
      program::visit_index_tensors(access, [&](std::uint32_t index) { only = only && index != tensor; });
    }
  });
  return only;
}

bool are_apart(const Access& a, const Access& b) {
  const auto is_fixed = [](const Affine& affine) {
    return std::all_of(affine.terms.begin(), affine.terms.end(),
                       [](const Affine::Term& term) { return term.is_symbol; });
  };
  for (std::size_t d = 0; d < a.indices.size(); ++d) {
    const Index& one = a.indices[d];
    const Index& other = b.indices[d];
    if (!one.element_of && !other.element_of && one.divisor == 1 && other.divisor == 1 &&
        is_fixed(one.affine) && one.affine.terms == other.affine.terms &&
        one.affine.constant != other.affine.constant) {
      return true;
    }
  }
  return false;
}

void rename_tensor(Statement& statement, std::uint32_t from, std::uint32_t to) {
  visit_mentions(statement, [&](std::uint32_t& tensor) { tensor = tensor == from ? to : tensor; });
}

void remove_statements(Program& program, const std::vector<bool>& marked) {
  std::vector<Statement> kept;
  std::vector<std::int32_t> hint_numbers(program.hints.size(), -1);
  std::vector<program::Hint> hints;
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

void order_variables(Program& program) {
  const std::size_t first = program.launch_symbol_count();
  if (first == program.symbols.size()) {
    return;
  }
  std::vector<std::uint32_t> numbers(program.symbols.size());
  std::iota(numbers.begin(), numbers.end(), 0U);
  std::vector<program::Symbol> symbols(program.symbols.begin(),
                                       program.symbols.begin() + static_cast<std::ptrdiff_t>(first));
  for (const program::Block& block : program.blocks()) {
    if (block.repeat >= 0) {
      numbers[static_cast<std::size_t>(block.repeat)] = static_cast<std::uint32_t>(symbols.size());
      symbols.push_back(program.symbols[static_cast<std::size_t>(block.repeat)]);
    }
  }
  program.symbols = std::move(symbols);
  const auto renumber = [&](Affine& affine) {
    for (Affine::Term& term : affine.terms) {
      term.id = term.is_symbol ? numbers[term.id] : term.id;
    }
  };
  const auto renumber_all = [&](Access& access) {
    for (Index& index : access.indices) {
      renumber(index.affine);
      std::for_each(index.element_indices.begin(), index.element_indices.end(), renumber);
    }
  };
  for (Statement& statement : program.statements) {
    if (statement.repeat >= 0) {
      statement.repeat = static_cast<std::int32_t>(numbers[static_cast<std::size_t>(statement.repeat)]);
    }
    renumber_all(statement.target);
    visit_expr(statement.value, [&](Expr& node) {
      renumber(node.affine);
      renumber_all(node.access);
    });
  }
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
    visit_mentions(statement, [&](std::uint32_t& tensor) { tensor = numbers[tensor]; });
  }
}

}  // namespace yoke::passes
