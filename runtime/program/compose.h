// SPDX-License-Identifier: Apache-2.0
// runtime/program/compose.h: the value of a temporary, seen through a read of it.
#pragma once

#include <optional>

#include "rewrite.h"

namespace yoke::passes {

// A statement `t[a, b, ..] = value` that assigns a whole temporary, each loop alone in its dimension.
struct Producer {
  const Program& program;
  const Statement& statement;

  std::uint32_t tensor() const { return statement.target.tensor; }
  const std::vector<std::uint64_t>& dims() const { return program.tensors[tensor()].dims; }
  // The dimension that the loop stands in.
  std::size_t dim_of(std::uint32_t loop) const;
};

// Whether the statement has that form. (That nothing else writes the temporary is for the caller to see to.)
bool is_elementwise(const Program& program, const Statement& statement);

// What `access`, a read of the producer's temporary in a statement with these loops, would give, computed in
// place. Nothing where that cannot be said in one expression: `else` with a computed value, an index that is
// no longer affine.
std::optional<Expr> composed(const Producer& producer, const Access& access, const std::vector<Loop>& loops);

// An element of an index tensor, seen through the copy of that tensor; nothing where the producer is no plain
// copy.
std::optional<Index> composed_index(const Producer& producer, const Index& index,
                                    const std::vector<Loop>& loops);

}  // namespace yoke::passes
