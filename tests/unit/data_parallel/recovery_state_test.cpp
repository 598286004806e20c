// SPDX-License-Identifier: Apache-2.0
// tests/unit/data_parallel/recovery_state_test.cpp: shards that are lost while a trainer's state is written.
#include "recovery.h"

namespace yoke::testing {
namespace {

class RecoveredState : public Recovery {};
INSTANTIATE_TEST_SUITE_P(Streams, RecoveredState, ::testing::Values(test::Streams::kWorker),
                         test::streams_name);

// A call is repeated after a loss, when the shards that are left may have exchanged some values.
TEST_P(RecoveredState, AveragesAreExchangedOnceIfACallFails) {
  options.optimizer = moving_average(Sgd{}, 0.5);
  options.placement = Placement::kEverywhere;
  std::vector<float> averages;
  std::vector<float> values;
  bool is_lost = true;
  for (std::int64_t good = -1; is_lost; good += good < 0 ? 1 : 2) {  // -1: no call
    SCOPED_TRACE("call " + std::to_string(good));
    train(2, nn::linear(1), [&](Trainer& trainer) {
      trainer.step();
      trainer.step();
      if (good < 0) {
        values = all_values(trainer);
      } else {
        arm(good);
      }
      trainer.swap_averages();
      control->fail_after = -1;
      is_lost = good < 0 || trainer.shards() == 1;
      if (good < 0) {
        averages = all_values(trainer);
        EXPECT_NE(averages, values);
      }
      EXPECT_EQ(all_values(trainer), averages);
      trainer.swap_averages();
      EXPECT_EQ(all_values(trainer), values);
      EXPECT_EQ(trainer.step_count(), 2);
    });
  }
}

}  // namespace
}  // namespace yoke::testing
