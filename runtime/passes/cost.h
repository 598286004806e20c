// SPDX-License-Identifier: Apache-2.0
// runtime/passes/cost.h: the cost of computing a temporary where it
// is read, and when a contraction stays one.
#pragma once

#include "graph.h"

namespace yoke::passes {

// The cost of computing the producer's value in place of a read.
enum class Cost {
  // Below the cost of the read: constants, loop indices, scalars; possibly cast or negated.
  kFree,
  // Equal to it: a read of another tensor in the same memory order.
  kCopy,
  // Equal to it, with the same row-major number of each element: indices may have several loops.
  kReshape,
  // A read of fewer bytes and a cast: every consumer then reads fewer, but a contraction would have another type.
  kWidened,
  // A read in a different memory order: acceptable in a contraction, elsewhere once per element.
  kMoved,
  // A read and a cast or a negation: may be repeated for one consumer.
  kCheap,
  // A few additions or the like, with at most one large operand: may be repeated once per element in each
  // consumer, if the operand is live there anyway.
  kLight,
  // Anything else: once per element.
  kWork
};

// Precondition: the statement is elementwise.
Cost cost_of(const Program& program, const Statement& statement);

// Whether all large operands of a producer, but at most one, are in memory until after statement `last`, even
// if no statement computes the producer's value again.
bool inputs_live_until(const Graph& graph, Place producer, Place last);

// For each loop of the statement, whether the access depends on it.
std::vector<bool> loops_of(const Access& access, const Statement& statement);

// Whether no two iterations of the statement read the same element.
bool reads_each_once(const Access& access, const Statement& statement);

// Whether the statement is a sum of products of two reads, possibly guarded, which backends implement with a
// matrix library. If both operands have the same loops, each element is read once, and a library would gain
// nothing.
bool is_contraction(const Statement& statement);

// Whether both operands of the contraction have a loop that the other one lacks.
bool is_matrix_product(const Statement& statement);

// Whether `before`, a contraction, is still one after a substitution, with plain operands and all the loops
// that the product needs.
bool stays_contraction(const Statement& before, const Statement& after);

}  // namespace yoke::passes
