// SPDX-License-Identifier: Apache-2.0
// runtime/passes/rewrite.cpp: queries and edits that the passes share.
#include "rewrite.h"

namespace yoke::passes {
namespace {

// Calls visit(tensor number) for every use of a tensor, by reference, so that it can be changed.
template <typename Visit>
void visit_mentions(Statement& statement, const Visit& visit) {
  const auto visit_access = [&](Access& access) {
    visit(access.tensor);
    for (Index& index : access.indices) {
      if (index.element_of) {
        visit(*index.element_of);
      }
    }
  };
  visit_access(statement.target);
  visit_expr(statement.value, [&](Expr& node) {
    if (node.op == Op::kRead) {
      visit_access(node.access);
    }
  });
}

// The items to keep, in their new order.
class Kept {
 public:
  explicit Kept(std::size_t count) : numbers_(count, -1) {}
  // Keeps the item with this number, if it is not negative and not kept already.
  void keep(std::int64_t item) {
    if (item >= 0 && numbers_[static_cast<std::size_t>(item)] < 0) {
      numbers_[static_cast<std::size_t>(item)] = static_cast<std::int32_t>(order_.size());
      order_.push_back(static_cast<std::size_t>(item));
    }
  }
  // Its new number; -1 stays -1.
  std::int32_t operator[](std::int64_t item) const {
    return item < 0 ? -1 : numbers_[static_cast<std::size_t>(item)];
  }
  template <class Item>
  void apply(std::vector<Item>& items) const {
    std::vector<Item> kept;
    for (const std::size_t item : order_) {
      kept.push_back(std::move(items[item]));
    }
    items = std::move(kept);
  }

 private:
  std::vector<std::int32_t> numbers_;
  std::vector<std::size_t> order_;
};

void renumber_symbols(Statement& statement, const Kept& symbols) {
  const auto renumber = [&](Affine& affine) {
    for (Affine::Term& term : affine.terms) {
      term.id = term.is_symbol ? static_cast<std::uint32_t>(symbols[term.id]) : term.id;
    }
  };
  const auto renumber_all = [&](Access& access) {
    for (Index& index : access.indices) {
      renumber(index.affine);
      std::for_each(index.element_indices.begin(), index.element_indices.end(), renumber);
    }
  };
  renumber_all(statement.target);
  visit_expr(statement.value, [&](Expr& node) {
    renumber(node.affine);
    renumber_all(node.access);
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

void rename_tensor(Statement& statement, std::uint32_t from, std::uint32_t to) {
  visit_mentions(statement, [&](std::uint32_t& tensor) { tensor = tensor == from ? to : tensor; });
}

void remove_statements(Program& program, const std::vector<bool>& marked) {
  Kept statements(program.statements.size());
  Kept hints(program.hints.size());
  Kept symbols(program.symbols.size());
  std::vector<bool> is_used(program.tensors.size(), false);
  for (std::size_t s = 0; s < program.launch_symbol_count(); ++s) {
    symbols.keep(static_cast<std::int64_t>(s));
  }
  for (std::size_t i = 0; i < program.statements.size(); ++i) {
    if (const Statement& statement = program.statements[i]; !marked[i]) {
      statements.keep(static_cast<std::int64_t>(i));
      hints.keep(statement.hint);
      symbols.keep(statement.repeat);
      is_used[statement.target.tensor] = true;
      for (const std::uint32_t tensor : tensors_read(statement)) {
        is_used[tensor] = true;
      }
    }
  }
  Kept tensors(program.tensors.size());
  for (std::size_t t = 0; t < program.tensors.size(); ++t) {
    if (is_used[t] || program.tensors[t].role != Role::kTemp) {
      tensors.keep(static_cast<std::int64_t>(t));
    }
  }
  statements.apply(program.statements);
  hints.apply(program.hints);
  symbols.apply(program.symbols);
  tensors.apply(program.tensors);
  for (Statement& statement : program.statements) {
    statement.hint = hints[statement.hint];
    statement.repeat = symbols[statement.repeat];
    renumber_symbols(statement, symbols);
    visit_mentions(statement, [&](std::uint32_t& t) { t = static_cast<std::uint32_t>(tensors[t]); });
  }
}

}  // namespace yoke::passes
