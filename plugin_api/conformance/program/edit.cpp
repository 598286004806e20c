// SPDX-License-Identifier: Apache-2.0
// plugin_api/conformance/program/edit.cpp: keeps a case consistent after parts of it were removed.
#include "edit.h"

#include <yoke/program/access.h>
#include <yoke/program/text.h>

#include <algorithm>
#include <cmath>
#include <optional>

namespace yoke::conformance {

using program::Access;
using program::Affine;
using program::Assign;
using program::Expr;
using program::Index;
using program::Op;
using program::Program;
using program::Role;
using program::Statement;
using program::Tensor;
using program::Type;

void visit_expressions(Expr& expr, const std::function<void(Expr&)>& visit) {
  visit(expr);
  for (Expr& argument : expr.args) {
    visit_expressions(argument, visit);
  }
}

void visit_accesses(Statement& statement, const std::function<void(Access&)>& visit) {
  visit(statement.target);
  visit_expressions(statement.value, [&](Expr& expr) {
    if (expr.op == Op::kRead) {
      visit(expr.access);
    }
  });
}

void visit_affines(Statement& statement, const std::function<void(Affine&)>& visit) {
  visit_accesses(statement, [&](Access& access) {
    for (Index& index : access.indices) {
      if (!index.element_of) {
        visit(index.affine);
      }
      for (Affine& affine : index.element_indices) {
        visit(affine);
      }
    }
  });
}

void renumber_hints(Program& program) {
  std::vector<program::Hint> names;
  std::int32_t open = -1;
  for (Statement& statement : program.statements) {
    const std::int32_t hint = statement.hint;
    if (hint >= 0 && hint != open) {
      names.push_back(program.hints[static_cast<std::size_t>(hint)]);
    }
    open = hint;
    statement.hint = hint < 0 ? -1 : static_cast<std::int32_t>(names.size()) - 1;
  }
  program.hints = std::move(names);
}

void replace_term(Statement& statement, bool is_symbol, std::uint32_t id, std::int64_t value) {
  visit_affines(statement, [&](Affine& affine) {
    std::erase_if(affine.terms, [&](const Affine::Term& term) {
      const bool found = term.is_symbol == is_symbol && term.id == id;
      affine.constant += found ? term.coefficient * value : 0;
      return found;
    });
  });
  visit_expressions(statement.value, [&](Expr& expr) {
    if (expr.op == Op::kIndex && expr.affine.terms[0].is_symbol == is_symbol &&
        expr.affine.terms[0].id == id) {
      expr = Expr::constant(Type::kI64, static_cast<double>(value));
    }
  });
}

namespace {

// How a program uses a tensor.
struct Use {
  bool read = false;
  bool written = false;
  bool read_first = false;  // read or accumulated to before any write
};

std::vector<Use> uses_of(Program& program) {
  std::vector<Use> uses(program.tensors.size());
  const auto read = [&](std::uint32_t tensor) {
    uses[tensor].read = true;
    uses[tensor].read_first = uses[tensor].read_first || !uses[tensor].written;
  };
  for (Statement& statement : program.statements) {
    visit_accesses(statement, [&](Access& access) {
      for (const Index& index : access.indices) {
        if (index.element_of) {
          read(*index.element_of);
        }
      }
      if (&access != &statement.target) {
        read(access.tensor);
      }
    });
    Use& target = uses[statement.target.tensor];
    target.read_first = target.read_first || (statement.assign != Assign::kSet && !target.written);
    target.written = true;
  }
  return uses;
}

void set_roles(Program& program, const std::vector<Use>& uses) {
  for (std::size_t i = 0; i < uses.size(); ++i) {
    Tensor& tensor = program.tensors[i];
    if (!uses[i].written) {
      tensor.role = Role::kIn;
    } else if (uses[i].read_first) {
      tensor.role = Role::kInOut;
    } else if (tensor.role == Role::kIn || (tensor.role == Role::kTemp && !uses[i].read)) {
      tensor.role = Role::kOut;
    }
  }
}

// The new numbers of the items that are kept.
std::vector<std::uint32_t> renumbered(const std::vector<bool>& kept) {
  std::vector<std::uint32_t> numbers;
  numbers.reserve(kept.size());
  std::uint32_t next = 0;
  for (const bool keep : kept) {
    numbers.push_back(keep ? next++ : 0);
  }
  return numbers;
}

template <class T>
void keep(std::vector<T>& values, const std::vector<bool>& kept) {
  std::size_t next = 0;
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (kept[i]) {
      if (next != i) {
        values[next] = std::move(values[i]);
      }
      ++next;
    }
  }
  values.resize(next);
}

void drop_tensors(Case& one, const std::vector<Use>& uses) {
  std::vector<bool> kept;
  kept.reserve(uses.size());
  for (const Use& use : uses) {
    kept.push_back(use.read || use.written);
  }
  const std::vector<std::uint32_t> numbers = renumbered(kept);
  for (Statement& statement : one.program.statements) {
    visit_accesses(statement, [&](Access& access) {
      access.tensor = numbers[access.tensor];
      for (Index& index : access.indices) {
        if (index.element_of) {
          index.element_of = numbers[*index.element_of];
        }
      }
    });
  }
  for (std::size_t i = 0; i < one.data.size(); ++i) {
    Data& data = one.data[i];
    if (data.shared >= 0) {
      const auto other = static_cast<std::size_t>(data.shared);
      const Tensor& a = one.program.tensors[i];
      const Tensor& b = one.program.tensors[other];
      const bool still = kept[other] && a.role == Role::kIn && b.role == Role::kIn && a.dims == b.dims;
      data.shared = still ? static_cast<std::int32_t>(numbers[other]) : -1;
    }
  }
  keep(one.program.tensors, kept);
  keep(one.data, kept);
}

void drop_symbols(Case& one) {
  std::vector<bool> kept(one.program.symbols.size());
  const auto mark = [&](const Affine& affine) {
    for (const Affine::Term& term : affine.terms) {
      if (term.is_symbol) {
        kept[term.id] = true;
      }
    }
  };
  const auto all = [&](const std::function<void(Affine&)>& visit) {
    for (Statement& statement : one.program.statements) {
      visit_affines(statement, visit);
      visit_expressions(statement.value, [&](Expr& expr) {
        if (expr.op == Op::kIndex) {
          visit(expr.affine);
        }
      });
    }
  };
  all(mark);
  const std::size_t launched = one.program.launch_symbol_count();
  std::fill(kept.begin() + static_cast<std::ptrdiff_t>(launched), kept.end(), false);
  for (const Statement& statement : one.program.statements) {
    if (statement.repeat >= 0) {
      kept[static_cast<std::size_t>(statement.repeat)] = true;
    }
  }
  const std::vector<std::uint32_t> numbers = renumbered(kept);
  for (Statement& statement : one.program.statements) {
    statement.repeat = statement.repeat < 0
                           ? -1
                           : static_cast<std::int32_t>(numbers[static_cast<std::size_t>(statement.repeat)]);
  }
  all([&](Affine& affine) {
    for (Affine::Term& term : affine.terms) {
      term.id = term.is_symbol ? numbers[term.id] : term.id;
    }
  });
  keep(one.program.symbols, kept);
  kept.resize(launched);
  for (auto& values : one.launches) {
    keep(values, kept);
  }
}

// Orders loops by their first use in the target, followed by the reduction's loops.
// Returns false if the value uses another loop.
bool order_loops(Statement& statement) {
  std::vector<std::optional<std::uint32_t>> numbers(statement.loops.size());
  std::vector<program::Loop> loops;
  const auto take = [&](std::uint32_t loop) {
    if (!numbers[loop]) {
      numbers[loop] = static_cast<std::uint32_t>(loops.size());
      loops.push_back(statement.loops[loop]);
    }
  };
  for (const Index& index : statement.target.indices) {
    for (const Affine::Term& term : index.affine.terms) {
      if (!term.is_symbol) {
        take(term.id);
      }
    }
    for (const Affine& affine : index.element_indices) {
      for (const Affine::Term& term : affine.terms) {
        if (!term.is_symbol) {
          take(term.id);
        }
      }
    }
  }
  std::vector<std::uint32_t> reduce_loops;
  for (const std::uint32_t loop : statement.reduce_loops) {
    if (numbers[loop]) {
      return false;
    }
    take(loop);
    reduce_loops.push_back(*numbers[loop]);
  }
  bool known = true;
  const auto renumber = [&](Affine& affine) {
    for (Affine::Term& term : affine.terms) {
      if (!term.is_symbol) {
        known = known && numbers[term.id].has_value();
        term.id = numbers[term.id].value_or(0);
      }
    }
    std::sort(affine.terms.begin(), affine.terms.end(), [](const Affine::Term& a, const Affine::Term& b) {
      return std::pair(a.is_symbol, a.id) < std::pair(b.is_symbol, b.id);
    });
  };
  visit_affines(statement, renumber);
  visit_expressions(statement.value, [&](Expr& expr) {
    if (expr.op == Op::kIndex) {
      renumber(expr.affine);
    }
  });
  statement.loops = std::move(loops);
  statement.reduce_loops = std::move(reduce_loops);
  if (statement.reduce_loops.empty()) {
    statement.reduce.reset();
    statement.accumulator.reset();
  }
  return known;
}

// Makes a guard of a single read the read's own `else`.
void normalize_guards(Expr& expr) {
  for (Expr& arg : expr.args) {
    normalize_guards(arg);
  }
  if (expr.op == Op::kGuard) {
    expr = Expr::guard(Expr(expr.args[0]), program::Literal(expr.literal));
  }
}

}  // namespace

bool is_valid(const Program& program) {
  try {
    program::parse_and_verify(program::print(program));
    return true;
  } catch (const program::ProgramError&) {
    return false;
  }
}

bool tidy(Case& one) {
  Program& program = one.program;
  if (program.statements.empty()) {
    return false;
  }
  for (Statement& statement : program.statements) {
    normalize_guards(statement.value);
    if (!order_loops(statement)) {
      return false;
    }
  }
  renumber_hints(program);
  const std::vector<Use> uses = uses_of(program);
  set_roles(program, uses);
  drop_tensors(one, uses);
  drop_symbols(one);
  if (is_valid(program)) {
    return true;
  }
  // A tensor that is written only in part needs initial values.
  for (Tensor& tensor : program.tensors) {
    tensor.role = tensor.role == Role::kOut || tensor.role == Role::kTemp ? Role::kInOut : tensor.role;
  }
  return is_valid(program);
}

double weight(const Case& one) {
  double sum = static_cast<double>(program::print(one.program).size());
  for (const Statement& statement : one.program.statements) {
    sum += 1000;
    for (const program::Loop& loop : statement.loops) {
      sum += std::log2(static_cast<double>(loop.extent));
    }
    const auto add_index = [&](const program::Affine& affine) {
      sum += 0.1 * std::log2(1 + std::abs(static_cast<double>(affine.constant)));
    };
    program::visit_affines(statement.target, add_index);
    program::visit_affines(statement.value, add_index);
  }
  for (std::size_t i = 0; i < one.program.tensors.size(); ++i) {
    sum += (one.data[i].kind == DataKind::kDyadic ? 0 : 0.5) + (one.data[i].shared >= 0 ? 1 : 0) +
           0.1 * std::log2(static_cast<double>(one.data[i].limit));
    for (const std::uint64_t dim : one.program.tensors[i].dims) {
      sum += std::log2(static_cast<double>(dim));
    }
  }
  return sum + 5.0 * static_cast<double>(one.launches.size());
}

}  // namespace yoke::conformance
