// SPDX-License-Identifier: Apache-2.0
// tests/unit/data_parallel/trainer_state_test.cpp: the parts of a trainer's state with which a run goes on, and states
// that do not fit.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <cstring>
#include <vector>

#include "common.h"
#include "error_of.h"

namespace yoke::testing {
namespace {

using test::error_of;
using test::is_error;

constexpr ErrorCode kInvalid = ErrorCode::kInvalidArgument;
constexpr ErrorCode kTooEarlyOrLate = ErrorCode::kFailedPrecondition;

// Trains one weight on six rows.
class TrainerStates : public ::testing::Test {
 protected:
  template <class Body>
  auto train(const Body& body) {
    const Tensor x = tensor(some_numbers(6, 1), {6});
    const LossOf loss_of = [&](const Tensor& a, const Tensor& b) {
      return mean(a * b * w_.tensor()) * 0.0F + value_;
    };
    return is_fed_ ? data_parallel(options_, shuffled(x, x, 2, 3), loss_of, body)
                   : data_parallel(options_, x, x, loss_of, body);
  }

  TrainerState state_after(int steps) {
    return train([&](Trainer& trainer) {
      for (int i = 0; i < steps; ++i) {
        trainer.step();
      }
      return trainer.state();
    });
  }

  // The error for a state that `change` has changed.
  template <class Change>
  Error refusal_of(TrainerState state, const Change& change) {
    change(state);
    return error_of([&] { train([&](Trainer& trainer) { trainer.set_state(state); }); });
  }

  DataParallelOptions options_ = options_for(2, 0.5F);
  Tensor value_ = 0.0F;
  bool is_fed_ = false;
  const Parameter w_ = Parameter("w", {}, Initializer::constant(1));
};

TEST_F(TrainerStates, BindingsGoOnFromValuesInTheirRanges) {
  const Symbol outer{"outer", 0, 2, 1};
  const Symbol inner{"inner", 10, 40, 10};
  options_.bindings = {outer, inner};
  value_ = cast(symbol_value(outer) * 100 + symbol_value(inner), Type::kF32);
  const TrainerState state = state_after(2);
  train([&](Trainer& trainer) {
    trainer.set_state(state);
    for (const double expected : {30, 110, 120, 130, 10}) {
      trainer.step();
      EXPECT_EQ(trainer.loss_value(), expected);
    }
  });
  const std::pair<std::vector<std::int64_t>, const char*> cases[] = {
      {{-1, 10}, "'outer' is -1"}, {{2, 10}, "'outer' is 2"},
      {{0, 0}, "'inner' is 0"},    {{0, 40}, "'inner' is 40"},
      {{0, 15}, "'inner' is 15"},  {{0, INT64_MAX}, "'inner' is 9223372036854775807"}};
  for (const auto& [bindings, why] : cases) {
    EXPECT_THAT(refusal_of(state, [&, values = bindings](TrainerState& s) { s.bindings = values; }),
                is_error(kInvalid, std::string("match this run: the binding ") + why +
                                       ", which is not one of its values; nothing"));
  }
}

TEST_F(TrainerStates, RatesThatAreNumbersAreKeptAndExpressionsStayThoseOfTheRun) {
  const TrainerState of_number = state_after(1);
  EXPECT_EQ(of_number.learning_rate, 0.5);
  options_.learning_rate = cast(symbol_value(step_symbol()), Type::kF32) * 0.25F;
  const TrainerState of_expression = state_after(1);
  EXPECT_EQ(of_expression.learning_rate, std::nullopt);
  const auto rate_with = [&](const TrainerState& state) {
    return train([&](Trainer& trainer) {
      trainer.set_state(state);
      trainer.step();
      return trainer.learning_rate_value();
    });
  };
  EXPECT_EQ(rate_with(of_number), 0.25);
  options_.learning_rate = 0.75F;
  EXPECT_EQ(rate_with(of_number), 0.5);
  EXPECT_EQ(rate_with(of_expression), 0.75);
}

TEST_F(TrainerStates, BatchOfAFeedFollowsTheStep) {
  is_fed_ = true;
  options_.batch_size = 2;
  const TrainerState state = state_after(4);
  EXPECT_EQ(state.batch, 1U);
  for (const std::uint64_t batch : {0U, 2U, 4U}) {
    EXPECT_THAT(refusal_of(state, [&](TrainerState& s) { s.batch = batch; }),
                is_error(kInvalid, "the batch is " + std::to_string(batch) +
                                       ", which does not follow step 4 in epochs of 3; nothing"));
  }
  train([&](Trainer& trainer) { EXPECT_NO_THROW(trainer.set_state(state)); });
}

TEST_F(TrainerStates, LossScaleOfARunThatScalesNothingIsIgnored) {
  TrainerState state = state_after(1);
  state.loss_scale = {0, -1, 7};
  train([&](Trainer& trainer) {
    trainer.set_state(state);
    EXPECT_EQ(trainer.loss_scale().scale, 1);
    EXPECT_EQ(trainer.state().loss_scale.skipped_steps, 0);
  });
}

TEST_F(TrainerStates, EachDifferenceIsListedOnce) {
  const TrainerState state = state_after(1);
  EXPECT_THAT(refusal_of(state,
                         [](TrainerState& s) {
                           s.parameters[0].type = Type::kF64;
                           s.parameters[0].bytes.resize(8);
                         }),
              is_error(kInvalid, "match this run: 'w' is f64[], here f32[]; nothing"));
  EXPECT_THAT(refusal_of(state,
                         [](TrainerState& s) {
                           s.parameters.push_back(s.parameters[0]);
                           s.parameters[0].name = s.parameters[1].name = "v";
                         }),
              is_error(kInvalid, "match this run: 'w' is missing; nothing"));
}

TEST_F(TrainerStates, AreSetOnceBeforeAnyPartOfAStep) {
  const TrainerState state = state_after(3);
  train([&](Trainer& trainer) {
    trainer.set_state(state);
    EXPECT_THAT(error_of([&] { trainer.set_state(state); }), is_error(kTooEarlyOrLate, "a step has run"));
    EXPECT_EQ(trainer.step_count(), 3);
  });
  train([&](Trainer& trainer) {
    trainer.launch_gradients();
    EXPECT_THAT(error_of([&] { trainer.set_state(state); }), is_error(kTooEarlyOrLate, "a step has run"));
    EXPECT_EQ(trainer.step_count(), 0);
  });
}

TEST_F(TrainerStates, StatesThatAreDividedAmongShardsAreWhole) {
  constexpr std::uint64_t kCount = 1000;
  const Parameter w("w", {kCount}, Initializer::constant(1));
  const Tensor x = tensor<float>({1, 1}, {2});
  options_.optimizer = Sgd{.momentum = 0.5};
  options_.placement = Placement::kSharded;
  for (const MergeStrategy strategy : kStrategies) {
    options_.merge = strategy;
    const TrainerState state = data_parallel(
        options_, x, x, [&](const Tensor& a, const Tensor&) { return mean(a) * sum(w.tensor()); },
        [](Trainer& trainer) {
          trainer.step();
          return trainer.state();
        });
    ASSERT_EQ(state.optimizer.size(), 1U);
    std::vector<float> momentum(kCount);
    ASSERT_EQ(state.optimizer[0].bytes.size(), kCount * sizeof(float));
    std::memcpy(momentum.data(), state.optimizer[0].bytes.data(), kCount * sizeof(float));
    EXPECT_EQ(momentum, std::vector<float>(kCount, 1)) << merge_strategy_name(strategy);
  }
}

TEST_F(TrainerStates, AveragesNeedAnOptimizerThatKeepsThemAndAStep) {
  train([&](Trainer& trainer) {
    trainer.step();
    EXPECT_THAT(error_of([&] { trainer.swap_averages(); }),
                is_error(kTooEarlyOrLate, "the optimizer keeps no averages"));
    EXPECT_NO_THROW(trainer.step());
  });
  options_.optimizer = moving_average(Sgd{});
  train([&](Trainer& trainer) {
    EXPECT_THAT(error_of([&] { trainer.swap_averages(); }),
                is_error(kTooEarlyOrLate, "the averages begin with the first step"));
  });
}

}  // namespace
}  // namespace yoke::testing
