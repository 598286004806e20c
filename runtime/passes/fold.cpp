// SPDX-License-Identifier: Apache-2.0
// runtime/passes/fold.cpp: folds constants with the reference
// executor, so that results cannot differ from it.
#include "fold.h"

#include <yoke/program/execute.h>

#include <cmath>

namespace yoke::passes {
namespace {

Expr constant_from(Type type, const Literal& literal) {
  Expr expr = Expr::constant(type, 0);
  expr.literal = literal;
  return expr;
}

// The constant for a loop or symbol that has only one value.
std::optional<Expr> known_index(const Program& program, const std::vector<Loop>& loops, const Expr& expr) {
  const auto range = range_of(program, loops, expr.affine);
  if (!range || range->low != range->high) {
    return std::nullopt;
  }
  Literal literal;
  literal.integer = range->low;
  return constant_from(Type::kI64, literal);
}

// Resolves an `else` that always or never applies, and divisions that are always exact.
std::optional<Expr> known_read(const Program& program, const std::vector<Loop>& loops, const Expr& expr) {
  const Access& access = expr.access;
  if (!access.otherwise) {
    return std::nullopt;
  }
  const std::vector<std::uint64_t>& dims = program.tensors[access.tensor].dims;
  Expr plain = expr;
  bool changed = false;
  for (std::size_t d = 0; d < dims.size(); ++d) {
    Index& index = plain.access.indices[d];
    if (is_out_of_range(program, loops, index, dims[d])) {
      return constant_from(expr.type, *access.otherwise);
    }
    const auto quotient = index.divisor == 1 ? std::nullopt : exact_quotient(index);
    if (quotient) {
      index = {*quotient, {}, {}};
      changed = true;
    }
  }
  if (!may_be_out_of_range(program, loops, plain.access)) {
    plain.access.otherwise.reset();
    changed = true;
  }
  return changed ? std::optional(std::move(plain)) : std::nullopt;
}

std::optional<Expr> better(const Program& program, const std::vector<Loop>& loops, const Expr& expr) {
  switch (expr.op) {
    case Op::kConst:
      return std::nullopt;
    case Op::kIndex:
      return known_index(program, loops, expr);
    case Op::kRead:
      return known_read(program, loops, expr);
    default:
      break;
  }
  if (std::optional<Expr> constant = computed(expr)) {
    return constant;
  }
  return simplified(expr);
}

bool fold(const Program& program, const std::vector<Loop>& loops, Expr& expr) {
  bool changed = false;
  for (Expr& arg : expr.args) {
    changed = fold(program, loops, arg) || changed;
  }
  while (std::optional<Expr> replacement = better(program, loops, expr)) {
    replacement->at = expr.at;
    expr = std::move(*replacement);
    changed = true;
  }
  return changed;
}

}  // namespace

std::optional<Expr> computed(const Expr& expr) {
  for (const Expr& arg : expr.args) {
    if (arg.op != Op::kConst) {
      return std::nullopt;
    }
  }
  const Literal value = program::evaluate(expr);
  if (program::is_float(expr.type) && std::isnan(value.number)) {
    return std::nullopt;
  }
  return constant_from(expr.type, value);
}

bool fold_constants_in(Program& program) {
  bool changed = false;
  for (Statement& statement : program.statements) {
    changed = fold(program, statement.loops, statement.value) || changed;
  }
  return changed;
}

}  // namespace yoke::passes
