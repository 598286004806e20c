// SPDX-License-Identifier: Apache-2.0
// tests/unit/passes/memory_test.cpp: temporaries share an arena, but no bytes while both are live.
#include <gtest/gtest.h>
#include <yoke/program/memory.h>
#include <yoke/program/text.h>

#include <random>

namespace yoke::program {
namespace {

bool live_together(const Lifetime& a, const Lifetime& b) {
  return a.first <= b.last && b.first <= a.last;
}

TEST(MemoryPlan, ChainOfEqualBlocksNeedsTwoBlocks) {
  std::vector<Lifetime> chain;
  for (std::uint64_t i = 0; i < 20; ++i) {
    chain.push_back({4096, i, i + 1});
  }
  const MemoryPlan plan = plan_memory(chain);
  EXPECT_EQ(plan.byte_count, 2U * 4096U);
}

TEST(MemoryPlan, EmptyPlanNeedsNoMemory) {
  EXPECT_EQ(plan_memory({}).byte_count, 0U);
  const std::vector<Lifetime> unused(3);
  const MemoryPlan plan = plan_memory(unused);
  EXPECT_EQ(plan.byte_count, 0U);
  EXPECT_EQ(plan.offsets.size(), 3U);
}

TEST(MemoryPlan, SmallestSufficientGapIsUsed) {
  // When the last block is live, there are gaps of 1024 and 832 bytes around the two that are always live.
  const std::vector<Lifetime> lives = {{1024, 0, 0}, {960, 0, 9}, {832, 0, 0}, {704, 0, 9}, {640, 5, 9}};
  const MemoryPlan plan = plan_memory(lives);
  EXPECT_EQ(plan.offsets[4], plan.offsets[2]);
  EXPECT_EQ(plan.byte_count, 1024U + 960U + 832U + 704U);
}

// The smallest arena is not found by placing these blocks in an order of time.
TEST(MemoryPlan, LargestBlockFirstNeedsNoMoreThanTheBytesInUse) {
  const std::vector<std::vector<Lifetime>> cases = {
      {{512, 1, 4}, {128, 4, 5}, {256, 5, 5}, {64, 0, 2}},
      {{64, 5, 7}, {512, 3, 6}, {384, 0, 3}, {256, 1, 2}, {256, 2, 5}},
      {{64, 2, 3}, {384, 5, 8}, {448, 4, 4}, {448, 1, 2}, {384, 5, 5}, {64, 4, 6}}};
  const std::vector<std::uint64_t> bytes = {640, 1152, 832};
  for (std::size_t i = 0; i < cases.size(); ++i) {
    EXPECT_EQ(plan_memory(cases[i]).byte_count, bytes[i]) << "case " << i;
  }
}

TEST(MemoryPlan, BlocksThatAreLiveTogetherDoNotOverlap) {
  for (std::uint32_t seed = 1; seed <= 200; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    std::mt19937 random(seed);
    std::vector<Lifetime> lives(1 + random() % 60);
    std::uint64_t sum = 0;
    for (Lifetime& life : lives) {
      life.byte_count = random() % 5 == 0 ? 0 : 1 + random() % 5000;
      life.first = random() % 40;
      life.last = life.first + random() % 10;
      sum += (life.byte_count + 63) / 64 * 64;
    }
    const MemoryPlan plan = plan_memory(lives);

    ASSERT_EQ(plan.offsets.size(), lives.size());
    EXPECT_LE(plan.byte_count, sum);
    EXPECT_EQ(plan_memory(lives).offsets, plan.offsets);
    for (std::size_t i = 0; i < lives.size(); ++i) {
      EXPECT_EQ(plan.offsets[i] % 64, 0U);
      EXPECT_LE(plan.offsets[i] + lives[i].byte_count, plan.byte_count);
      for (std::size_t j = 0; j < i; ++j) {
        const bool disjoint = plan.offsets[i] + lives[i].byte_count <= plan.offsets[j] ||
                              plan.offsets[j] + lives[j].byte_count <= plan.offsets[i];
        const bool empty = lives[i].byte_count == 0 || lives[j].byte_count == 0;
        EXPECT_TRUE(disjoint || empty || !live_together(lives[i], lives[j]))
            << "blocks " << j << " and " << i;
      }
    }
  }
}

// The bytes in use at the busiest time.
std::uint64_t bytes_in_use(const std::vector<Lifetime>& lives, std::uint64_t end) {
  std::vector<std::int64_t> change(end + 1);
  for (const Lifetime& life : lives) {
    change[life.first] += static_cast<std::int64_t>(life.byte_count);
    change[life.last + 1] -= static_cast<std::int64_t>(life.byte_count);
  }
  std::int64_t now = 0;
  std::int64_t most = 0;
  for (const std::int64_t one : change) {
    now += one;
    most = std::max(most, now);
  }
  return static_cast<std::uint64_t>(most);
}

// The lifetimes of a training step: a third of the blocks of the forward pass are short-lived; the others
// live until the corresponding statement of the backward pass.
std::vector<Lifetime> training_lives(std::uint64_t statements) {
  std::mt19937 random(1);
  std::vector<Lifetime> lives;
  for (std::uint64_t i = 0; i < statements; ++i) {
    const bool is_short = i >= statements / 2 || random() % 3 == 0;
    const std::uint64_t last = is_short ? i + 1 + random() % 3 : statements - i;
    lives.push_back({std::uint64_t{64} << (random() % 12), i, last});
  }
  return lives;
}

TEST(MemoryPlan, ArenaOfTrainingIsLittleLargerThanTheBytesInUse) {
  for (const std::uint64_t statements : {100U, 900U, 2000U, 20000U}) {
    const std::vector<Lifetime> lives = training_lives(statements);
    const auto used = static_cast<double>(bytes_in_use(lives, statements + 4));
    const auto planned = static_cast<double>(plan_memory(lives).byte_count);
    EXPECT_LE(planned, 1.01 * used) << statements << " statements";
  }
}

TEST(MemoryPlan, OversizedBlockIsRefused) {
  const std::vector<Lifetime> lives = {{~std::uint64_t{0}, 0, 1}};
  EXPECT_THROW(plan_memory(lives), std::length_error);
  const std::vector<Lifetime> halves(3, {std::uint64_t{1} << 62, 0, 1});
  EXPECT_THROW(plan_memory(halves), std::length_error);
}

TEST(Lifetimes, SpanTheFirstToTheLastStatementThatUsesTheTensor) {
  const Program program = parse_and_verify(
                              "yoke.program 1\n"
                              "program p() {\n"
                              "  arg x : f32[4] in\n"
                              "  arg y : f32[4] inout\n"
                              "  temp n : i32[4]\n"
                              "  temp t : f32[4]\n"
                              "  temp unused : f32[9]\n"
                              "  temp u : f16[4]\n"
                              "  t[i] = x[i] * 2.0\n"
                              "  n[i] = i32(x[i])\n"
                              "  u[i] = f16(t[i])\n"
                              "  y[n[i]] += f32(u[i])\n"
                              "}\n")
                              .programs.at(0);
  const std::vector<Lifetime> lives = lifetimes(program);
  ASSERT_EQ(lives.size(), 6U);
  const auto expect_life = [&](std::size_t tensor, std::uint64_t bytes, std::uint64_t first,
                               std::uint64_t last) {
    EXPECT_EQ(lives[tensor].byte_count, bytes) << program.tensors[tensor].name;
    EXPECT_EQ(lives[tensor].first, first) << program.tensors[tensor].name;
    EXPECT_EQ(lives[tensor].last, last) << program.tensors[tensor].name;
  };
  expect_life(0, 0, 0, 0);
  expect_life(1, 0, 0, 0);
  expect_life(2, 16, 1, 3);
  expect_life(3, 16, 0, 2);
  expect_life(4, 0, 0, 0);
  expect_life(5, 8, 2, 3);
}

}  // namespace
}  // namespace yoke::program
