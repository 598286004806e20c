// SPDX-License-Identifier: Apache-2.0
// runtime/program/rewrite.h: what the passes ask of a program, and the edits they share.
#pragma once

#include <yoke/program/access.h>
#include <yoke/program/program.h>

#include <algorithm>
#include <cstdint>
#include <optional>
#include <vector>

namespace yoke::passes {

using program::Access;
using program::Affine;
using program::Assign;
using program::Expr;
using program::Index;
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

// Tensors that the statement reads: by its value, its indices, and its target where it accumulates; sorted,
// each once.
std::vector<std::uint32_t> tensors_read(const Statement& statement);

inline bool contains(const std::vector<std::uint32_t>& sorted, std::uint32_t tensor) {
  return std::binary_search(sorted.begin(), sorted.end(), tensor);
}
inline bool touches(const Statement& statement, std::uint32_t tensor) {
  return statement.target.tensor == tensor || contains(tensors_read(statement), tensor);
}

// Whether every element of the target is assigned, whatever it held before.
bool writes_whole(const Program& program, const Statement& statement);

// Whether the index is affine and stays below `dim` for every value of loops and symbols.
bool stays_inside(const Program& program, const std::vector<Loop>& loops, const Index& index,
                  std::uint64_t dim);

// Makes every read and write of `from` one of `to`.
void rename_tensor(Statement& statement, std::uint32_t from, std::uint32_t to);

// Removes the marked statements, and hints that group nothing any more.
void remove_statements(Program& program, const std::vector<bool>& marked);
// Removes temporaries that no statement mentions.
void remove_unused_temporaries(Program& program);

// The passes, without the verifier behind them; each says whether it changed anything.
bool remove_dead_statements_in(Program& program);
bool fold_constants_in(Program& program);
bool eliminate_common_in(Program& program);
bool fuse_in(Program& program);
// Brings an elementwise statement right behind the reduction that feeds it, where a backend can absorb it.
bool place_epilogues_in(Program& program);

}  // namespace yoke::passes
