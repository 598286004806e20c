// SPDX-License-Identifier: Apache-2.0
// plugin_api/program/src/memory.cpp: places blocks in one arena, in several orders, each block in the
// smallest gap that holds it, and keeps the smallest arena.
#include <yoke/program/access.h>
#include <yoke/program/memory.h>

#include <algorithm>
#include <limits>
#include <map>
#include <numeric>
#include <set>
#include <stdexcept>

namespace yoke::program {
namespace {

constexpr std::uint64_t kAlignment = 64;
constexpr std::uint64_t kAddressSpace = std::numeric_limits<std::uint64_t>::max() / 2;
constexpr std::size_t kMostBySize = 1000;  // the most blocks that place_by_size() places, in quadratic time

std::uint64_t aligned(std::uint64_t byte_count) {
  if (byte_count > kAddressSpace) {
    throw std::length_error("plan_memory: a block of " + std::to_string(byte_count) +
                            " bytes exceeds the address space; check the tensor's dimensions");
  }
  return (byte_count + kAlignment - 1) / kAlignment * kAlignment;
}

bool overlap(const Lifetime& a, const Lifetime& b) {
  return a.first <= b.last && b.first <= a.last;
}

struct Extent {
  std::uint64_t begin;
  std::uint64_t end;
};

// The start of the smallest gap in `taken` (sorted by begin) that holds `byte_count` bytes, or the end of
// the last extent if there is no such gap.
std::uint64_t best_offset(const std::vector<Extent>& taken, std::uint64_t byte_count) {
  std::uint64_t best = 0;
  std::uint64_t best_gap = std::numeric_limits<std::uint64_t>::max();
  bool found = false;
  std::uint64_t cursor = 0;
  for (const Extent& extent : taken) {
    if (extent.begin > cursor) {
      const std::uint64_t gap = extent.begin - cursor;
      if (gap >= byte_count && gap < best_gap) {
        best = cursor;
        best_gap = gap;
        found = true;
      }
    }
    cursor = std::max(cursor, extent.end);
  }
  return found ? best : cursor;
}

// Places the largest block first, each block in the smallest gap that is free during its whole life. Takes
// quadratic time.
MemoryPlan place_by_size(std::span<const Lifetime> blocks) {
  std::vector<std::size_t> order(blocks.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
    if (blocks[a].byte_count != blocks[b].byte_count) {
      return blocks[a].byte_count > blocks[b].byte_count;
    }
    return blocks[a].first < blocks[b].first;
  });
  MemoryPlan plan;
  plan.offsets.resize(blocks.size());
  for (std::size_t i = 0; i < order.size(); ++i) {
    const Lifetime& block = blocks[order[i]];
    std::vector<Extent> taken;
    for (const std::size_t other : std::span(order).first(i)) {
      if (overlap(block, blocks[other])) {
        taken.push_back({plan.offsets[other], plan.offsets[other] + blocks[other].byte_count});
      }
    }
    std::sort(taken.begin(), taken.end(), [](const Extent& a, const Extent& b) { return a.begin < b.begin; });
    const std::uint64_t offset = best_offset(taken, block.byte_count);
    plan.offsets[order[i]] = offset;
    plan.byte_count = std::max(plan.byte_count, offset + block.byte_count);
  }
  return plan;
}

// An arena that grows at its end. Neighboring gaps are merged.
class Arena {
 public:
  // Takes bytes from the smallest gap that holds them. If there is none, grows the arena; the bytes then
  // start in the gap at its end, if it ends with a gap.
  std::uint64_t take(std::uint64_t byte_count) {
    const auto smallest = by_size_.lower_bound({byte_count, 0});
    if (smallest != by_size_.end()) {
      const auto [gap, offset] = *smallest;
      remove(gaps_.find(offset));
      if (gap > byte_count) {
        add(offset + byte_count, gap - byte_count);
      }
      return offset;
    }
    std::uint64_t offset = end_;
    if (!gaps_.empty()) {
      const auto last = std::prev(gaps_.end());
      if (last->first + last->second == end_) {
        offset = last->first;
        remove(last);
      }
    }
    end_ = offset + byte_count;
    return offset;
  }

  void give_back(std::uint64_t offset, std::uint64_t byte_count) {
    const auto after = gaps_.lower_bound(offset);
    if (after != gaps_.begin()) {
      const auto before = std::prev(after);
      if (before->first + before->second == offset) {
        offset = before->first;
        byte_count += before->second;
        remove(before);
      }
    }
    if (after != gaps_.end() && after->first == offset + byte_count) {
      byte_count += after->second;
      remove(after);
    }
    add(offset, byte_count);
  }

  std::uint64_t byte_count() const { return end_; }

 private:
  using Gaps = std::map<std::uint64_t, std::uint64_t>;  // sizes by offset

  void add(std::uint64_t offset, std::uint64_t byte_count) {
    gaps_.emplace(offset, byte_count);
    by_size_.emplace(byte_count, offset);
  }
  void remove(Gaps::iterator gap) {
    by_size_.erase({gap->second, gap->first});
    gaps_.erase(gap);
  }

  Gaps gaps_;
  std::set<std::pair<std::uint64_t, std::uint64_t>> by_size_;
  std::uint64_t end_ = 0;
};

// Places each block when its life begins, in the smallest gap that is free then.
MemoryPlan place_by_time(std::span<const Lifetime> blocks) {
  std::vector<std::size_t> begins(blocks.size());
  std::iota(begins.begin(), begins.end(), std::size_t{0});
  std::vector<std::size_t> ends = begins;
  std::stable_sort(begins.begin(), begins.end(), [&](std::size_t a, std::size_t b) {
    return blocks[a].first != blocks[b].first ? blocks[a].first < blocks[b].first
                                              : blocks[a].byte_count > blocks[b].byte_count;
  });
  std::stable_sort(ends.begin(), ends.end(),
                   [&](std::size_t a, std::size_t b) { return blocks[a].last < blocks[b].last; });
  MemoryPlan plan;
  plan.offsets.resize(blocks.size());
  Arena arena;
  auto dead = ends.begin();
  for (const std::size_t block : begins) {
    for (; blocks[*dead].last < blocks[block].first; ++dead) {
      arena.give_back(plan.offsets[*dead], blocks[*dead].byte_count);
    }
    plan.offsets[block] = arena.take(blocks[block].byte_count);
  }
  plan.byte_count = arena.byte_count();
  return plan;
}

// Does the same from the last statement to the first.
MemoryPlan place_against_time(std::span<const Lifetime> blocks) {
  std::vector<Lifetime> mirrored(blocks.begin(), blocks.end());
  for (Lifetime& block : mirrored) {
    block.first = std::numeric_limits<std::uint64_t>::max() - block.first;
    block.last = std::numeric_limits<std::uint64_t>::max() - block.last;
    std::swap(block.first, block.last);
  }
  return place_by_time(mirrored);
}

// The most bytes that are in use at a time; no plan needs fewer.
std::uint64_t bytes_in_use(std::span<const Lifetime> blocks) {
  std::vector<std::pair<std::uint64_t, std::int64_t>> changes;
  for (const Lifetime& block : blocks) {
    const auto byte_count = static_cast<std::int64_t>(block.byte_count);
    changes.emplace_back(block.first, byte_count);
    changes.emplace_back(block.last + 1, -byte_count);
  }
  std::sort(changes.begin(), changes.end());
  std::int64_t now = 0;
  std::int64_t most = 0;
  for (const auto& [time, change] : changes) {
    now += change;
    most = std::max(most, now);
  }
  return static_cast<std::uint64_t>(most);
}

// What a repeat block uses must last from its first statement to its last, because the next round may read
// it. Only a temporary of one round, used in this block alone and overwritten before it is read, may share
// its memory within the round.
void extend_over(const Program& program, const Block& block, std::uint32_t tensor, Lifetime& life) {
  const Statement& first = program.statements[life.first];
  const bool is_inside = life.first >= block.first && life.last < block.last;
  if (!is_inside || first.target.tensor != tensor || !overwrites_target(program, first)) {
    life.first = std::min<std::uint64_t>(life.first, block.first);
    life.last = std::max<std::uint64_t>(life.last, block.last - 1);
  }
}

}  // namespace

MemoryPlan plan_memory(std::span<const Lifetime> lifetimes) {
  std::vector<Lifetime> blocks;
  std::vector<std::size_t> numbers;
  std::uint64_t sum = 0;
  for (std::size_t i = 0; i < lifetimes.size(); ++i) {
    if (lifetimes[i].byte_count != 0) {
      blocks.push_back({aligned(lifetimes[i].byte_count), lifetimes[i].first, lifetimes[i].last});
      numbers.push_back(i);
      sum += blocks.back().byte_count;
      if (sum > kAddressSpace) {
        throw std::length_error("plan_memory: the blocks together exceed the address space");
      }
    }
  }

  MemoryPlan best = place_by_time(blocks);
  const std::uint64_t least = bytes_in_use(blocks);
  for (const auto place : {place_against_time, place_by_size}) {
    const bool is_too_slow = place == place_by_size && blocks.size() > kMostBySize;
    if (best.byte_count > least && !is_too_slow) {
      MemoryPlan other = place(blocks);
      if (other.byte_count < best.byte_count) {
        best = std::move(other);
      }
    }
  }

  MemoryPlan plan;
  plan.byte_count = best.byte_count;
  plan.offsets.resize(lifetimes.size());
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    plan.offsets[numbers[i]] = best.offsets[i];
  }
  return plan;
}

std::vector<Lifetime> lifetimes(const Program& program) {
  std::vector<Lifetime> lives(program.tensors.size());
  for (std::size_t i = 0; i < program.statements.size(); ++i) {
    const auto mention = [&](std::uint32_t tensor) {
      Lifetime& life = lives[tensor];
      if (program.tensors[tensor].role == Role::kTemp) {
        life = {program.tensors[tensor].byte_count(), life.byte_count == 0 ? i : life.first, i};
      }
    };
    const Statement& statement = program.statements[i];
    mention(statement.target.tensor);
    visit_index_tensors(statement.target, mention);
    visit_read_tensors(statement.value, mention);
  }
  const std::vector<Block> blocks = program.blocks();
  const auto block_of = [&](std::uint64_t statement) {
    return std::prev(std::upper_bound(blocks.begin(), blocks.end(), statement,
                                      [](std::uint64_t at, const Block& block) { return at < block.first; }));
  };
  for (std::uint32_t tensor = 0; tensor < lives.size(); ++tensor) {
    Lifetime& life = lives[tensor];
    if (life.byte_count != 0) {
      for (const auto block : {block_of(life.first), block_of(life.last)}) {
        if (block->repeat >= 0) {
          extend_over(program, *block, tensor, life);
        }
      }
    }
  }
  return lives;
}

}  // namespace yoke::program
