// SPDX-License-Identifier: Apache-2.0
// tests/mutant/handmade/strip/simplify.cpp: wrong shortcuts of a compiler, one per bug.
#include "simplify.h"

#include <yoke/program/access.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <string>

#include "../bugs.h"

namespace yoke::strip {

using handmade::bug;
using program::Op;

namespace {

bool same_place(const program::Access& a, const program::Access& b) {
  return a.tensor == b.tensor && a.indices == b.indices;
}

void cut(program::Literal& literal) {
  if (std::isfinite(literal.number)) {
    literal.number = std::strtod(std::to_string(literal.number).c_str(), nullptr);
  }
}

void cut_all(program::Expr& expr) {
  cut(expr.literal);
  if (expr.access.otherwise) {
    cut(*expr.access.otherwise);
  }
  for (program::Expr& arg : expr.args) {
    cut_all(arg);
  }
}

bool is_zero(const program::Expr& expr) {
  return expr.op == Op::kConst &&
         (is_float(expr.type) ? expr.literal.number == 0 : expr.literal.integer == 0);
}

void fold_zeros(program::Expr& expr) {
  for (program::Expr& arg : expr.args) {
    fold_zeros(arg);
  }
  if ((expr.op == Op::kMul && (is_zero(expr.args[0]) || is_zero(expr.args[1]))) ||
      (expr.op == Op::kSub && program::same(expr.args[0], expr.args[1]))) {
    expr = program::Expr::constant(expr.type, 0.0);
  }
}

}  // namespace

void fold_zeros(program::Program& source) {
  for (program::Statement& statement : source.statements) {
    fold_zeros(statement.value);
  }
}

bool is_overwritten(const program::Program& source, std::size_t number) {
  const program::Statement& statement = source.statements[number];
  bool is_read = statement.repeat >= 0;
  for (std::size_t i = number + 1; i < source.statements.size() && !is_read; ++i) {
    const program::Statement& later = source.statements[i];
    const auto check = [&](std::uint32_t tensor) { is_read = is_read || tensor == statement.target.tensor; };
    program::visit_read_tensors(later.value, check);
    program::visit_index_tensors(later.target, check);
    if (!is_read && later.repeat < 0 && later.assign == program::Assign::kSet &&
        same_place(later.target, statement.target)) {
      return true;
    }
    is_read = is_read || later.target.tensor == statement.target.tensor;
  }
  return false;
}

std::optional<std::uint32_t> copied_argument(const program::Program& source, std::size_t number) {
  const program::Statement& statement = source.statements[number];
  const program::Tensor& target = source.tensors[statement.target.tensor];
  const std::uint32_t from = statement.value.access.tensor;
  if (statement.value.op != Op::kRead || statement.reduce || statement.repeat >= 0 ||
      target.role != program::Role::kTemp || source.tensors[from].role == program::Role::kTemp ||
      source.tensors[from].dims != target.dims || source.tensors[from].type != target.type ||
      statement.value.access.indices != statement.target.indices ||
      !program::overwrites_target(source, statement)) {
    return std::nullopt;
  }
  const auto writes = [&](const program::Statement& one) {
    return one.target.tensor == statement.target.tensor;
  };
  return std::count_if(source.statements.begin(), source.statements.end(), writes) == 1 ? std::optional(from)
                                                                                        : std::nullopt;
}

program::Program with_decimals(const program::Program& source) {
  program::Program rounded = source;
  rounded.name = "rounded";  // kernels do not depend on it
  for (program::Statement& statement : rounded.statements) {
    cut_all(statement.value);
  }
  return rounded;
}

std::string without_types(const std::string& text) {
  std::string untyped;
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = std::min(text.find('\n', begin), text.size() - 1) + 1;
    const std::string line = text.substr(begin, end - begin);
    const bool is_argument = line.find_first_not_of(' ') == line.find("arg ");
    untyped += is_argument ? line.substr(0, line.find(':')) + line.substr(line.find('[')) : line;
    begin = end;
  }
  return untyped;
}

std::vector<program::Lifetime> lifetimes_of(const program::Program& source) {
  std::vector<program::Lifetime> lifetimes = program::lifetimes(source);
  if (!bug("index_lifetime")) {
    return lifetimes;
  }
  std::vector<std::uint64_t> last(source.tensors.size(), 0);
  for (std::uint64_t i = 0; i < source.statements.size(); ++i) {
    if (source.statements[i].repeat >= 0) {
      return lifetimes;
    }
    program::visit_target_and_reads(source.statements[i],
                                    [&](const program::Access& access) { last[access.tensor] = i; });
  }
  for (std::size_t tensor = 0; tensor < lifetimes.size(); ++tensor) {
    lifetimes[tensor].last = std::max(lifetimes[tensor].first, last[tensor]);
  }
  return lifetimes;
}

}  // namespace yoke::strip
