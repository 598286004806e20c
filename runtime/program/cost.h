// SPDX-License-Identifier: Apache-2.0
// runtime/program/cost.h: what it costs to compute a temporary where it is read, and what a contraction must
// keep.
#pragma once

#include "rewrite.h"

namespace yoke::passes {

// What computing the producer's value in place of a read costs.
enum class Cost {
  kFree,   // less than the read: constants, loop indices, scalars; possibly cast or negated
  kCopy,   // the same: another read, in the same order of memory
  kMoved,  // another read, in another order: fine for a contraction, and once per element elsewhere
  kCheap,  // a read and a cast or a negation: may be repeated, for one consumer
  kWork    // anything else: once per element
};

// Of an elementwise statement.
Cost cost_of(const Program& program, const Statement& statement);

// Whether no two iterations read the same element.
bool reads_each_once(const Access& access, const std::vector<Loop>& loops);

// Whether the target still names every loop: its element index may have been a copy of one element.
bool keeps_loops(const Statement& before, const Statement& after);

// sum of a product of two reads: what backends hand to a library of matrix products.
bool is_contraction(const Statement& statement);

// Whether the changed contraction is still one: plain operands, no loop lost that the product needs.
bool stays_contraction(const Statement& before, const Statement& after);

}  // namespace yoke::passes
