// SPDX-License-Identifier: Apache-2.0
// runtime/passes/order.cpp: what must come before what, and what belongs together, when statements are ordered.
#include "order.h"

#include <numeric>
#include <set>

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

// For each statement, the next one of its chain or group.
class Links {
 public:
  explicit Links(const Graph& graph)
      : graph_(graph), next_(graph.size(), kNone), is_fed_(graph.size(), false) {
    for (Place i = graph.size(); i-- > 0;) {
      if (const Place j = link_of(i); j != kNone) {
        next_[i] = j;
        is_fed_[j] = true;
      }
    }
    for (Place i = 0; i < graph.size(); ++i) {  // a chain starts with a reduction
      if (next_[i] != kNone && !is_fed_[i] && !graph.at(i).reduce && !graph.is_grouped(i)) {
        is_fed_[next_[i]] = false;
        next_[i] = kNone;
      }
    }
  }

  Places take() { return std::move(next_); }

 private:
  Place link_of(Place i) const {
    if (graph_.is_grouped(i)) {
      return i + 1 < graph_.size() && graph_.continues_group(i + 1) ? i + 1 : kNone;
    }
    // The next user of the result, if no other statement reads it.
    const std::uint32_t fed = graph_.at(i).target.tensor;
    const Place j = std::min(first_after(i, graph_.readers(fed)), first_after(i, graph_.writers(fed)));
    if (j == kNone || is_fed_[j] || !is_epilogue(j, fed) ||
        (graph_.at(j).target.tensor != fed && graph_.readers(fed).size() > 1)) {
      return kNone;
    }
    return j;
  }

  static Place first_after(Place i, const Places& places) {
    const auto found = std::upper_bound(places.begin(), places.end(), i);
    return found == places.end() ? kNone : *found;
  }

  // Whether statement j uses `fed` element by element.
  bool is_epilogue(Place j, std::uint32_t fed) const {
    const Statement& statement = graph_.at(j);
    return !statement.reduce && !graph_.is_grouped(j) && statement.assign == Assign::kSet &&
           graph_.reads(j, fed) && !has_element_index(statement.target) &&
           reads_only_at(statement.value, fed, statement.target.indices);
  }

  const Graph& graph_;
  Places next_;
  std::vector<bool> is_fed_;  // by the previous statement of its chain or group
};

// Takes each whole chain as soon as all statements that must precede it are done, in the order of the
// program. If all remaining chains wait for each other, splits the first into statements.
class Separation {
 public:
  Separation(const Graph& graph, const std::vector<Places>& followers)
      : followers_(followers),
        next_(Links(graph).take()),
        head_(graph.size()),
        waits_(graph.size(), 0),
        chain_waits_(graph.size(), 0),
        done_(graph.size(), false) {
    std::vector<bool> is_fed(graph.size(), false);
    for (const Place next : next_) {
      if (next != kNone) {
        is_fed[next] = true;
      }
    }
    for (Place i = 0; i < graph.size(); ++i) {
      for (Place j = i; !is_fed[i] && j != kNone; j = next_[j]) {
        head_[j] = i;
      }
    }
    for (Place i = 0; i < graph.size(); ++i) {
      for (const Place j : followers_[i]) {
        ++waits_[j];
        chain_waits_[head_[j]] += head_[i] == head_[j] ? 0U : 1U;
      }
    }
    for (Place i = 0; i < graph.size(); ++i) {
      consider(i);
    }
  }

  std::vector<Places> run() {
    std::vector<Places> blocks;
    for (Place lowest = 0; lowest < done_.size();) {
      if (done_[lowest]) {
        ++lowest;
        continue;
      }
      if (ready_.empty()) {
        fall_apart(head_[lowest]);
      }
      const Place head = *ready_.begin();
      ready_.erase(ready_.begin());
      blocks.emplace_back();
      for (Place i = head; i != kNone; i = next_[i]) {
        blocks.back().push_back(i);
        finish(i);
      }
    }
    return blocks;
  }

 private:
  void consider(Place i) {
    if (head_[i] == i && chain_waits_[i] == 0 && !done_[i]) {
      ready_.insert(i);
    }
  }

  void finish(Place i) {
    done_[i] = true;
    for (const Place j : followers_[i]) {
      --waits_[j];
      if (head_[i] != head_[j]) {
        --chain_waits_[head_[j]];
        consider(head_[j]);
      }
    }
  }

  void fall_apart(Place head) {
    for (Place i = head; i != kNone;) {
      head_[i] = i;
      chain_waits_[i] = waits_[i];
      consider(i);
      i = std::exchange(next_[i], kNone);
    }
  }

  const std::vector<Places>& followers_;
  Places next_;
  Places head_;                             // the first statement of the chain
  std::vector<std::uint32_t> waits_;        // statements that must come before
  std::vector<std::uint32_t> chain_waits_;  // by head: statements outside the chain that must come before it
  std::vector<bool> done_;
  std::set<Place> ready_;  // heads
};

void add_temporaries(const Graph& graph, Block& block) {
  const std::vector<Tensor>& tensors = graph.program().tensors;
  std::vector<std::uint32_t>& used = block.temporaries;
  for (const Place i : block.statements) {
    used.push_back(graph.at(i).target.tensor);
    block.writes_argument = block.writes_argument || graph.target_of(i).role != Role::kTemp;
    used.insert(used.end(), graph.reads(i).begin(), graph.reads(i).end());
  }
  std::sort(used.begin(), used.end());
  used.erase(std::unique(used.begin(), used.end()), used.end());
  std::erase_if(used, [&](std::uint32_t tensor) { return tensors[tensor].role != Role::kTemp; });
}

}  // namespace

std::vector<Block> blocks_of(const Graph& graph) {
  const std::vector<Places> followers = followers_of(graph);
  std::vector<Block> blocks;
  std::vector<std::uint32_t> block_of(graph.size());
  for (Places& statements : Separation(graph, followers).run()) {
    for (const Place i : statements) {
      block_of[i] = static_cast<std::uint32_t>(blocks.size());
    }
    blocks.emplace_back().statements = std::move(statements);
  }
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

std::vector<std::uint64_t> bytes_in_use(const Graph& graph, const Places& order) {
  const std::vector<Tensor>& tensors = graph.program().tensors;
  const std::size_t count = order.size();
  std::vector<std::size_t> first(tensors.size(), count);
  std::vector<std::size_t> last(tensors.size(), 0);
  for (std::size_t k = 0; k < count; ++k) {
    const auto use = [&](std::uint32_t tensor) {
      first[tensor] = std::min(first[tensor], k);
      last[tensor] = k;
    };
    use(graph.at(order[k]).target.tensor);
    std::for_each(graph.reads(order[k]).begin(), graph.reads(order[k]).end(), use);
  }
  std::vector<std::uint64_t> bytes(count + 1, 0);  // differences modulo 2^64, then sums
  for (std::size_t t = 0; t < tensors.size(); ++t) {
    if (tensors[t].role == Role::kTemp && first[t] < count) {
      bytes[first[t]] += tensors[t].byte_count();
      bytes[last[t] + 1] -= tensors[t].byte_count();
    }
  }
  std::partial_sum(bytes.begin(), bytes.end(), bytes.begin());
  bytes.pop_back();
  return bytes;
}

}  // namespace yoke::passes
