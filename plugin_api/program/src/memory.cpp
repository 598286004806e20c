// SPDX-License-Identifier: Apache-2.0
// plugin_api/program/src/memory.cpp: places blocks in one arena, largest first,
// each in the smallest gap that holds it.
#include <yoke/program/access.h>
#include <yoke/program/memory.h>

#include <algorithm>
#include <limits>
#include <numeric>
#include <stdexcept>

namespace yoke::program {
namespace {

constexpr std::uint64_t kAlignment = 64;

std::uint64_t aligned(std::uint64_t byte_count) {
  if (byte_count > std::numeric_limits<std::uint64_t>::max() / 2) {
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

// Extends the lifetime of the tensor to `statement`.
void mention(std::vector<Lifetime>& lives, const Program& program, std::uint32_t tensor,
             std::uint64_t statement) {
  if (program.tensors[tensor].role != Role::kTemp) {
    return;
  }
  Lifetime& life = lives[tensor];
  if (life.byte_count == 0) {
    life = {program.tensors[tensor].byte_count(), statement, statement};
  }
  life.last = statement;
}

void mention(std::vector<Lifetime>& lives, const Program& program, const Access& access,
             std::uint64_t statement) {
  mention(lives, program, access.tensor, statement);
  for (const Index& index : access.indices) {
    if (index.element_of) {
      mention(lives, program, *index.element_of, statement);
    }
  }
}

void mention(std::vector<Lifetime>& lives, const Program& program, const Expr& expr,
             std::uint64_t statement) {
  if (expr.op == Op::kRead) {
    mention(lives, program, expr.access, statement);
  }
  for (const Expr& arg : expr.args) {
    mention(lives, program, arg, statement);
  }
}

// What a repeat block uses must last from its first statement to its last, because the next round may read
// it. Only a temporary of one round, used in this block alone and overwritten before it is read, may share
// its memory within the round.
void extend_over(const Program& program, const Block& block, std::vector<Lifetime>& lives) {
  for (std::size_t i = 0; i < lives.size(); ++i) {
    Lifetime& life = lives[i];
    if (life.byte_count == 0 || life.first >= block.last || life.last < block.first) {
      continue;
    }
    const Statement& first = program.statements[life.first];
    const bool is_inside = life.first >= block.first && life.last < block.last;
    if (!is_inside || first.target.tensor != i || !overwrites_target(program, first)) {
      life.first = std::min<std::uint64_t>(life.first, block.first);
      life.last = std::max<std::uint64_t>(life.last, block.last - 1);
    }
  }
}

}  // namespace

MemoryPlan plan_memory(std::span<const Lifetime> lifetimes) {
  std::vector<std::size_t> order(lifetimes.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
    if (lifetimes[a].byte_count != lifetimes[b].byte_count) {
      return lifetimes[a].byte_count > lifetimes[b].byte_count;
    }
    return lifetimes[a].first < lifetimes[b].first;
  });

  MemoryPlan plan;
  plan.offsets.assign(lifetimes.size(), 0);
  std::vector<std::size_t> placed;
  for (const std::size_t block : order) {
    const std::uint64_t byte_count = aligned(lifetimes[block].byte_count);
    if (byte_count == 0) {
      continue;
    }
    std::vector<Extent> taken;
    for (const std::size_t other : placed) {
      if (overlap(lifetimes[block], lifetimes[other])) {
        taken.push_back({plan.offsets[other], plan.offsets[other] + aligned(lifetimes[other].byte_count)});
      }
    }
    std::sort(taken.begin(), taken.end(), [](const Extent& a, const Extent& b) { return a.begin < b.begin; });
    const std::uint64_t offset = best_offset(taken, byte_count);
    if (offset > std::numeric_limits<std::uint64_t>::max() / 2) {
      throw std::length_error("plan_memory: the blocks together exceed the address space");
    }
    plan.offsets[block] = offset;
    plan.byte_count = std::max(plan.byte_count, offset + byte_count);
    placed.push_back(block);
  }
  return plan;
}

std::vector<Lifetime> lifetimes(const Program& program) {
  std::vector<Lifetime> lives(program.tensors.size());
  for (std::size_t i = 0; i < program.statements.size(); ++i) {
    mention(lives, program, program.statements[i].target, i);
    mention(lives, program, program.statements[i].value, i);
  }
  for (const Block& block : program.blocks()) {
    if (block.repeat >= 0) {
      extend_over(program, block, lives);
    }
  }
  return lives;
}

}  // namespace yoke::program
