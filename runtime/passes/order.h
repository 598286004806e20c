// SPDX-License-Identifier: Apache-2.0
// runtime/passes/order.h: what must come before what, and what belongs together, when statements are ordered.
#pragma once

#include "graph.h"

namespace yoke::passes {

// Statements that stay together: a group, a chain, or a single statement. A chain is a reduction and the
// elementwise statements that use its result element by element, so that a backend can merge them.
struct Block {
  Places statements;
  std::vector<std::uint32_t> followers;    // blocks that must come later; one entry per reason
  std::uint32_t waits_for = 0;             // entries for this block in the followers of others
  std::vector<std::uint32_t> temporaries;  // that the statements use; sorted and unique
  bool writes_argument = false;
};

// The blocks in the order of their first statements.
std::vector<Block> blocks_of(const Graph& graph);

// Statements [first, end).
struct Span {
  Place first = 0;
  Place end = 0;
};
// For each tensor, from its first use in the order to its last; empty for unused tensors.
std::vector<Span> lives_in(const Graph& graph, const Places& order);
// The bytes of temporaries that are in use during each statement of the order, and their peak.
std::vector<std::uint64_t> bytes_in_use(const Graph& graph, const Places& order);
std::uint64_t peak_bytes(const Graph& graph, const Places& order);

}  // namespace yoke::passes
