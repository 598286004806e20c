// SPDX-License-Identifier: Apache-2.0
// tests/unit/parallel/renew_test.cpp: training continues on streams that failed and were renewed.
#include "training.h"

namespace yoke::test {
namespace {

class RenewedStreams : public ::testing::TestWithParam<Streams> {};
INSTANTIATE_TEST_SUITE_P(Streams, RenewedStreams, ::testing::Values(Streams::kWorker, Streams::kNative),
                         streams_name);

// A step fails on some shard and, with it, on those that wait for it. The plan and the gradient programs stay linked
// with the renewed streams.
TEST_P(RenewedStreams, ContinueTraining) {
  for (const MergeStrategy strategy : kStrategies) {
    for (const Placement placement : kPlacements) {
      SCOPED_TRACE(std::string(merge_strategy_name(strategy)) + ", " + placement_name(placement));
      const Rig rig(GetParam());
      Training training(rig, 3, 300, {.merge = strategy, .placement = placement, .bucket_byte_count = 512});
      std::vector<std::shared_ptr<Stream>> streams(training.plan().streams().begin(),
                                                   training.plan().streams().end());
      for (const Context& context : training.contexts()) {
        streams.push_back(context.stream());
      }
      const auto wait = [&] {
        for (const auto& stream : streams) {
          stream->wait();
        }
      };
      training.compute();
      training.plan().step(training.tables());
      wait();
      EXPECT_ERROR(ErrorCode::kInternal, {
        rig.control->fail_after = 4;  // the second call after the gradients
        training.compute();
        training.plan().step(training.tables());
        wait();
      });

      for (const auto& stream : streams) {
        stream->renew();
      }
      for (const Context& context : training.contexts()) {
        for (const std::string& name : context.names()) {
          if (name != "x" && name != "y") {
            fill(*context.stream(), context.tensor(name).view, 0.0F);
          }
        }
      }
      for (int step = 1; step <= 2; ++step) {
        training.compute();
        training.plan().step(training.tables());
      }
      for (std::uint32_t k = 0; k < 3; ++k) {
        EXPECT_EQ(training.weights(k), std::vector<float>(300, expected(3, 2))) << "shard " << k;
      }
    }
  }
}

}  // namespace
}  // namespace yoke::test
