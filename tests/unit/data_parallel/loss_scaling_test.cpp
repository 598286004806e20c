// SPDX-License-Identifier: Apache-2.0
// tests/unit/data_parallel/loss_scaling_test.cpp: f16 scales the loss, and skips steps that
// overflow: they change neither parameters nor the optimizer's state.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "common.h"
#include "error_of.h"
#include "precision.h"

namespace yoke::testing {
namespace {

using test::error_of;
using test::is_error;

// A loss of which the row with the largest factor overflows f16 as long as 4 * scale does: three steps are skipped.
Tensor overflowing(const Tensor& x, const Tensor& y, const Parameter& w) {
  return sum(einsum("ni,io->no", {x, w.tensor()}) * y);
}

struct Overflowing {
  Overflowing() { w.set_values(tensor(some_numbers(200, 5), {40, 5}).host_bytes()); }
  Parameter w = Parameter("w", {40, 5}, Initializer::zeros());
  Tensor x = tensor(some_numbers(4 * 40, 6), {4, 40});
  Tensor y = tensor(std::vector<float>{1, 1, 1, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 4, 4, 4, 4, 4}, {4, 5});
  LossOf loss_of() {
    return [this](const Tensor& in, const Tensor& target) { return overflowing(in, target, w); };
  }
};

void expect_skips(DataParallelOptions options) {
  options.precision = Precision::kF16;
  options.reduction = Reduction::kSum;
  options.check_replicas_every = 1;
  options.bucket_byte_count = 256;
  Overflowing problem;
  TrainerState later;
  std::vector<float> values;
  data_parallel(options, problem.x, problem.y, problem.loss_of(), [&](Trainer& trainer) {
    later = trainer.state();
    EXPECT_EQ(later.loss_scale.scale, 65536);
    for (int i = 0; i < 3; ++i) {
      trainer.step();
      const TrainerState now = trainer.state();
      EXPECT_EQ(now.loss_scale.scale, std::ldexp(1, 15 - i));
      EXPECT_EQ(now.loss_scale.skipped_steps, i + 1);
      EXPECT_EQ(now.parameters[0].bytes, later.parameters[0].bytes);
      ASSERT_EQ(now.optimizer.size(), later.optimizer.size());
      for (std::size_t s = 0; s < now.optimizer.size(); ++s) {
        EXPECT_EQ(now.optimizer[s].bytes, later.optimizer[s].bytes) << now.optimizer[s].name;
      }
    }
    EXPECT_FALSE(trainer.first_bad_step());
    for (int i = 0; i < 4; ++i) {
      trainer.step();
    }
    EXPECT_EQ(trainer.loss_scale().scale, 8192);
    EXPECT_EQ(trainer.loss_scale().clean_steps, 4);
    EXPECT_EQ(trainer.loss_scale().skipped_steps, 3);
    values = all_values(trainer);
  });
  // Skipped steps are as if they had never been, also where the optimizer counts steps.
  Overflowing again;
  later.loss_scale.scale = 8192;
  const Result without = train(options, again.x, again.y, again.loss_of(), 4, &later);
  EXPECT_EQ(values, without.values);
  EXPECT_EQ(without.scale.skipped_steps, 0);
  EXPECT_NE(values, some_numbers(200, 5));
}

TEST(LossScaling, StepThatOverflowsOnOneShardIsSkippedOnAll) {
  for (const auto& [strategy, placement] : strategies_and_placements()) {
    SCOPED_TRACE(std::string(merge_strategy_name(strategy)) + ", " + placement_name(placement));
    DataParallelOptions options = options_for(3, 0.05F);
    options.merge = strategy;
    options.placement = placement;
    options.optimizer = AdamW{};
    expect_skips(options);
  }
}

TEST(LossScaling, SkipsWithEveryKindOfOptimizerAndRun) {
  const auto with = [](const Optimizer& optimizer, std::int64_t shards) {
    DataParallelOptions options = options_for(shards, 0.05F);
    options.optimizer = optimizer;
    return options;
  };
  OptimizerRule counts = Optimizer(Sgd{.momentum = 0.9}).rule();  // its number ignores NaN
  counts.term = [](const Tensor& gradient) { return cast(gradient > 0.0, Type::kF64); };
  counts.number = [](const Tensor& total) { return total / 100.0; };
  for (const Optimizer& optimizer :
       {Optimizer(Sgd{}), Optimizer(Lamb{}), clip_by_value(Adam{}, 0.5), clip_by_global_norm(AdamW{}, 0.5),
        moving_average(clip_by_global_norm(Adam{}, 0.5), 0.9), with_groups(AdamW{}, {{"w", AdamW{}, 0.5}}),
        Optimizer(counts)}) {
    SCOPED_TRACE(optimizer.name());
    expect_skips(with(optimizer, 1));
    expect_skips(with(optimizer, 2));
  }
  const Optimizer average = moving_average(clip_by_global_norm(AdamW{}, 0.5), 0.9);
  DataParallelOptions options = with(average, 2);
  options.accumulate = 2;
  expect_skips(options);
  options = with(average, 2);
  options.overlap = Overlap::kOn;
  expect_skips(options);
  options = with(average, 2);
  options.varying_rows = true;
  expect_skips(options);
  options = with(average, 2);
  options.reproducible = 4;
  expect_skips(options);
  options = with(average, 2);
  options.on_device_lost = OnDeviceLost::kRedistribute;
  expect_skips(options);
}

TEST(LossScaling, ScheduleCountsSkippedSteps) {
  Overflowing problem;
  DataParallelOptions options = options_for(1, 0);
  options.precision = Precision::kF16;
  // The rate is not 0 in step 3 only, the first that is not skipped.
  options.learning_rate = where(equal(symbol_value(step_symbol()), 3), Tensor(0.5F), Tensor(0.0F));
  EXPECT_NE(train(options, problem.x, problem.y, problem.loss_of(), 5).values, some_numbers(200, 5));
}

TEST(LossScaling, UpdatesSeeTheValuesOfOtherSymbolsThanTheStep) {
  const Symbol phase{"phase", 5, 8, 1};
  DataParallelOptions options = options_for(1, 0.0F);
  options.precision = Precision::kF16;
  options.bindings = {phase};
  options.optimizer = Optimizer("counting", {}, [&](const Tensor& value, const Tensor&, auto&, auto&) {
    return std::vector<Update>{{value, value + cast(symbol_value(phase), Type::kF32)}};
  });
  const Parameter w("w", {}, Initializer::zeros());
  const Tensor x = tensor<float>({1e-3F}, {1});
  const auto loss_of = [&](const Tensor& a, const Tensor&) { return mean(a * w.tensor()); };
  EXPECT_EQ(train(options, x, x, loss_of, 3).values, std::vector<float>{5 + 6 + 7});
}

TEST(LossScaling, ScaleDoublesAfter2000CleanSteps) {
  for (const std::int64_t shards : {1, 2}) {
    Overflowing problem;
    DataParallelOptions options = options_for(shards, 0.05F);
    options.precision = Precision::kF16;
    data_parallel(options, problem.x, problem.y, problem.loss_of(), [&](Trainer& trainer) {
      TrainerState state = trainer.state();
      state.loss_scale = {1024, 1998, 0};
      trainer.set_state(state);
      trainer.step();
      EXPECT_EQ(trainer.loss_scale().scale, 1024);
      EXPECT_EQ(trainer.loss_scale().clean_steps, 1999);
      trainer.step();
      EXPECT_EQ(trainer.loss_scale().scale, 2048);
      EXPECT_EQ(trainer.loss_scale().clean_steps, 0);
      EXPECT_EQ(trainer.loss_scale().skipped_steps, 0);
    });
  }
}

TEST(LossScaling, HandWrittenLoopsSeeScaledGradients) {
  const std::vector<float> x = some_numbers(4 * 40, 6);
  const float slope = x[0] + 4 * x[3 * 40];  // of the first weight, which rows 0 and 3 use
  for (const std::int64_t shards : {1, 2}) {
    Overflowing problem;
    DataParallelOptions options = options_for(shards, 0.05F);
    options.precision = Precision::kF16;
    options.reduction = Reduction::kSum;
    data_parallel(options, problem.x, problem.y, problem.loss_of(), [&](Trainer& trainer) {
      TrainerState state = trainer.state();
      state.loss_scale.scale = 1024;
      trainer.set_state(state);
      std::vector<float> gradients[2];
      for (auto& gradient : gradients) {
        trainer.launch_gradients();
        trainer.grad_sync();
        gradient = trainer.read_values("gradient/w");
        trainer.update();
        trainer.advance();
        state = trainer.state();
        EXPECT_EQ(trainer.loss_scale().clean_steps, &gradient - gradients + 1);
      }
      EXPECT_EQ(gradients[0], gradients[1]);          // the loss is linear
      EXPECT_NEAR(gradients[0][0], 1024 * slope, 2);  // x of f16, with 11 bits
    });
    EXPECT_NEAR(problem.w.float_values()[0], some_numbers(200, 5)[0] - 2 * 0.05F * slope, 1e-3);
  }
}

// The optimizer does not count skipped steps, but the loss does, on any number of shards.
TEST(LossScaling, LossesThatUseTheStepAreAlikeOnAllNumbersOfShards) {
  std::vector<Result> runs;
  for (const std::int64_t shards : {1, 2}) {
    Overflowing problem;
    DataParallelOptions options = options_for(shards, 0.05F);
    options.precision = Precision::kF16;
    options.reduction = Reduction::kSum;
    options.optimizer = Adam{};
    const LossOf loss_of = [&](const Tensor& x, const Tensor& y) {
      return problem.loss_of()(x, y) * (cast(symbol_value(step_symbol()), Type::kF32) + 1.0F);
    };
    runs.push_back(train(options, problem.x, problem.y, loss_of, 7));
    EXPECT_GT(runs.back().scale.skipped_steps, 0);
    EXPECT_LT(runs.back().scale.skipped_steps, 7);
  }
  EXPECT_EQ(runs[0].scale.skipped_steps, runs[1].scale.skipped_steps);
  for (std::size_t i = 0; i < runs[0].values.size(); ++i) {
    EXPECT_NEAR(runs[0].values[i], runs[1].values[i], 1e-3);
  }
}

TEST(LossScaling, OtherPrecisionsHaveNone) {
  Overflowing problem;
  for (const Precision precision : {Precision::kF32, Precision::kBF16}) {
    DataParallelOptions options = options_for(2, 0.05F);
    options.precision = precision;
    const Result run = train(options, problem.x, problem.y, problem.loss_of(), 2);
    EXPECT_EQ(run.scale.scale, 1);
    EXPECT_EQ(run.scale.clean_steps, 0);
    EXPECT_EQ(run.scale.skipped_steps, 0);
  }
}

TEST(LossScaling, WrongStatesAndValuesAreErrors) {
  Overflowing problem;
  DataParallelOptions options = options_for(1, 0.05F);
  options.precision = Precision::kF16;
  options.reduction = Reduction::kSum;
  options.optimizer = moving_average(Sgd{});
  data_parallel(options, problem.x, problem.y, problem.loss_of(), [&](Trainer& trainer) {
    const TrainerState state = trainer.state();
    for (const LossScale& wrong :
         {LossScale{0, 0, 0}, LossScale{-1, 0, 0}, LossScale{INFINITY, 0, 0}, LossScale{NAN, 0, 0},
          LossScale{std::ldexp(1, 101), 0, 0}, LossScale{std::ldexp(1, -101), 0, 0}, LossScale{1, -1, 0},
          LossScale{1, 2000, 0}, LossScale{1, 0, -1}, LossScale{1, 0, 1}}) {
      TrainerState other = state;
      other.loss_scale = wrong;
      EXPECT_THAT(error_of([&] { trainer.set_state(other); }),
                  is_error(ErrorCode::kInvalidArgument, "the loss scale "));
    }
    TrainerState other = state;
    other.precision = "bf16";
    EXPECT_THAT(error_of([&] { trainer.set_state(other); }),
                is_error(ErrorCode::kInvalidArgument, "the precision is bf16, here f16"));
    trainer.step();
    EXPECT_THAT(error_of([&] { trainer.swap_averages(); }),
                is_error(ErrorCode::kFailedPrecondition, "the only step was skipped"));
  });
  options.wire = Wire::kBF16;
  EXPECT_THAT(
      error_of([&] { data_parallel(options, problem.x, problem.y, problem.loss_of(), [](Trainer&) {}); }),
      is_error(ErrorCode::kInvalidArgument, "use precision bf16 or the wire format full"));
  options.wire = Wire::kFull;
  options.precision = static_cast<Precision>(9);
  EXPECT_THAT(
      error_of([&] { data_parallel(options, problem.x, problem.y, problem.loss_of(), [](Trainer&) {}); }),
      is_error(ErrorCode::kInvalidArgument, "precision is 9; use kF32, kBF16 or kF16"));
  for (const Precision precision : kPrecisions) {
    EXPECT_EQ(precision_by_name(precision_name(precision)), precision);
  }
  EXPECT_THAT(error_of([] { (void)precision_by_name("f64"); }),
              is_error(ErrorCode::kInvalidArgument, "unknown precision 'f64'; use f32, bf16 or f16"));
}

}  // namespace
}  // namespace yoke::testing
