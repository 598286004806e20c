// SPDX-License-Identifier: Apache-2.0
// runtime/passes/fold.cpp: evaluates operations on constants with the reference executor, so that results
// cannot differ from it, and applies the rules.
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
  Expr constant = Expr::constant(Type::kI64, 0);
  constant.literal.integer = range->low;
  return constant;
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
      Expr constant = Expr::constant(expr.type, 0);
      constant.literal = *access.otherwise;
      return constant;
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
  std::optional<Expr> constant = computed(expr);
  return constant ? constant : simplified(expr);
}

std::uint64_t fold(Graph& graph, const std::vector<Loop>& loops, Expr& expr) {
  ++graph.statistics().visits;
  std::uint64_t applied = 0;
  for (Expr& arg : expr.args) {
    applied += fold(graph, loops, arg);
  }
  while (std::optional<Expr> replacement = better(graph.program(), loops, expr)) {
    replacement->at = expr.at;
    expr = std::move(*replacement);
    ++applied;
  }
  return applied;
}

}  // namespace

bool fold_constants_in(Graph& graph) {
  const std::uint64_t before = graph.statistics().folded;
  for (Place i = 0; i < graph.size(); ++i) {
    if (const std::uint64_t applied = fold(graph, graph.at(i).loops, graph.value(i))) {
      graph.statistics().folded += applied;
      graph.refresh(i);
    }
  }
  return graph.statistics().folded != before;
}

}  // namespace yoke::passes
