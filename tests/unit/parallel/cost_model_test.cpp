// SPDX-License-Identifier: Apache-2.0
// tests/unit/parallel/cost_model_test.cpp: estimated times, and which strategy auto chooses by them.
#include <yoke/runtime/cost_model.h>

#include <cmath>

#include "training.h"

namespace yoke::test {
namespace {

using ::testing::HasSubstr;

TEST(MergeChoice, ReasonHasTimesInTheLargestUnit) {
  const auto reason = [](double launch) {
    GroupCosts costs{.nodes = {0, 0}};
    costs.launch = launch;
    return choose_merge(costs, {.byte_count = 1000}).reason;
  };
  EXPECT_THAT(reason(999e-6), HasSubstr("launch 999 us,"));
  EXPECT_THAT(reason(1e-3), HasSubstr("launch 1 ms,"));
  EXPECT_THAT(reason(1), HasSubstr("launch 1 s,"));
}

GroupCosts nodes(std::uint32_t members, std::uint32_t node_size) {
  GroupCosts costs;
  for (std::uint32_t k = 0; k < members; ++k) {
    costs.nodes.push_back(k / node_size);
  }
  return costs;
}

TEST(MergeChoice, DependsOnSizeAndLinks) {
  const auto strategy = [](const GroupCosts& costs, const MergeWork& work) {
    return choose_merge(costs, work).strategy;
  };
  EXPECT_EQ(strategy(nodes(64, 1), {.byte_count = 1000}), MergeStrategy::kTree) << "latency decides";
  EXPECT_EQ(strategy(nodes(64, 1), {.byte_count = 1'000'000'000, .bucket_byte_count = 100'000'000}),
            MergeStrategy::kRing)
      << "bandwidth decides";
  EXPECT_EQ(strategy(nodes(2, 1), {.byte_count = 1000}), MergeStrategy::kOwner);
  GroupCosts native = nodes(8, 1);
  native.has_native = true;
  EXPECT_EQ(strategy(native, {.byte_count = 100'000'000}), MergeStrategy::kNative);
  EXPECT_NE(strategy(native, {.byte_count = 100'000'000, .wire = Wire::kBF16}), MergeStrategy::kNative);
  EXPECT_NE(strategy(nodes(8, 8), {.byte_count = 1'000'000, .wire = Wire::kBF16}), MergeStrategy::kDirect);
  GroupCosts one_host = nodes(256, 1);
  one_host.command = 1e-6;
  EXPECT_NE(strategy(one_host, {.byte_count = 10'000'000}), MergeStrategy::kRing)
      << "one host queues n x n commands";
}

TEST(MergeChoice, GivenPlacementIsKept) {
  for (const Placement placement : kPlacements) {
    for (const std::uint32_t size : {2U, 8U, 24U}) {
      const MergeChoice choice = choose_merge(nodes(size, 8), {.byte_count = 1'000'000}, placement);
      EXPECT_EQ(choice.placement, placement);
      EXPECT_GT(choice.seconds, 0);
      EXPECT_EQ(choice.seconds,
                merge_seconds(nodes(size, 8), {.byte_count = 1'000'000}, choice.strategy, placement));
    }
  }
}

// The time of a merge if one of its costs is 1 and the others are 0: a launch, a command, memory and links per
// byte of the gradients, a latency.
struct Parts {
  MergeStrategy strategy;
  Placement placement;
  double launches, commands, memory, links, latencies;
};

void expect_parts(const GroupCosts& group, const MergeWork& work, std::span<const Parts> all) {
  GroupCosts free = group;
  free.launch = free.near.latency = free.far.latency = 0;
  free.memory = free.near.bandwidth = free.far.bandwidth = 1e300;
  const auto link_of = [](GroupCosts& costs) -> LinkCost& {
    return costs.is_one_node() ? costs.near : costs.far;
  };
  for (const Parts& one : all) {
    const auto seconds = [&](const std::function<void(GroupCosts&)>& change) {
      GroupCosts costs = free;
      change(costs);
      return merge_seconds(costs, work, one.strategy, one.placement);
    };
    const auto bytes = static_cast<double>(work.byte_count);
    EXPECT_THAT((std::vector<double>{
                    seconds([](auto& costs) { costs.launch = 1; }),
                    seconds([](auto& costs) { costs.command = 1; }),
                    seconds([&](auto& costs) { costs.memory = bytes; }),
                    seconds([&](auto& costs) { link_of(costs).bandwidth = bytes; }),
                    seconds([&](auto& costs) { link_of(costs).latency = 1; }),
                }),
                ::testing::Pointwise(::testing::DoubleNear(1e-9),
                                     {one.launches, one.commands, one.memory, one.links, one.latencies}))
        << merge_strategy_name(one.strategy) << " " << placement_name(one.placement);
  }
}

// With 8 members, `owner` adds 7 times, updates, and then copies to all at the same time: 9 launches after each other.
TEST(MergeSeconds, AreThoseOfTheLongestPath) {
  constexpr Placement kOne = Placement::kOwner;
  constexpr Placement kAll = Placement::kEverywhere;
  constexpr Placement kShards = Placement::kSharded;
  const MergeWork work{.byte_count = 1 << 20, .state_count = 2};
  const Parts near[] = {
      {MergeStrategy::kOwner, kOne, 9, 15, 21, 14, 8},
      {MergeStrategy::kOwner, kAll, 9, 22, 21, 14, 8},
      {MergeStrategy::kOwner, kShards, 17, 36, 14 + 7.0 / 8, 15, 16},
      {MergeStrategy::kTree, kOne, 7, 15, 13, 6, 6},
      {MergeStrategy::kTree, kAll, 7, 22, 13, 6, 6},
      {MergeStrategy::kTree, kShards, 15, 36, 6 + 7.0 / 8, 7, 14},
      {MergeStrategy::kRing, kOne, 16, 72, 8.75, 8.75, 15},
      {MergeStrategy::kRing, kAll, 15, 120, 8.75, 1.75, 14},
      {MergeStrategy::kRing, kShards, 15, 120, 1.75 + 7.0 / 8, 1.75, 14},
      {MergeStrategy::kNative, kOne, 4, 24, 7, 2.75, 9},
      {MergeStrategy::kNative, kAll, 3, 24, 7, 1.75, 6},
      {MergeStrategy::kNative, kShards, 3, 24, 7.0 / 8, 1.75, 6},
      {MergeStrategy::kDirect, kOne, 3, 16, 7, 8 + 1.0 / 8, 2},
      {MergeStrategy::kDirect, kAll, 3, 16, 7, 8 + 1.0 / 8, 2},
      {MergeStrategy::kDirect, kShards, 2, 8, 0, 9 + 5.0 / 8, 2},
  };
  expect_parts(nodes(8, 8), work, near);
  const Parts far[] = {
      {MergeStrategy::kOwner, kOne, 16, 22, 28, 14, 8},
      {MergeStrategy::kTree, kOne, 10, 22, 16, 6, 6},
      {MergeStrategy::kRing, kOne, 23, 128, 9 + 5.0 / 8, 8.75, 15},
      {MergeStrategy::kRing, kShards, 22, 176, 3.5, 1.75, 14},
  };
  expect_parts(nodes(8, 1), work, far);
  // Rounding is a launch that reads and writes memory. Links carry half of the gradients.
  const Parts rounded[] = {
      {MergeStrategy::kOwner, kOne, 10, 22, 24.5, 10.5, 8},
      {MergeStrategy::kTree, kOne, 10, 22, 23.5, 4.5, 6},
      {MergeStrategy::kRing, kOne, 23, 128, 11.8125, 8.3125, 15},
      {MergeStrategy::kRing, kShards, 22, 176, 5.6875, 1.3125, 14},
  };
  expect_parts(nodes(8, 8), {.byte_count = 1 << 20, .state_count = 2, .wire = Wire::kBF16}, rounded);
  const Parts in_one_piece[] = {
      {MergeStrategy::kRing, kOne, 9, 23, 21, 14, 8},
      {MergeStrategy::kRing, kAll, 15, 22, 21, 14, 14},
      {MergeStrategy::kRing, kShards, 24, 36, 14 + 7.0 / 8, 16, 23},
      {MergeStrategy::kDirect, kOne, 3, 9, 7, 16, 2},
      {MergeStrategy::kDirect, kShards, 2, 1, 0, 21, 2},
  };
  expect_parts(nodes(8, 8), {.byte_count = 3072, .state_count = 2}, in_one_piece);
  // A share of each 16 KiB, and a piece of each 64 KiB, of elements of 4 bytes.
  const auto commands = [](std::uint64_t byte_count, MergeStrategy strategy) {
    GroupCosts costs = nodes(8, 8);
    costs.launch = costs.near.latency = 0;
    costs.memory = costs.near.bandwidth = 1e300;
    costs.command = 1;
    return merge_seconds(costs, {.byte_count = byte_count}, strategy, kShards);
  };
  EXPECT_EQ(commands(7 << 14, MergeStrategy::kDirect), 7);
  EXPECT_EQ(commands((7 << 14) - 4, MergeStrategy::kDirect), 6);
  EXPECT_EQ(commands(7 << 16, MergeStrategy::kRing), 7 * 7 * 2 + 8 + 2 * (8 - 7));
  EXPECT_EQ(commands((7 << 16) - 4, MergeStrategy::kRing), 6 * 7 * 2 + 8 + 2 * (8 - 6));
  GroupCosts one_memory = nodes(8, 8);
  one_memory.has_one_memory = true;
  const Parts shared[] = {
      {MergeStrategy::kDirect, kOne, 3, 16, 15 + 1.0 / 8, 0, 0},
      {MergeStrategy::kDirect, kShards, 1, 8, 1.75, 0, 0},
  };
  expect_parts(one_memory, work, shared);
}

TEST(MergeSeconds, GrowWithBytesAndLatency) {
  for (const MergeStrategy strategy : kStrategies) {
    for (const Placement placement : kPlacements) {
      const GroupCosts costs = nodes(8, 8);
      GroupCosts slow = costs;
      slow.near.latency *= 10;
      const MergeWork work{.byte_count = 1'000'000};
      const double seconds = merge_seconds(costs, work, strategy, placement);
      EXPECT_GT(merge_seconds(costs, {.byte_count = 50'000'000}, strategy, placement), 2 * seconds);
      EXPECT_GT(merge_seconds(slow, work, strategy, placement), seconds);
    }
  }
}

TEST(StepSeconds, AreThoseOfTheCores) {
  constexpr double kPlain = 1e-12;
  const ComputeWork empty;
  EXPECT_NEAR(step_seconds({1, 1}, empty), 0, kPlain);
  EXPECT_NEAR(step_seconds({2, 1}, empty), 8e-6 + 2 * 3e-6, kPlain) << "shards wait for each other";
  // 4 MB are read three times, and the update reads and writes them.
  const ComputeWork large{.parameter_count = 1'000'000};
  EXPECT_NEAR(step_seconds({1, 1}, large), 5 * 0.5e-3, kPlain);
  EXPECT_NEAR(step_seconds({2, 1}, large), (3 + 1 + 4.0 / 2) * 0.5e-3 + 14e-6, kPlain);
  EXPECT_NEAR(step_seconds({1, 1}, {.parameter_count = 250'000}), 3e6 / 3e10 + 2e6 / 8e9, kPlain)
      << "in a cache";
  const ComputeWork computing{.rows = 15, .operations_per_row = 6e10, .layer_count = 2};
  EXPECT_NEAR(step_seconds({1, 1}, computing), 15, kPlain);
  EXPECT_NEAR(step_seconds({7, 1}, computing), 3 + 8e-6 + 7 * 3e-6, kPlain) << "a shard has 3 rows";
  EXPECT_NEAR(step_seconds({1, 4}, computing), 15.0 / 4 * 1.06 + 2 * 5 * 4e-6, kPlain);
  EXPECT_NEAR(step_seconds({1, 4}, empty), 0, kPlain) << "small work runs on one thread";
}

}  // namespace
}  // namespace yoke::test
