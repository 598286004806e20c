// SPDX-License-Identifier: Apache-2.0
// runtime/passes/order.cpp: what must come before what, and what belongs together, when statements are
// ordered.
#include "order.h"

#include <numeric>

namespace yoke::passes {
namespace {

constexpr Place kNone = ~Place{0};

// For each statement, those that must come later: readers of what it writes, and the next writer of what it
// uses.
std::vector<Places> followers_of(const Graph& graph) {
  const std::size_t tensor_count = graph.program().tensors.size();
  std::vector<Places> followers(graph.size());
  Places writer(tensor_count, kNone);
  std::vector<Places> readers(tensor_count);  // since the last write
  for (Place i = 0; i < graph.size(); ++i) {
    const std::uint32_t target = graph.at(i).target.tensor;
    for (const std::uint32_t tensor : graph.reads(i)) {
      if (writer[tensor] != kNone) {
        followers[writer[tensor]].push_back(i);
      }
      if (tensor != target) {
        readers[tensor].push_back(i);
      }
    }
    if (writer[target] != kNone) {
      followers[writer[target]].push_back(i);
    }
    for (const Place reader : readers[target]) {
      followers[reader].push_back(i);
    }
    readers[target].clear();
    writer[target] = i;
  }
  return followers;
}

Place first_after(Place i, const Places& places) {
  const auto found = std::upper_bound(places.begin(), places.end(), i);
  return found == places.end() ? kNone : *found;
}

// The statement that should follow statement i. In a group, that is the next one. Otherwise it is the next
// user of i's result, if it uses the result element by element and no other statement reads it.
Place successor(const Graph& graph, Place i) {
  if (graph.is_grouped(i)) {
    return i + 1 < graph.size() && graph.continues_group(i + 1) ? i + 1 : kNone;
  }
  const std::uint32_t fed = graph.at(i).target.tensor;
  const Place j = std::min(first_after(i, graph.readers(fed)), first_after(i, graph.writers(fed)));
  if (j == kNone || graph.is_grouped(j) || !graph.reads(j, fed)) {
    return kNone;
  }
  const Statement& user = graph.at(j);
  const bool is_epilogue = !user.reduce && user.assign == Assign::kSet &&
                           reads_only_at(user.value, {fed, user.target.indices, {}}) &&
                           (user.target.tensor == fed || graph.readers(fed).size() == 1);
  return is_epilogue ? j : kNone;
}

// For each statement, the next one of its chain or group.
Places links_of(const Graph& graph) {
  Places next(graph.size(), kNone);
  Places tail(graph.size());  // the last statement of the chain or group
  std::vector<bool> is_fed(graph.size(), false);
  for (Place i = graph.size(); i-- > 0;) {
    tail[i] = i;
    // A chain forms only if all its statements can move down to the last one. Then dependencies between
    // chains have no cycle.
    const Place j = successor(graph, i);
    const auto stops_move = [&](std::uint32_t tensor) { return graph.is_written(tensor, i + 1, tail[j]); };
    if (j != kNone && !is_fed[j] &&
        (graph.is_grouped(i) || std::none_of(graph.reads(i).begin(), graph.reads(i).end(), stops_move))) {
      next[i] = j;
      tail[i] = tail[j];
      is_fed[j] = true;
    }
  }
  for (Place i = 0; i < graph.size(); ++i) {  // a chain starts with a reduction
    if (next[i] != kNone && !is_fed[i] && !graph.at(i).reduce && !graph.is_grouped(i)) {
      is_fed[next[i]] = false;
      next[i] = kNone;
    }
  }
  return next;
}

void add_temporaries(const Graph& graph, Block& block) {
  std::vector<std::uint32_t>& used = block.temporaries;
  for (const Place i : block.statements) {
    block.writes_argument = block.writes_argument || graph.target_of(i).role != Role::kTemp;
    graph.for_each_use(i, [&](std::uint32_t tensor) {
      if (graph.program().tensors[tensor].role == Role::kTemp) {
        used.push_back(tensor);
      }
    });
  }
  std::sort(used.begin(), used.end());
  used.erase(std::unique(used.begin(), used.end()), used.end());
}

}  // namespace

std::vector<Block> blocks_of(const Graph& graph) {
  const Places next = links_of(graph);
  std::vector<Block> blocks;
  std::vector<std::uint32_t> block_of(graph.size(), kNone);
  for (Place head = 0; head < graph.size(); ++head) {
    for (Place i = head; i != kNone && block_of[i] == kNone; i = next[i]) {
      if (i == head) {
        blocks.emplace_back();
      }
      block_of[i] = static_cast<std::uint32_t>(blocks.size() - 1);
      blocks.back().statements.push_back(i);
    }
  }
  const std::vector<Places> followers = followers_of(graph);
  for (std::uint32_t b = 0; b < blocks.size(); ++b) {
    for (const Place i : blocks[b].statements) {
      for (const Place j : followers[i]) {
        if (block_of[j] != b) {
          blocks[b].followers.push_back(block_of[j]);
          ++blocks[block_of[j]].waits_for;
        }
      }
    }
    add_temporaries(graph, blocks[b]);
  }
  return blocks;
}

std::vector<Span> lives_in(const Graph& graph, const Places& order) {
  std::vector<Span> lives(graph.program().tensors.size());
  for (Place k = 0; k < order.size(); ++k) {
    graph.for_each_use(order[k], [&](std::uint32_t tensor) {
      lives[tensor].first = lives[tensor].end == 0 ? k : lives[tensor].first;
      lives[tensor].end = k + 1;
    });
  }
  return lives;
}

std::vector<std::uint64_t> bytes_in_use(const Graph& graph, const Places& order) {
  const std::vector<Tensor>& tensors = graph.program().tensors;
  const std::vector<Span> lives = lives_in(graph, order);
  std::vector<std::uint64_t> bytes(order.size() + 1, 0);  // differences modulo 2^64, then sums
  for (std::size_t t = 0; t < tensors.size(); ++t) {
    if (tensors[t].role == Role::kTemp) {
      bytes[lives[t].first] += tensors[t].byte_count();
      bytes[lives[t].end] -= tensors[t].byte_count();
    }
  }
  std::partial_sum(bytes.begin(), bytes.end(), bytes.begin());
  bytes.pop_back();
  return bytes;
}

std::uint64_t peak_bytes(const Graph& graph, const Places& order) {
  const std::vector<std::uint64_t> bytes = bytes_in_use(graph, order);
  return bytes.empty() ? 0 : *std::max_element(bytes.begin(), bytes.end());
}

}  // namespace yoke::passes
