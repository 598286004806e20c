// SPDX-License-Identifier: Apache-2.0
// runtime/passes/rewrite.h: queries and edits that the passes share.
#pragma once

#include <yoke/program/access.h>
#include <yoke/program/program.h>

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace yoke::passes {

using program::Access;
using program::Affine;
using program::Assign;
using program::Expr;
using program::Index;
using program::kNoLoop;
using program::Literal;
using program::Loop;
using program::Op;
using program::Program;
using program::Reduce;
using program::Role;
using program::Statement;
using program::Tensor;
using program::Type;

// Calls visit(expr) for `expr` and everything below it, parents first.
template <typename E, typename Visit>
void visit_expr(E& expr, const Visit& visit) {
  visit(expr);
  for (auto& arg : expr.args) {
    visit_expr(arg, visit);
  }
}

std::size_t node_count(const Expr& expr);
// "line 7", where the statement stood in the text.
std::string line_of(const Statement& statement);

// The tensors that the statement reads through its value and its indices, and
// its target if it accumulates. Sorted and unique.
std::vector<std::uint32_t> tensors_read(const Statement& statement);

inline bool contains(const std::vector<std::uint32_t>& sorted, std::uint32_t tensor) {
  return std::binary_search(sorted.begin(), sorted.end(), tensor);
}

// Replaces every read and write of `from` by one of `to`.
void rename_tensor(Statement& statement, std::uint32_t from, std::uint32_t to);

// Removes the marked statements, and then hints and variables without statements and temporaries that no
// statement uses. Numbers hints and variables in the order of the statements.
void remove_statements(Program& program, const std::vector<bool>& marked);

}  // namespace yoke::passes
