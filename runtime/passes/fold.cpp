// SPDX-License-Identifier: Apache-2.0
// runtime/passes/fold.cpp: evaluates operations on constants with the reference executor, so that results
// cannot differ from it, and applies the rules.
#include <yoke/program/text.h>

#include "graph.h"
#include "rules.h"

namespace yoke::passes {
namespace {

// The constant for a loop or symbol that has only one value.
std::optional<Expr> known_index(const Program& program, const std::vector<Loop>& loops, const Expr& expr) {
  const auto range = range_of(program, loops, expr.affine);
  if (!range || range->low != range->high) {
    return std::nullopt;
  }
  return Expr::constant(Type::kI64, {0, range->low});
}

bool is_out_of_range(const Program& program, const std::vector<Loop>& loops, const Access& access) {
  const std::vector<std::uint64_t>& dims = program.tensors[access.tensor].dims;
  for (std::size_t d = 0; d < dims.size(); ++d) {
    if (is_out_of_range(program, loops, access.indices[d], dims[d])) {
      return true;
    }
  }
  return false;
}

// Resolves an `else` that always or never applies, and divisions that are always exact.
std::optional<Expr> known_read(const Program& program, const std::vector<Loop>& loops, const Expr& expr) {
  const Access& access = expr.access;
  if (access.otherwise && is_out_of_range(program, loops, access)) {
    return Expr::constant(expr.type, *access.otherwise);
  }
  Expr plain = expr;
  bool changed = false;
  for (Index& index : plain.access.indices) {
    const auto quotient = index.divisor == 1 ? std::nullopt : exact_quotient(index);
    if (quotient) {
      index = {*quotient, {}, {}};
      changed = true;
    }
  }
  if (access.otherwise && !may_be_out_of_range(program, loops, plain.access)) {
    plain.access.otherwise.reset();
    changed = true;
  }
  return changed ? std::optional(std::move(plain)) : std::nullopt;
}

std::optional<Expr> known_guard(const Program& program, const std::vector<Loop>& loops, const Expr& expr) {
  const Expr& value = expr.args[0];
  if (value.op == Op::kRead && !value.access.otherwise) {
    return Expr::guard(value, expr.literal);
  }
  if (!may_be_out_of_range(program, loops, value)) {
    return value;
  }
  bool always = false;
  visit_open_reads(
      value, [&](const Expr& read) { always = always || is_out_of_range(program, loops, read.access); });
  return always ? std::optional(Expr::constant(expr.type, expr.literal)) : std::nullopt;
}

bool has_open_read(const Expr& expr, const Expr& read) {
  bool has = false;
  visit_open_reads(expr, [&](const Expr& other) { has = has || program::same(read, other); });
  return has;
}

// Whether `after` lacks a read of `before` that may be out of range, and so decides about the guard around
// both.
bool loses_reads(const Program& program, const std::vector<Loop>& loops, const Expr& before,
                 const Expr& after) {
  bool loses = false;
  visit_open_reads(before, [&](const Expr& read) {
    loses = loses || (may_be_out_of_range(program, loops, read.access) && !has_open_read(after, read));
  });
  return loses;
}

std::optional<Expr> better(const Program& program, const std::vector<Loop>& loops, const Expr& expr) {
  switch (expr.op) {
    case Op::kConst:
      return std::nullopt;
    case Op::kIndex:
      return known_index(program, loops, expr);
    case Op::kRead:
      return known_read(program, loops, expr);
    case Op::kGuard:
      return known_guard(program, loops, expr);
    default:
      break;
  }
  std::optional<Expr> constant = computed(expr);
  return constant ? constant : simplified(expr);
}

std::uint64_t fold(Graph& graph, const std::vector<Loop>& loops, Expr& expr) {
  ++graph.report().visits;
  std::uint64_t applied = 0;
  for (Expr& arg : expr.args) {
    applied += fold(graph, loops, arg);
  }
  while (std::optional<Expr> replacement = better(graph.program(), loops, expr)) {
    if (expr.op != Op::kRead && loses_reads(graph.program(), loops, expr, *replacement)) {
      break;
    }
    replacement->at = expr.at;
    expr = std::move(*replacement);
    ++applied;
  }
  return applied;
}

}  // namespace

bool fold_in(Graph& graph) {
  const std::uint64_t before = graph.report().folded;
  for (Place i = 0; i < graph.size(); ++i) {
    if (const std::uint64_t applied = fold(graph, graph.at(i).loops, graph.value(i))) {
      graph.report().folded += applied;
      graph.note(i, [&] { return "simplified: " + print(graph.program(), graph.at(i)); });
      graph.refresh(i);
    }
  }
  return graph.report().folded != before;
}

}  // namespace yoke::passes
