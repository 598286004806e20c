// SPDX-License-Identifier: Apache-2.0
// runtime/passes/compose.h: replaces a read of a temporary by the expression that computes it.
#pragma once

#include <optional>

#include "graph.h"

namespace yoke::passes {

// A statement `t[a, b, ..] = value` that assigns a whole temporary: each loop indexes one dimension.
struct Producer {
  const Program& program;
  const Statement& statement;

  std::uint32_t tensor() const { return statement.target.tensor; }
  const std::vector<std::uint64_t>& dims() const { return program.tensors[tensor()].dims; }
  // The dimension that the loop indexes.
  std::size_t dim_of(std::uint32_t loop) const;
};

// Whether the statement has that form. The caller checks that no other statement writes the temporary.
bool is_elementwise(const Program& program, const Statement& statement);

// Whether statement i is the only one that writes its target, a temporary, and other statements may compute
// its value in place of reading it.
bool is_producer(const Graph& graph, Place i);

// A statement that computes a temporary's value where it read the temporary.
struct Substitution {
  Statement statement;
  std::size_t sites = 0;  // how many reads were replaced
  bool each_once = true;  // whether each read visits each element once, and most iterations read in range
};
// Statement j after the substitution of producer i's value. Returns nothing if the value cannot be computed
// there, or if the statement would exceed the size limit. In a group, only a producer of the same group and,
// from before a repeat block, a value that all rounds compute alike can be substituted.
std::optional<Substitution> substitution(const Graph& graph, Place i, Place j);

// The expression for the value that `access` reads: a read of the producer's temporary in a statement with
// these loops. Returns nothing if one expression cannot express it: an `else` with a computed value, or an
// index that is not affine.
std::optional<Expr> composed(const Producer& producer, const Access& access, const std::vector<Loop>& loops);

}  // namespace yoke::passes
