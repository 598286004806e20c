// SPDX-License-Identifier: Apache-2.0
// runtime/passes/schedule.cpp: orders statements by the memory of temporaries and by when arguments become
// final. Tries several rules, simulates each, and keeps the best order.
#include <numeric>
#include <set>
#include <tuple>

#include "region.h"

namespace yoke::passes {
namespace {

using Number = std::uint32_t;  // of a block

// What to do next among the blocks that could come next.
enum class Prefer {
  kFirst,    // the first in the order of the program
  kFreeing,  // those after which no more memory is in use than before; else the first
  kSmallest  // the one after which the least memory is in use
};
constexpr Prefer kPreferences[] = {Prefer::kFirst, Prefer::kFreeing, Prefer::kSmallest};

class Scheduler {
 public:
  Scheduler(const Graph& graph, const std::vector<Block>& blocks)
      : graph_(graph), blocks_(blocks), users_(graph.program().tensors.size()) {
    for (Number b = 0; b < blocks.size(); ++b) {
      for (const std::uint32_t tensor : blocks[b].temporaries) {
        ++users_[tensor].count;
        users_[tensor].sum += b;
      }
    }
  }

  Places run(Prefer prefer) {
    prefer_ = prefer;
    left_ = users_;
    started_.assign(left_.size(), false);
    done_.assign(blocks_.size(), false);
    waits_.clear();
    for (Number b = 0; b < blocks_.size(); ++b) {
      waits_.push_back(blocks_[b].waits_for);
      update(b);
    }
    Places order;
    while (!ready_.empty()) {
      const Number b = std::get<Number>(*ready_.begin());
      ready_.erase(ready_.begin());
      if (!done_[b]) {
        order.insert(order.end(), blocks_[b].statements.begin(), blocks_[b].statements.end());
        finish(b);
      }
    }
    return order;
  }

 private:
  struct Users {
    std::uint64_t count = 0;
    std::uint64_t sum = 0;  // of their numbers: if one is left, its number
  };
  using Key = std::tuple<bool, std::int64_t, bool, Number>;  // allocates, bytes, is internal, block

  // The bytes that are in use after the block, minus those before it.
  std::int64_t net_bytes(Number b) const {
    std::int64_t net = 0;
    for (const std::uint32_t tensor : blocks_[b].temporaries) {
      ++graph_.report().visits;
      const auto bytes = static_cast<std::int64_t>(graph_.program().tensors[tensor].byte_count());
      net += started_[tensor] ? 0 : bytes;
      net -= left_[tensor].count == 1 ? bytes : 0;
    }
    return net;
  }

  Key key_of(Number b) const {
    if (prefer_ == Prefer::kFirst) {
      return {false, 0, false, b};
    }
    const std::int64_t net = net_bytes(b);
    const bool counts = net <= 0 || prefer_ == Prefer::kSmallest;
    return {net > 0, counts ? net : 0, counts && !blocks_[b].writes_argument, b};
  }

  // Keys only get better, so the worse keys of a block may stay in the set.
  void update(Number b) {
    if (waits_[b] == 0) {
      ready_.insert(key_of(b));
    }
  }

  void finish(Number b) {
    done_[b] = true;
    for (const Number follower : blocks_[b].followers) {
      --waits_[follower];
    }
    for (const std::uint32_t tensor : blocks_[b].temporaries) {
      Users& users = left_[tensor];
      --users.count;
      users.sum -= b;
      started_[tensor] = true;
      if (users.count == 1) {
        update(static_cast<Number>(users.sum));
      }
    }
    for (const Number follower : blocks_[b].followers) {
      update(follower);
    }
  }

  const Graph& graph_;
  const std::vector<Block>& blocks_;
  std::vector<Users> users_;  // by tensor: blocks that use the temporary
  Prefer prefer_ = Prefer::kFirst;
  std::vector<Users> left_;  // of users_, those that are not done
  std::vector<bool> started_;
  std::vector<bool> done_;
  std::vector<std::uint32_t> waits_;
  std::set<Key> ready_;
};

// Lower is better.
struct Score {
  std::uint64_t peak_bytes = 0;  // of temporaries in use during one statement
  std::uint64_t final_at = 0;    // the sum of the places where arguments are written last
  std::uint64_t moved = 0;       // how many statements moved
  friend bool operator<(const Score& a, const Score& b) {
    return std::tie(a.peak_bytes, a.final_at, a.moved) < std::tie(b.peak_bytes, b.final_at, b.moved);
  }
};

Score score_of(const Graph& graph, const Places& order) {
  Score score;
  std::vector<std::uint64_t> written(graph.program().tensors.size(), 0);
  for (std::size_t k = 0; k < order.size(); ++k) {
    if (graph.target_of(order[k]).role != Role::kTemp) {
      written[graph.at(order[k]).target.tensor] = k;
    }
    score.moved += order[k] != k ? 1U : 0U;
  }
  score.final_at = std::accumulate(written.begin(), written.end(), std::uint64_t{0});
  score.peak_bytes = peak_bytes(graph, order);
  return score;
}

bool order(Graph& graph, const Summaries* summaries) {
  const std::vector<Block> blocks = blocks_of(graph);
  Scheduler scheduler(graph, blocks);
  Places best;
  Score best_score;
  for (const Prefer prefer : kPreferences) {
    Places order = scheduler.run(prefer);
    if (summaries != nullptr) {
      order = gathered(graph, *summaries, order);
    }
    const Score score = score_of(graph, order);
    if (best.empty() || score < best_score) {
      best = std::move(order);
      best_score = score;
    }
  }
  if (best_score.moved == 0) {
    return false;
  }
  graph.reorder(best);
  return true;
}

}  // namespace

bool schedule_in(Graph& graph) {
  return order(graph, nullptr);
}

bool gather_in(Graph& graph) {
  const Summaries summaries(graph);
  return order(graph, &summaries);
}

}  // namespace yoke::passes
