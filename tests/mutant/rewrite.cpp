// SPDX-License-Identifier: Apache-2.0
// tests/mutant/rewrite.cpp: each bug of a kernel is a change of the program.
#include "rewrite.h"

#include <algorithm>
#include <cstdint>
#include <functional>
#include <string>
#include <utility>

#include "bug.h"
#include "rewrite_parts.h"

namespace yoke::mutant {
namespace {

using program::Affine;
using program::Expr;
using program::Op;
using program::Program;
using program::Statement;
using program::Type;

// ---- reductions ----

void reverse(Affine& affine, std::uint32_t loop, std::uint64_t extent) {
  for (Affine::Term& term : affine.terms) {
    if (!term.is_symbol && term.id == loop) {
      affine.constant += term.coefficient * static_cast<std::int64_t>(extent - 1);
      term.coefficient = -term.coefficient;
    }
  }
}

// Reverses one loop of the value.
void reverse(Expr& value, std::uint32_t loop, std::uint64_t extent) {
  change_each(value, [&](Expr& expr) {
    if (expr.op == Op::kIndex && !expr.affine.terms[0].is_symbol && expr.affine.terms[0].id == loop) {
      expr = Expr::make(Op::kSub, {number(Type::kI64, static_cast<double>(extent - 1)), Expr(expr)});
    }
    for (program::Index& index : expr.access.indices) {
      reverse(index.affine, loop, extent);
      for (Affine& affine : index.element_indices) {
        reverse(affine, loop, extent);
      }
    }
  });
}

bool is_argument_search(const Statement& statement) {
  return statement.reduce == program::Reduce::kArgMax || statement.reduce == program::Reduce::kArgMin;
}

// Finds the last of several equal elements: searches backwards, then
// converts the result to an index from the front.
void take_last(Program& program) {
  for (std::size_t at = 0; at < program.statements.size(); ++at) {
    Statement& search = program.statements[at];
    if (!is_argument_search(search)) {
      continue;
    }
    const std::uint32_t loop = search.reduce_loops[0];
    const std::uint64_t extent = search.loops[loop].extent;
    reverse(search.value, loop, extent);
    Statement turn = search;
    turn.loops.resize(turn.loops.size() - 1);
    turn.reduce.reset();
    turn.reduce_loops.clear();
    const Type type = program.tensors[turn.target.tensor].type;
    turn.value =
        Expr::make(Op::kSub, {number(type, static_cast<double>(extent - 1)), Expr::read(type, turn.target)});
    program.statements.insert(program.statements.begin() + static_cast<std::ptrdiff_t>(++at),
                              std::move(turn));
  }
}

void plant_in_reductions(Program& program) {
  if (on<"argmax_takes_the_last">()) {
    take_last(program);
  }
  for (Statement& statement : program.statements) {
    const Type type = statement.value.type;
    if (on<"sum_accumulates_in_f16">() && statement.reduce == program::Reduce::kSum && is_float(type)) {
      statement.accumulator = Type::kF16;
    }
    if (on<"sum_of_i64_accumulates_in_i32">() && statement.reduce == program::Reduce::kSum &&
        statement.accumulator_type() == Type::kI64) {
      statement.accumulator = Type::kI32;
    }
    if (on<"max_starts_at_zero">() && statement.reduce == program::Reduce::kMax) {
      statement.value = Expr::make(Op::kMax, {std::move(statement.value), number(type, 0)});
    }
    if (on<"reduction_misses_the_last">() && statement.reduce && !is_argument_search(statement)) {
      program::Loop& loop = statement.loops[statement.reduce_loops.back()];
      loop.extent -= loop.extent > 1 ? 1 : 0;
    }
  }
}

// ---- operations ----

void floor_division(Expr& expr) {
  if (expr.op != Op::kDiv || is_float(expr.type)) {
    return;
  }
  const Type type = expr.type;
  const Expr zero = number(type, 0);
  const Expr rest = Expr::make(Op::kMod, {expr.args[0], expr.args[1]});
  const Expr differs = Expr::make(Op::kNotEqual, {Expr::make(Op::kLess, {expr.args[0], zero}),
                                                  Expr::make(Op::kLess, {expr.args[1], zero})});
  const Expr is_between = Expr::make(Op::kAnd, {Expr::make(Op::kNotEqual, {rest, zero}), differs});
  const Expr quotient = expr;
  expr = Expr::make(Op::kSelect, {is_between, Expr::make(Op::kSub, {quotient, number(type, 1)}), quotient});
}

void shift_to_zero(Expr& expr) {
  if (expr.op != Op::kShiftLeft && expr.op != Op::kShiftRight) {
    return;
  }
  const Type type = expr.type;
  const Expr width = number(type, static_cast<double>(byte_size(type) * 8));
  const Expr inside = Expr::make(Op::kAnd, {Expr::make(Op::kGreaterEqual, {expr.args[1], number(type, 0)}),
                                            Expr::make(Op::kLess, {expr.args[1], width})});
  const Expr shifted = expr;
  expr = Expr::make(Op::kSelect, {inside, shifted, number(type, 0)});
}

void wrap_cast(Expr& expr) {
  if (expr.op == Op::kCast && is_float(expr.args[0].type) && is_integer(expr.type) &&
      expr.type != Type::kI64) {
    expr = Expr::cast(expr.type, Expr::cast(Type::kI64, expr.args[0]));
  }
}

void round_half_away(Expr& expr) {
  if (expr.op != Op::kRound) {
    return;
  }
  const Expr up = Expr::make(Op::kAdd, {Expr::make(Op::kAbs, {expr.args[0]}), number(expr.type, 0.5)});
  expr = Expr::make(Op::kMul, {Expr::make(Op::kSign, {expr.args[0]}), Expr::make(Op::kFloor, {up})});
}

void other_word(Expr& expr) {
  if (expr.op == Op::kRandomBits) {
    expr.args[2] = Expr::make(Op::kBitXor, {std::move(expr.args[2]), number(Type::kI64, 3)});
  }
}

void lose_nan(Expr& expr) {
  if (expr.op == Op::kMax && is_float(expr.type)) {
    expr = Expr::make(Op::kSelect,
                      {Expr::make(Op::kGreater, {expr.args[0], expr.args[1]}), expr.args[0], expr.args[1]});
  }
}

// Of zeros with different signs, the second operand wins.
void take_second_zero(Expr& expr) {
  if ((expr.op == Op::kMax || expr.op == Op::kMin) && is_float(expr.type)) {
    expr =
        Expr::make(Op::kSelect, {Expr::make(Op::kEqual, {expr.args[0], expr.args[1]}), expr.args[1], expr});
  }
}

// (x + y) + z becomes x + (y + z).
void regroup_sum(Expr& expr) {
  if (expr.op == Op::kAdd && is_float(expr.type) && expr.args[0].op == Op::kAdd) {
    const Expr inner = expr.args[0];
    expr = Expr::make(Op::kAdd, {inner.args[0], Expr::make(Op::kAdd, {inner.args[1], expr.args[1]})});
  }
}

// A minimum with a target whose elements are not neighbors becomes a maximum.
void exchange_minimum(Statement& statement) {
  const bool is_strided = std::any_of(
      statement.target.indices.begin(), statement.target.indices.end(), [](const program::Index& index) {
        return !index.affine.terms.empty() && index.affine.terms[0].coefficient == 2;
      });
  if (is_strided && statement.assign == program::Assign::kMin && statement.reduce) {
    statement.assign = program::Assign::kMax;
  }
}

// Converts the value to another type and back.
void rough(Expr& expr, Type through) {
  const Type type = expr.type;
  expr = Expr::cast(type, Expr::cast(through, Expr(expr)));
}

void halve_low_bit(Expr& expr) {
  if (expr.op == Op::kCast && expr.type == Type::kBool && is_integer(expr.args[0].type)) {
    const Type type = expr.args[0].type;
    expr = Expr::make(Op::kNotEqual,
                      {Expr::make(Op::kBitAnd, {expr.args[0], number(type, 1)}), number(type, 0)});
  }
}

// Replaces the variable by a number in all indices that are not read from tensors.
void hold_variable(Statement& statement, std::uint32_t variable, std::int64_t value) {
  const auto hold = [&](program::Access& access) {
    for (program::Index& index : access.indices) {
      std::erase_if(index.affine.terms, [&](const Affine::Term& term) {
        const bool found = term.is_symbol && term.id == variable;
        index.affine.constant += found ? term.coefficient * value : 0;
        return found;
      });
    }
  };
  hold(statement.target);
  change_each(statement.value, [&](Expr& expr) {
    if (expr.op == Op::kRead) {
      hold(expr.access);
    }
  });
}

void plant_in_repeats(Program& program) {
  for (program::Symbol& symbol : program.symbols) {
    const bool skips = on<"repeat_skips_its_last_round">() && symbol.is_variable && symbol.value_count() > 1;
    symbol.high -= skips ? symbol.step : 0;
  }
  for (Statement& statement : program.statements) {
    if (on<"repeat_does_not_advance_its_variable">() && statement.repeat >= 0) {
      const auto variable = static_cast<std::uint32_t>(statement.repeat);
      hold_variable(statement, variable, program.symbols[variable].low);
    }
  }
}

void plant_in_operations(Program& program) {
  const auto plant = [&](bool is_on, const Change& change) {
    if (is_on) {
      change_each(program, change);
    }
  };
  plant(on<"integer_division_floors">(), floor_division);
  plant(on<"shift_does_not_count_modulo">(), shift_to_zero);
  plant(on<"cast_wraps_instead_of_saturating">(), wrap_cast);
  plant(on<"round_goes_away_from_zero">(), round_half_away);
  plant(on<"random_bits_takes_another_word">(), other_word);
  plant(on<"max_loses_nan">(), lose_nan);
  plant(on<"max_and_min_ignore_the_sign_of_zero">(), take_second_zero);
  plant(on<"cast_to_bool_looks_at_one_bit">(), halve_low_bit);
  plant(on<"sums_are_regrouped">(), regroup_sum);
  if (on<"strided_minimum_is_a_maximum">()) {
    std::for_each(program.statements.begin(), program.statements.end(), exchange_minimum);
  }
  for (Statement& statement : program.statements) {
    if (on<"additions_overwrite">() && statement.assign == program::Assign::kAdd && !statement.reduce) {
      statement.assign = program::Assign::kSet;
    }
  }
  plant(on<"exp_has_bf16_precision">(), [](Expr& expr) {
    if (expr.op == Op::kExp) {
      rough(expr, Type::kBF16);
    }
  });
  plant(on<"f64_is_computed_in_f32">(), [](Expr& expr) {
    if (expr.type == Type::kF64 && expr.op >= Op::kAdd && expr.op <= Op::kFma) {
      rough(expr, Type::kF32);
    }
  });
}

// Returns the program with every sum reversed.
Program with_sums_reversed(const Program& source) {
  Program reversed = source;
  for (Statement& statement : reversed.statements) {
    if (statement.reduce == program::Reduce::kSum) {
      for (const std::uint32_t loop : statement.reduce_loops) {
        reverse(statement.value, loop, statement.loops[loop].extent);
      }
    }
  }
  return reversed;
}

}  // namespace

std::vector<Program> planted_variants(const Program& source) {
  Program changed = source;
  plant_in_indices(changed);
  plant_in_reductions(changed);
  plant_in_operations(changed);
  plant_in_repeats(changed);
  std::vector<Program> variants = {std::move(changed)};
  if (on<"sum_order_changes">()) {
    variants.push_back(with_sums_reversed(source));
  }
  return variants;
}

}  // namespace yoke::mutant
