// SPDX-License-Identifier: Apache-2.0
// tests/unit/parallel/link_figures_test.cpp: the costs of a group of shards: which are fixed, and which are measured.
#include <yoke/runtime/cost_model.h>

#include <algorithm>
#include <cmath>

#include "training.h"

namespace yoke::test {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;

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
  EXPECT_LT(costs.launch, 0.5) << "16 launches take less than the deadline of a wait, a second";
  EXPECT_TRUE(is_power_of_two(costs.near.latency)) << costs.near.latency;
  EXPECT_TRUE(is_power_of_two(costs.near.bandwidth)) << costs.near.bandwidth;
  EXPECT_THAT(group.lines.all(), Contains(HasSubstr("merge.measure from=test0:0 to=test0:1")));
  EXPECT_EQ(group.rig->device->memory().used_bytes, before) << "the memory of a measurement is released";
  const GroupCosts again = costs_of(group.contexts);
  EXPECT_EQ(group.rig->control->call_count.load(), calls);
  EXPECT_EQ(again.near.bandwidth, costs.near.bandwidth);
}

// A slow measurement ends a round of them, and the next round continues with the figures that are known.
TEST(MergeChoice, FirstDeviceIsMeasuredWithSevenOthersAtMost) {
  Members group(YOKE_DEVICE_GPU, true, {0, 1, 2, 3}, [](Control& control) { control.device_count = 9; });
  for (std::uint32_t ordinal = 4; ordinal < 9; ++ordinal) {
    group.contexts.emplace_back(Stream::create(group.rig->backend->open_device(ordinal)));
  }
  const auto is_measured = [&](std::uint32_t ordinal) {
    const std::string pair = "merge.measure from=test0:0 to=test0:" + std::to_string(ordinal) + " ";
    const std::vector<std::string> lines = group.lines.all();
    return std::any_of(lines.begin(), lines.end(),
                       [&](const std::string& line) { return line.find(pair) != line.npos; });
  };
  for (int round = 0; round < 200 && !is_measured(7); ++round) {
    (void)costs_of(group.contexts);
  }
  (void)costs_of(group.contexts);
  for (std::uint32_t ordinal = 1; ordinal < 8; ++ordinal) {
    EXPECT_TRUE(is_measured(ordinal)) << ordinal;
  }
  EXPECT_FALSE(is_measured(8));
}

// Devices 0 and 1 reach each other, and so do 2 and 3. Each measurement takes longer than a round of them should.
TEST(MergeChoice, PairOfDifferentNodesAndThenTheFirstPairAreMeasuredAtLeast) {
  const Members group(YOKE_DEVICE_GPU, true, {0, 1, 2, 3}, [](Control& control) {
    control.delay_us = 300;
    control.peer.peer_access = [](yoke_device* a, yoke_device* b, std::int32_t* out_allowed,
                                  yoke_error*) -> std::int32_t {
      *out_allowed = a->ordinal / 2 == b->ordinal / 2 ? 1 : 0;
      return YOKE_STATUS_OK;
    };
  });
  const GroupCosts costs = costs_of(group.contexts);
  EXPECT_EQ(costs.nodes, (std::vector<std::uint32_t>{0, 0, 1, 1}));
  std::vector<std::string> pairs;
  for (const std::string& line : group.lines.all()) {
    if (line.find("merge.measure ") != line.npos) {
      pairs.push_back(line.substr(line.find("from="), std::string("from=test0:0 to=test0:0").size()));
    }
  }
  EXPECT_EQ(pairs, (std::vector<std::string>{"from=test0:0 to=test0:2", "from=test0:0 to=test0:1"}));
  for (const LinkCost& link : {costs.near, costs.far}) {
    EXPECT_TRUE(is_power_of_two(link.latency)) << link.latency;
    EXPECT_TRUE(is_power_of_two(link.bandwidth)) << link.bandwidth;
  }
  EXPECT_FALSE(costs.has_one_memory);
}

// Copies that take no time. The shortest time that counts is 0.1 us, about 2^-23 s, so that no figure is infinite.
TEST(MergeChoice, FiguresOfAFreeLinkAreFinite) {
  for (const bool has_peers : {true, false}) {
    const Members all(YOKE_DEVICE_GPU, has_peers, {0, 1, 2, 3}, [](Control& control) {
      control.backend.device_to_device = [](auto...) -> std::int32_t { return YOKE_STATUS_OK; };
    });
    for (std::size_t from = 0; from < 4; ++from) {
      for (std::size_t to = 0; to < 4; ++to) {
        if (from != to) {
          const std::vector<Context> pair = {all.contexts[from], all.contexts[to]};
          const GroupCosts costs = costs_of(pair);
          for (const LinkCost& link : {costs.near, has_peers ? costs.near : costs.far}) {
            EXPECT_GE(link.latency, std::exp2(-23));
            EXPECT_TRUE(is_power_of_two(link.latency)) << link.latency;
            EXPECT_LE(link.bandwidth, std::exp2(45));
          }
          EXPECT_LE(costs.memory, std::exp2(46));
          EXPECT_GE(costs.launch, std::exp2(-23));
        }
      }
    }
  }
}

TEST(MergeChoice, OneDeviceIsNotMeasured) {
  for (const bool has_peers : {true, false}) {
    const Members group(YOKE_DEVICE_GPU, has_peers, {1, 1, 1, 1});
    const GroupCosts costs = costs_of(group.contexts);
    EXPECT_EQ(costs.source, "fixed for one device");
    EXPECT_TRUE(costs.has_one_memory);
    EXPECT_FALSE(costs.has_native);
    EXPECT_EQ(costs.launch, 4e-6);
    EXPECT_EQ(costs.memory, 1e12 / 4);
    EXPECT_EQ(costs.near.latency, 0);
    EXPECT_EQ(costs.near.bandwidth, 1e12 / 4);
    EXPECT_EQ(costs.command, 7e-7);
  }
  const Members cpus(YOKE_DEVICE_CPU, false, {0, 1, 1});
  const GroupCosts costs = costs_of(cpus.contexts);
  EXPECT_EQ(costs.nodes, (std::vector<std::uint32_t>{0, 1, 1}));
  EXPECT_EQ(costs.launch, 5e-6);
  EXPECT_EQ(costs.memory, 2e10 / 3);
  EXPECT_EQ(costs.near.latency, 1e-6);
  EXPECT_EQ(costs.near.bandwidth, 2e10 / 3);
  EXPECT_EQ(costs.far.latency, 2e-5);
  EXPECT_EQ(costs.far.bandwidth, 5e9);
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

}  // namespace
}  // namespace yoke::test
