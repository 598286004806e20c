// SPDX-License-Identifier: Apache-2.0
// tests/unit/parallel/cost_model_test.cpp: which strategy auto chooses, and which measurements it makes.
#include <yoke/runtime/cost_model.h>

#include <cmath>

#include "training.h"

namespace yoke::test {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::Not;

// A rig with devices of a kind, and members on them: one per entry, which is the device's number.
struct Members {
  Members(std::int32_t kind, bool has_peers, const std::vector<std::uint32_t>& ordinals,
          const std::function<void(Control&)>& prepare = {}, LogLevel level = LogLevel::kDebug) {
    const auto control = Rig::make_control(Streams::kNative);
    control->device_info.kind = kind;
    control->has_peers = has_peers;
    control->device_count = 4;
    if (prepare) {
      prepare(*control);
    }
    RuntimeOptions options;
    options.log_level = level;
    options.log_sink = lines.sink();
    rig.emplace(control, options);
    for (std::uint32_t ordinal = 0; ordinal < 4; ++ordinal) {
      devices.push_back(ordinal == 0 ? rig->device : rig->backend->open_device(ordinal));
    }
    for (const std::uint32_t ordinal : ordinals) {
      contexts.emplace_back(Stream::create(devices[ordinal]));
    }
  }
  LogLines lines;
  std::optional<Rig> rig;
  std::vector<std::shared_ptr<Device>> devices;
  std::vector<Context> contexts;
};

constexpr std::uint64_t kSizes[] = {1000, 1'000'000, 1'000'000'000};

TEST(MergeChoice, OneMemoryIsMergedDirectly) {
  for (const std::int32_t kind : {YOKE_DEVICE_CPU, YOKE_DEVICE_GPU}) {
    for (const std::size_t size : {2U, 3U, 8U, 16U, 17U, 64U, 256U}) {
      const Members group(kind, true, std::vector<std::uint32_t>(size, 0));
      const GroupCosts costs = costs_of(group.contexts);
      EXPECT_TRUE(costs.has_one_memory);
      for (const std::uint64_t byte_count : kSizes) {
        const MergeChoice choice = choose_merge(costs, {.byte_count = byte_count});
        EXPECT_EQ(choice.strategy, MergeStrategy::kDirect) << size << " members: " << choice.reason;
        EXPECT_EQ(choice.placement, Placement::kSharded) << choice.reason;
      }
    }
  }
}

TEST(MergeChoice, CpusAreNotMeasuredSoThatBitsRepeat) {
  for (const bool has_peers : {true, false}) {
    const Members group(YOKE_DEVICE_CPU, has_peers, {0, 1, 2});
    const GroupCosts costs = costs_of(group.contexts);
    EXPECT_EQ(group.rig->control->call_count.load(), 0U) << "nothing may be copied or launched";
    EXPECT_EQ(costs.source, "fixed for CPUs");
    EXPECT_EQ(costs.has_one_memory, has_peers);
    EXPECT_NE(choose_merge(costs, {.byte_count = 4000}).strategy == MergeStrategy::kDirect, !has_peers);
  }
}

bool is_power_of_two(double value) {
  return std::log2(value) == std::round(std::log2(value));
}

TEST(MergeChoice, LinksAreMeasuredOncePerPairOfDevices) {
  const Members group(YOKE_DEVICE_GPU, true, {0, 1, 0, 1});
  const std::uint64_t before = group.rig->device->memory().used_bytes;
  const GroupCosts costs = costs_of(group.contexts);
  const std::uint64_t calls = group.rig->control->call_count.load();
  EXPECT_GT(calls, 0U);
  EXPECT_EQ(costs.source, "measured");
  EXPECT_TRUE(is_power_of_two(costs.launch)) << costs.launch;
  EXPECT_TRUE(is_power_of_two(costs.near.latency)) << costs.near.latency;
  EXPECT_TRUE(is_power_of_two(costs.near.bandwidth)) << costs.near.bandwidth;
  EXPECT_THAT(group.lines.all(), Contains(HasSubstr("merge.measure from=test0:0 to=test0:1")));
  EXPECT_EQ(group.rig->device->memory().used_bytes, before) << "the memory of a measurement is released";
  const GroupCosts again = costs_of(group.contexts);
  EXPECT_EQ(group.rig->control->call_count.load(), calls);
  EXPECT_EQ(again.near.bandwidth, costs.near.bandwidth);
}

TEST(MergeChoice, MeasurementSeesSlowCopies) {
  constexpr std::uint32_t kDelayUs = 2000;
  const Members slow(YOKE_DEVICE_GPU, false, {0, 1}, [](Control& control) { control.delay_us = kDelayUs; });
  const GroupCosts costs = costs_of(slow.contexts);
  EXPECT_GE(costs.launch, kDelayUs * 1e-6 / 2) << "rounding halves at most";
  EXPECT_FALSE(costs.is_one_node());
}

TEST(MergeChoice, FailedMeasurementIsLoggedAndFixedFiguresAreUsed) {
  Members group(YOKE_DEVICE_GPU, true, {0, 1}, [](Control& control) {
    control.fail_after = 0;
    control.fail_code = YOKE_STATUS_UNAVAILABLE;
  });
  EXPECT_EQ(costs_of(group.contexts).source, "fixed, because measuring failed");
  EXPECT_THAT(group.lines.all(), Contains(HasSubstr("merge.measure from=test0:0 to=test0:1 note=\"fixed")));
}

TEST(MergeChoice, IsLoggedWithItsReason) {
  const Members group(YOKE_DEVICE_CPU, true, {0, 0, 0}, {}, LogLevel::kInfo);
  const StepPlan plan(group.contexts, 3, {{"w", {YOKE_TYPE_F32, {1000}}}}, {}, {}, nullptr);
  EXPECT_THAT(plan.merge_reason(), HasSubstr("3 members, 0.004 MB"));
  EXPECT_THAT(group.lines.all(),
              Contains(HasSubstr("merge.choice strategy=direct placement=sharded reason=\"direct")));
  const StepPlan given(group.contexts, 3, {{"w", {YOKE_TYPE_F32, {1000}}}}, {},
                       {.merge = MergeStrategy::kTree}, nullptr);
  EXPECT_EQ(given.merge_reason(), "given");
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
  EXPECT_NE(strategy(native, {.byte_count = 100'000'000, .wire = Wire::kBf16}), MergeStrategy::kNative);
  EXPECT_NE(strategy(nodes(8, 8), {.byte_count = 1'000'000, .wire = Wire::kBf16}), MergeStrategy::kDirect);
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

}  // namespace
}  // namespace yoke::test
