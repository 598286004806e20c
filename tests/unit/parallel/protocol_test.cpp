// SPDX-License-Identifier: Apache-2.0
// tests/unit/parallel/protocol_test.cpp: the protocol of a step, checked for all orders in which the calls that two
// steps queue can run, with failures at any call: no deadlock, no bad update, and the same updates for every member.
#include "protocol.h"

#include "recorded.h"

namespace yoke::test {
namespace {

class ProtocolOfAStep : public AnyStep {};
INSTANTIATE_TEST_SUITE_P(All, ProtocolOfAStep, AnyStep::all(), AnyStep::name);

Protocol protocol_of(const Recorded& run) {
  std::vector<Protocol::Replica> parameters;
  std::vector<Protocol::Replica> momenta;
  for (const Context& context : run.training().contexts()) {
    const auto replica = [&](const char* name, std::uint32_t number) {
      const BufferView& view = context.tensor(name).view;
      return Protocol::Replica{{view.buffer->get(), view.offset, view.offset + view.byte_count}, number};
    };
    parameters.push_back(replica("parameters/f32", 0));
    if (context.has("momentum/f32")) {
      momenta.push_back(replica("momentum/f32", 1));
    }
  }
  return {run.graph, run.ends(), parameters, momenta};
}

void expect_right(std::uint32_t shards, const StepOptions& options, std::uint32_t failures) {
  Recorded run(shards, options);
  run.queue_steps();
  const Protocol protocol = protocol_of(run);
  EXPECT_EQ(protocol.problem_in_order(), "");
  const Protocol::Result result = protocol.search(failures);
  EXPECT_EQ(result.problem, "") << shards << " shards";
  EXPECT_GT(result.states, run.graph.calls().size());
  EXPECT_GT(result.ends_of_failed_runs, shards);
  ::testing::Test::RecordProperty("states_" + std::to_string(shards), static_cast<int>(result.states));
  run.finish();
}

TEST_P(ProtocolOfAStep, OfTwoMembersHoldsInAllOrdersWithAnyThreeFailures) {
  expect_right(2, options(512), 3);
}

TEST_P(ProtocolOfAStep, OfThreeMembersHoldsInAllOrdersWithAnyTwoFailures) {
  expect_right(3, options(512), 2);
}

// Shows that the search finds mistakes.
TEST_P(ProtocolOfAStep, IsBrokenByEachMissingWait) {
  for (const std::uint32_t shards : {2U, 3U}) {
    Recorded run(shards, options(4096));
    run.queue_steps();
    const Protocol protocol = protocol_of(run);
    std::size_t found = 0;
    const std::vector<CallGraph::Wait> waits = run.graph.needed_waits();
    for (const CallGraph::Wait& wait : waits) {
      const bool is_found = !protocol.search(0, wait).problem.empty();
      found += is_found ? 1 : 0;
      EXPECT_TRUE(is_found) << shards << " shards: " << run.graph.text(wait.user) << " need not wait for "
                            << run.graph.text(wait.awaited);
    }
    EXPECT_GE(found, shards);
    run.finish();
  }
}

}  // namespace
}  // namespace yoke::test
