// SPDX-License-Identifier: Apache-2.0
// tests/mutant/rewrite_indices.cpp: bugs of indices, gathers, scatters and reads out of range.
#include <yoke/program/access.h>

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

#include "bug.h"
#include "rewrite_parts.h"

namespace yoke::mutant {

using program::Affine;
using program::Expr;
using program::Op;
using program::Program;
using program::Statement;
using program::Type;

namespace {

std::uint32_t add_temporary(Program& program, std::vector<std::uint64_t> dims) {
  const auto made = static_cast<std::uint32_t>(program.tensors.size());
  program::Tensor tensor;
  tensor.name = "mutant_" + std::to_string(made);
  tensor.type = Type::kI64;
  tensor.dims = std::move(dims);
  program.tensors.push_back(std::move(tensor));
  return made;
}

std::vector<std::uint64_t> dims_of(const std::vector<program::Loop>& loops) {
  std::vector<std::uint64_t> dims;
  for (const program::Loop& loop : loops) {
    dims.push_back(loop.extent);
  }
  return dims;
}

// Adds a temporary i64 tensor with map(element of `indices`), written by a new statement before `at`.
using Map = std::function<Expr(Expr)>;
std::uint32_t mapped_indices(Program& program, std::size_t& at, std::uint32_t indices, const Map& map) {
  const std::vector<std::uint64_t> dims = program.tensors[indices].dims;
  const std::uint32_t made = add_temporary(program, dims);
  Statement statement;
  program::Access read;
  read.tensor = indices;
  for (std::uint32_t dim = 0; dim < dims.size(); ++dim) {
    statement.loops.push_back({"i" + std::to_string(dim), dims[dim]});
    read.indices.push_back({Affine::loop(dim), std::nullopt, {}});
  }
  statement.target = read;
  statement.target.tensor = made;
  const Type type = program.tensors[indices].type;
  statement.value = map(Expr::cast(Type::kI64, Expr::read(type, std::move(read))));
  program.statements.insert(program.statements.begin() + static_cast<std::ptrdiff_t>(at),
                            std::move(statement));
  ++at;
  return made;
}

// Applies `map(index, extent of the dimension)` to every index that is read from a tensor.
using IndexMap = std::function<Expr(Expr, std::uint64_t)>;
void map_access(Program& program, std::size_t& at, program::Access& access, const IndexMap& map) {
  for (std::size_t dim = 0; dim < access.indices.size(); ++dim) {
    if (access.indices[dim].element_of) {
      const std::uint64_t extent = program.tensors[access.tensor].dims[dim];
      access.indices[dim].element_of =
          mapped_indices(program, at, *access.indices[dim].element_of,
                         [&](Expr index) { return map(std::move(index), extent); });
    }
  }
}

void map_indices(Program& program, bool of_reads, const IndexMap& map) {
  for (std::size_t at = 0; at < program.statements.size(); ++at) {
    Statement changed = program.statements[at];
    if (of_reads) {
      change_each(changed.value, [&](Expr& expr) {
        if (expr.op == Op::kRead) {
          map_access(program, at, expr.access, map);
        }
      });
    } else {
      map_access(program, at, changed.target, map);
    }
    program.statements[at] = std::move(changed);
  }
}

Expr floored(Expr dividend, std::int64_t divisor) {
  const Expr by = number(Type::kI64, static_cast<double>(divisor));
  const Expr rest = Expr::make(Op::kMod, {dividend, by});
  const Expr below = Expr::make(Op::kLess, {rest, number(Type::kI64, 0)});
  const Expr quotient = Expr::make(Op::kDiv, {std::move(dividend), by});
  return Expr::make(Op::kSub, {quotient, Expr::cast(Type::kI64, below)});
}

// Replaces every division in an index of `statement` by an element of a temporary that holds its floor.
void floor_indices(Program& program, std::size_t& at, Statement& statement) {
  change_each(statement.value, [&](Expr& expr) {
    for (program::Index& index : expr.access.indices) {
      if (index.divisor == 1) {
        continue;
      }
      Statement quotients;
      program::Index element;
      for (std::uint32_t loop = 0; loop < statement.loops.size(); ++loop) {
        quotients.loops.push_back(statement.loops[loop]);
        quotients.target.indices.push_back({Affine::loop(loop), std::nullopt, {}});
        element.element_indices.push_back(Affine::loop(loop));
      }
      quotients.value = floored(value_of(index.affine), index.divisor);
      element.element_of = quotients.target.tensor = add_temporary(program, dims_of(statement.loops));
      index = std::move(element);
      program.statements.insert(program.statements.begin() + static_cast<std::ptrdiff_t>(at++),
                                std::move(quotients));
    }
  });
}

// Gives each read in a guard an `else` of 0, instead of the guard.
void unguard(Expr& expr) {
  if (expr.op != Op::kGuard) {
    return;
  }
  Expr inner = expr.args[0];
  change_each(inner, [](Expr& read) {
    if (read.op == Op::kRead && !read.access.otherwise) {
      read.access.otherwise = program::Literal{};
    }
  });
  expr = std::move(inner);
}

// Leaves the guards in a guard out, so that a read in them makes the outer one fail.
void unguard_inside(Expr& expr) {
  if (expr.op == Op::kGuard) {
    change_each(expr.args[0], [](Expr& inner) {
      if (inner.op == Op::kGuard) {
        inner = Expr(inner.args[0]);
      }
    });
  }
}

// Guards each operand of a select alone, so that those that it does not choose do not count.
void guard_chosen(Expr& expr) {
  if (expr.op == Op::kGuard && expr.args[0].op == Op::kSelect) {
    Expr select = expr.args[0];
    for (std::size_t i = 1; i < 3; ++i) {
      select.args[i] = Expr::guard(select.args[i], expr.literal);
    }
    expr = Expr::guard(std::move(select), expr.literal);
  }
}

Expr clamped(Expr index, std::uint64_t extent) {
  Expr above = Expr::make(Op::kMax, {std::move(index), number(Type::kI64, 0)});
  return Expr::make(Op::kMin, {std::move(above), number(Type::kI64, static_cast<double>(extent - 1))});
}

}  // namespace

void plant_in_indices(Program& program) {
  if (on<"gather_is_off_by_one">()) {
    map_indices(program, true, [](Expr index, std::uint64_t) {
      return Expr::make(Op::kAdd, {std::move(index), number(Type::kI64, 1)});
    });
  } else if (on<"gather_rounds_indices_to_f32">()) {
    map_indices(program, true, [](Expr index, std::uint64_t) {
      return Expr::cast(Type::kI64, Expr::cast(Type::kF32, std::move(index)));
    });
  } else if (on<"gather_clamps_indices">()) {
    map_indices(program, true, clamped);
  } else if (on<"scatter_clamps_indices">()) {
    map_indices(program, false, clamped);
  } else if (on<"scatter_drops_duplicates">()) {
    for (Statement& statement : program.statements) {
      const bool scatters =
          std::any_of(statement.target.indices.begin(), statement.target.indices.end(),
                      [](const program::Index& index) { return index.element_of.has_value(); });
      statement.assign = scatters ? program::Assign::kSet : statement.assign;
    }
  } else if (on<"index_division_floors">()) {
    for (std::size_t at = 0; at < program.statements.size(); ++at) {
      Statement changed = program.statements[at];
      floor_indices(program, at, changed);
      program.statements[at] = std::move(changed);
    }
  } else if (on<"else_value_is_always_zero">()) {
    change_each(program, [](Expr& expr) {
      if (expr.op == Op::kRead && expr.access.otherwise) {
        expr.access.otherwise = program::Literal{};
      } else if (expr.op == Op::kGuard) {
        expr.literal = program::Literal{};
      }
    });
  } else if (on<"guard_covers_single_reads">()) {
    change_each(program, unguard);
  } else if (on<"guards_in_a_guard_are_left_out">()) {
    change_each(program, unguard_inside);
  } else if (on<"guard_looks_at_the_chosen_operand">()) {
    change_each(program, guard_chosen);
  }
}

}  // namespace yoke::mutant
