// SPDX-License-Identifier: Apache-2.0
// tests/unit/parallel/order_test.cpp: the order that a step forces on the work of all shards. Work that it does
// not order may run in any order, so these tests speak for every timing.
#include <functional>

#include "recorded.h"

namespace yoke::test {
namespace {

std::string name_of(std::uint32_t shards, const StepOptions& options) {
  return std::to_string(shards) + " shards, " + merge_strategy_name(options.merge) + ", " +
         placement_name(options.placement);
}

class OrderOfAStep : public AnyStep {
 protected:
  const StepOptions options = AnyStep::options(512);
};
INSTANTIATE_TEST_SUITE_P(All, OrderOfAStep, AnyStep::all(), AnyStep::name);

TEST_P(OrderOfAStep, NoTwoCallsRaceForMemory) {
  for (const std::uint32_t shards : {2U, 3U, 4U, 8U}) {
    Recorded run(shards, options);
    run.queue_steps();
    const auto conflict = run.graph.conflict();
    EXPECT_FALSE(conflict) << name_of(shards, options) << ": " << run.graph.text(conflict->first) << " and "
                           << run.graph.text(conflict->second);
    EXPECT_EQ(run.finish(), std::vector<float>(kWeights * shards, expected(shards, kSteps)));
  }
}

TEST_P(OrderOfAStep, EveryWaitPreventsARace) {
  for (const std::uint32_t shards : {2U, 3U}) {
    Recorded run(shards, options);
    run.queue_steps();
    const std::vector<CallGraph::Wait> waits = run.graph.needed_waits();
    EXPECT_GE(waits.size(), shards);
    for (const CallGraph::Wait& wait : waits) {
      EXPECT_TRUE(run.graph.conflict(wait.call))
          << name_of(shards, options) << ": " << run.graph.text(wait.call);
    }
    run.finish();
  }
}

// A needless wait would keep work from running at the same time.
TEST_P(OrderOfAStep, NoCallWaitsForWorkThatItSharesNoMemoryWith) {
  for (const std::uint32_t shards : {2U, 3U, 4U}) {
    Recorded run(shards, options);
    run.queue_steps();
    for (const CallGraph::Wait& wait : run.graph.needed_waits()) {
      EXPECT_TRUE(run.graph.share_memory(wait.awaited, wait.user))
          << name_of(shards, options) << ": " << run.graph.text(wait.user) << " waits for "
          << run.graph.text(wait.awaited);
    }
    run.finish();
  }
}

#if !defined(__SANITIZE_THREAD__)  // it would rightly report the races
TEST_P(OrderOfAStep, EveryMissingWaitChangesTheWeights) {
  constexpr std::uint32_t kShards = 3;
  std::vector<CallGraph::Pair> waits;  // user and awaited call
  {
    Recorded run(kShards, options);
    run.queue_steps();
    for (const CallGraph::Wait& wait : run.graph.needed_waits()) {
      waits.emplace_back(run.graph.number_without_waits(wait.user),
                         run.graph.number_without_waits(wait.awaited));
    }
    run.finish();
  }
  const std::vector<float> right(kWeights * kShards, expected(kShards, kSteps));
  std::size_t tried = 0;
  std::size_t found = 0;
  for (const auto& [user, awaited] : waits) {
    Recorded run(kShards, options);
    run.queue_steps([&, user = user, awaited = awaited] { run.graph.break_wait(user, awaited); });
    // A later event than in the first run may order the two calls in another way.
    const std::optional<std::size_t> missing = run.graph.missing_wait();
    tried += missing && run.graph.conflict(missing) ? 1U : 0U;
    found += run.finish() != right ? 1U : 0U;
  }
  EXPECT_GT(tried, waits.size() * 3 / 4) << name_of(kShards, options);
  // A broadcast to all members also sends a part back to the member that has computed it.
  EXPECT_GE(found, tried - tried / 10) << name_of(kShards, options);
}
#endif

}  // namespace
}  // namespace yoke::test
