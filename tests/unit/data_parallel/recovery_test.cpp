// SPDX-License-Identifier: Apache-2.0
// tests/unit/data_parallel/recovery_test.cpp: trainers that lose shards and continue with the others.
#include "recovery.h"

#include <stdexcept>

#include "expected_leak.h"

namespace yoke::testing {
namespace {

using test::error_of;
using test::is_error;
using ::testing::Contains;
using ::testing::HasSubstr;

INSTANTIATE_TEST_SUITE_P(Streams, Recovery, ::testing::Values(test::Streams::kWorker, test::Streams::kNative),
                         test::streams_name);

// The parameters have the bits of a run that has one shard fewer from the failed step on. The calls after the step,
// which compare the replicas, are before the next one.
TEST_P(Recovery, EveryCallOfAStepMayFail) {
  for (const std::int64_t shards : {2, 3}) {
    device_count = shards == 3 ? 1 : 2;  // where shards may share parameters
    for (const auto& [strategy, placement] : strategies_and_placements()) {
      options.merge = strategy;
      options.placement = placement;
      const std::vector<float> in_step = values_of(shards, 2, shards - 1, 2);
      const std::vector<float> after_step = values_of(shards, 3, shards - 1, 1);
      std::int64_t in_step_count = 0;
      std::int64_t call_count = 1;
      const std::int64_t stride = kTriesAll ? (shards == 2 ? 1 : 3) : 11;
      for (std::int64_t good = 0; good < call_count; good += stride) {
        SCOPED_TRACE(std::to_string(shards) + " shards, " + merge_strategy_name(strategy) + ", " +
                     placement_name(placement) + ", call " + std::to_string(good));
        train(shards, two_layers(), [&](Trainer& trainer) {
          trainer.step();
          const std::uint64_t before = control->call_count;
          trainer.step();
          call_count = static_cast<std::int64_t>(control->call_count - before);
          arm(good);
          trainer.step();
          trainer.step();
          EXPECT_EQ(trainer.step_count(), 4);
          EXPECT_EQ(trainer.shards(), shards - 1);
          ASSERT_EQ(trainer.lost_shards().size(), 1U);
          const LostShard& lost = trainer.lost_shards()[0];
          EXPECT_THAT(lost.step, ::testing::AnyOf(2, 3));
          in_step_count += lost.step == 2 ? 1 : 0;
          EXPECT_EQ(all_values(trainer), lost.step == 2 ? in_step : after_step);
          EXPECT_THAT(lost.reason, HasSubstr("'shard " + std::to_string(lost.shard) + " on " + lost.device));
          EXPECT_THAT(lost.reason, HasSubstr("injected this failure"));
          EXPECT_THAT(log.all(), Contains(HasSubstr("shard.lost shard=" + std::to_string(lost.shard) +
                                                    " device=" + lost.device + " step=")));
        });
      }
      EXPECT_GE(in_step_count * stride, 5);  // at least a gradient and a loss on each shard, and an update
    }
  }
}

TEST_P(Recovery, LostDeviceTakesAllItsShards) {
  for (const auto& [strategy, placement] : strategies_and_placements()) {
    options.merge = strategy;
    options.placement = placement;
    const std::vector<float> expected = values_of(4, 1, 2, 2);
    for (const std::int64_t good : kTriesAll ? Counts{0, 3, 8, 11} : Counts{3}) {
      SCOPED_TRACE(std::string(merge_strategy_name(strategy)) + ", " + placement_name(placement) + ", call " +
                   std::to_string(good));
      train(4, two_layers(), [&](Trainer& trainer) {
        trainer.step();
        arm(good, YOKE_STATUS_DEVICE_LOST);
        trainer.step();
        trainer.step();
        EXPECT_EQ(all_values(trainer), expected);
        EXPECT_EQ(trainer.shards(), 2U);
        ASSERT_EQ(trainer.lost_shards().size(), 2U);
        EXPECT_EQ(trainer.lost_shards()[0].device, trainer.lost_shards()[1].device);
        EXPECT_EQ(trainer.lost_shards()[0].shard + 2, trainer.lost_shards()[1].shard);
      });
    }
  }
}

TEST_P(Recovery, FirstAndLastStepMayFail) {
  const std::vector<float> first = values_of(3, 0, 2, 3);
  const std::vector<float> last = values_of(3, 2, 2, 1);
  for (const bool is_first : {true, false}) {
    const auto model = two_layers();
    train(3, model, [&](Trainer& trainer) {
      for (int i = 0; i < 3; ++i) {
        if (i == (is_first ? 0 : 2)) {
          arm(1);
        }
        trainer.step();
      }
    });
    std::vector<float> values;
    for (const Parameter& parameter : nn::parameters(model)) {
      values.insert(values.end(), parameter.float_values().begin(), parameter.float_values().end());
    }
    EXPECT_EQ(values, is_first ? first : last);
  }
}

TEST_P(Recovery, MomentumLossesAndEvaluationsContinue) {
  options.optimizer = Sgd{0.9, 1e-3, true};
  options.batch_size = 4;  // two batches of 4 rows, and one of 2
  using Placements = std::vector<Placement>;
  for (const Placement placement : kTriesAll ? Placements{std::begin(kPlacements), std::end(kPlacements)}
                                             : Placements{Placement::kSharded}) {
    options.placement = placement;
    expect_like_without_loss(3);
  }
}

TEST_P(Recovery, FedBatchesAreUsedAgain) {
  options.optimizer = Sgd{.momentum = 0.9};
  options.batch_size = 4;
  constexpr std::int64_t kPerRun = 7 + 2;  // two steps ahead
  std::int64_t asked = 0;
  next = [&](std::int64_t number) {
    EXPECT_EQ(number, asked % kPerRun) << "no batch is asked for twice";
    ++asked;
    const std::uint64_t rows = number % 3 == 2 ? 2 : 4;
    const auto seed = static_cast<std::uint32_t>(number);
    return Batch{tensor(some_numbers(rows * kWidth, seed), {rows, kWidth}),
                 tensor(some_numbers(rows, seed + 1), {rows, 1})};
  };
  const std::int64_t run_count = expect_like_without_loss(2);
  EXPECT_EQ(asked, run_count * kPerRun);
}

TEST_P(Recovery, MicroBatchesAndOverlapContinue) {
  options.optimizer = Sgd{.momentum = 0.9};
  options.accumulate = 2;
  expect_like_without_loss(2);
  options.accumulate = 1;
  options.overlap = Overlap::kOn;
  options.bucket_byte_count = 256;
  expect_like_without_loss(3);
}

TEST_P(Recovery, LossScaleCountsCompleteStepsOnce) {
  options.precision = Precision::kF16;
  for (const Placement placement : kPlacements) {
    options.placement = placement;
    for (const std::int64_t good : kTriesAll ? Counts{0, 4, 9, 14} : Counts{9}) {
      train(3, two_layers(), [&](Trainer& trainer) {
        for (int i = 0; i < 4; ++i) {
          if (i == 2) {
            arm(good);
          }
          trainer.step();
          EXPECT_EQ(trainer.loss_scale().clean_steps + trainer.loss_scale().skipped_steps, i + 1);
        }
        EXPECT_EQ(trainer.shards(), 2U);
      });
    }
  }
}

TEST_P(Recovery, RowWeightsAreKept) {
  options.optimizer = Sgd{.momentum = 0.9};
  options.row_weights = {3, 1, 2};
  options.varying_rows = true;
  expect_like_without_loss(3);
  train(3, two_layers(), [&](Trainer& trainer) {
    trainer.set_row_weights(std::vector<std::int64_t>{1, 5, 3});
    arm(0);
    trainer.step();
    std::vector<std::int64_t> left = {1, 5, 3};
    left.erase(left.begin() + trainer.lost_shards().at(0).shard);
    EXPECT_EQ(trainer.row_weights(), left);
    EXPECT_ERROR(ErrorCode::kInvalidArgument, trainer.set_row_weights(std::vector<std::int64_t>{1, 5, 3}));
  });
}

TEST_P(Recovery, ReproducibleRunKeepsItsBits) {
  options.optimizer = Sgd{.momentum = 0.9};
  options.reproducible = 8;
  options.batch_size = 4;
  const Outcome expected = run(4, -1, 0, YOKE_STATUS_INTERNAL);
  for (const std::int32_t code : {YOKE_STATUS_INTERNAL, YOKE_STATUS_DEVICE_LOST}) {
    for (const std::int64_t good : {0, 7, 19}) {
      EXPECT_EQ(run(4, 3, good, code).values, expected.values) << "code " << code << ", call " << good;
    }
  }
}

TEST_P(Recovery, LossBetweenStepsIsFoundByReads) {
  const std::vector<float> expected = values_of(2, 2, 1, 1);
  const auto model = two_layers();
  train(2, model, [&](Trainer& trainer) {
    Evaluation evaluation = trainer.evaluation(
        tensor(some_numbers(4 * kWidth, 3), {4, kWidth}), tensor(some_numbers(4, 4), {4, 1}),
        [&](const Tensor& x, const Tensor& y) { return std::vector<Tensor>{mse(model(x), y)}; });
    trainer.step();
    trainer.step();
    const double before = evaluation.run().at(0);
    const double loss = trainer.loss_value();
    const float loss_of_owner = trainer.owner_loss_value();
    arm(1, YOKE_STATUS_DEVICE_LOST);
    EXPECT_NEAR(evaluation.run().at(0), before, 1e-6);
    EXPECT_EQ(trainer.shards(), 1U);
    EXPECT_EQ(trainer.lost_shards().at(0).step, 2);
    EXPECT_EQ(trainer.loss_value(), loss);
    EXPECT_EQ(trainer.owner_loss_value(), loss_of_owner);
    trainer.step();
    EXPECT_EQ(all_values(trainer), expected);
  });
}

TEST_P(Recovery, MetricsAreThoseOfTheShardsThatAreLeft) {
  make_runtime();
  options.shards = 3;
  const auto model = two_layers();
  data_parallel(
      options, tensor(some_numbers(kRows * kWidth, 1), {kRows, kWidth}),
      tensor(some_numbers(kRows, 2), {kRows, 1}),
      [&](const Tensor& x, const Tensor& y) {
        const Tensor loss = mse(model(x), y);
        return Loss{loss, {{"same", loss}, {"twice", 2.0F * loss}, {"more", loss + 1.0F}}};
      },
      [&](Trainer& trainer) {
        for (int i = 0; i < 4; ++i) {
          if (i == 2) {
            arm(3);
          }
          trainer.step();
          const double loss = trainer.loss_value();
          EXPECT_NEAR(trainer.metric_value("same"), loss, 1e-6);
          EXPECT_NEAR(trainer.metric_value("twice"), 2 * loss, 1e-6);
          EXPECT_NEAR(trainer.metric_value("more"), loss + 1, 1e-6);
        }
        EXPECT_EQ(trainer.shards(), 2U);
      });
}

TEST_P(Recovery, EvaluationOfATrainerThatCouldNotGoOnIsAnError) {
  Evaluation evaluation;
  bool is_refused = false;
  const auto model = two_layers();
  const auto fails = [&] {
    train(2, model, [&](Trainer& trainer) {
      evaluation = trainer.evaluation(
          tensor(some_numbers(4 * kWidth, 3), {4, kWidth}), tensor(some_numbers(4, 4), {4, 1}),
          [&](const Tensor& x, const Tensor& y) { return std::vector<Tensor>{mse(model(x), y)}; });
      is_refused = true;
      arm(0);
      trainer.step();
    });
  };
  options.check_memory = [&](std::span<const MemoryNeed>) {
    if (is_refused) {
      throw Error(ErrorCode::kResourceExhausted, "too little memory");
    }
  };
  EXPECT_THAT(error_of(fails), is_error(ErrorCode::kResourceExhausted, "too little memory"));
  EXPECT_THAT(error_of([&] { (void)evaluation.run(); }),
              is_error(ErrorCode::kFailedPrecondition, "its trainer lost shards and could not go on"));
}

// Several losses, until none is left.
TEST_P(Recovery, LastShardsFailureIsTheError) {
  const auto fails = [this](int losses) {
    const auto model = two_layers();
    train(4, model, [&](Trainer& trainer) {
      trainer.step();
      for (int i = 0; i < losses; ++i) {
        arm(1);
        trainer.step();
        EXPECT_EQ(trainer.shards(), static_cast<std::uint32_t>(3 - i));
      }
    });
  };
  fails(3);
  EXPECT_THAT(error_of([&] { fails(4); }),
              is_error(ErrorCode::kInternal, "step(): stream 'shard ", " on test0:", "step 4", "injected"));
  const yoke_live_counts live = options.runtime->backend("test0")->live_counts();
  EXPECT_EQ(live.devices + live.buffers + live.streams + live.routines, 0U);
}

TEST_P(Recovery, SetBatchIsTheDataOfTheShardsThatAreLeft) {
  const auto run_with = [&](bool loses) {
    std::vector<float> values;
    train(2, nn::linear(1), [&](Trainer& trainer) {
      trainer.step();
      trainer.set_batch(tensor(some_numbers(kRows * kWidth, 8), {kRows, kWidth}),
                        tensor(some_numbers(kRows, 9), {kRows, 1}));
      trainer.set_learning_rate(0.01);
      if (loses) {
        arm(0);
      }
      trainer.step();
      values = all_values(trainer);
    });
    return values;
  };
  expect_near(run_with(true), run_with(false));
}

TEST_P(Recovery, SetBatchTakesOtherNumbersOfRowsBeforeAndAfterALoss) {
  const auto run_with = [&](bool loses) {
    options.varying_rows = true;
    options.batch_size = 4;
    std::vector<float> values;
    train(3, nn::linear(1), [&](Trainer& trainer) {
      trainer.step();
      for (const std::uint64_t rows :
           {std::uint64_t{3}, kRows}) {  // the shards that are left have memory for all
        trainer.set_batch(tensor(some_numbers(rows * kWidth, 8), {rows, kWidth}),
                          tensor(some_numbers(rows, 9), {rows, 1}));
        if (loses && rows == 3) {
          arm(0);
        }
        EXPECT_TRUE(trainer.run_epoch());
      }
      EXPECT_EQ(trainer.shards(), loses ? 2U : 3U);
      EXPECT_EQ(trainer.step_count(), 1 + 1 + 3);
      values = all_values(trainer);
    });
    return values;
  };
  expect_near(run_with(true), run_with(false));
}

// Without a failure there is nothing to repeat: a device that hangs is an error.
TEST_P(Recovery, HungShardIsAnError) {
  const test::ExpectedLeak leak;  // of memory that the hanging calls may still use
  make_runtime(std::chrono::seconds(1));
  options.shards = 2;
  const auto model = nn::linear(1);
  EXPECT_ERROR(ErrorCode::kDeadlineExceeded,
               data_parallel(
                   options, tensor(some_numbers(kRows * kWidth, 1), {kRows, kWidth}),
                   tensor(some_numbers(kRows, 2), {kRows, 1}),
                   [&](const Tensor& x, const Tensor& y) { return mse(model(x), y); },
                   [&](Trainer& trainer) {
                     trainer.step();
                     control->is_blocked = true;
                     trainer.step();
                   }));
  control->is_blocked = false;
}

TEST_P(Recovery, PartsOfAStepAreRefused) {
  train(2, nn::linear(1), [](Trainer& trainer) {
    EXPECT_THAT(error_of([&] { trainer.launch_gradients(); }),
                is_error(ErrorCode::kFailedPrecondition, "launch_gradients()", "use step()"));
    EXPECT_ERROR(ErrorCode::kFailedPrecondition, trainer.grad_sync());
    EXPECT_ERROR(ErrorCode::kFailedPrecondition, trainer.update());
    EXPECT_ERROR(ErrorCode::kFailedPrecondition, trainer.advance());
    EXPECT_ERROR(ErrorCode::kFailedPrecondition, (void)trainer.shard_list());
  });
  EXPECT_ERROR(ErrorCode::kInvalidArgument, on_device_lost_by_name("ignore"));
  EXPECT_EQ(on_device_lost_by_name("redistribute"), OnDeviceLost::kRedistribute);
  options.on_device_lost = static_cast<OnDeviceLost>(9);
  EXPECT_ERROR(ErrorCode::kInvalidArgument, train(2, nn::linear(1), [](Trainer&) {}));
}

// All shards end at the same step, whatever ends training: a stop request, or a data set that fails.
TEST_P(Recovery, ShardsAgreeOnTheStepThatWasTheLast) {
  for (const auto reaction : {OnDeviceLost::kFail, OnDeviceLost::kRedistribute}) {
    options.on_device_lost = reaction;
    options.batch_size = 2;
    const auto model = two_layers();
    train(3, model, [&](Trainer& trainer) {
      control->delay_us = 300;
      EXPECT_FALSE(trainer.run_epoch([](std::int64_t step) { return step < 2; }));
      EXPECT_EQ(trainer.step_count(), 3);  // the replicas are compared after each step
      trainer.wait();
    });
    next = [&](std::int64_t number) {
      if (number == 2) {
        throw std::runtime_error("no more data");
      }
      return Batch{tensor(some_numbers(2 * kWidth, 1), {2, kWidth}), tensor(some_numbers(2, 2), {2, 1})};
    };
    train(3, nn::linear(1), [&](Trainer& trainer) {
      control->delay_us = 300;
      EXPECT_THAT(error_of([&] { trainer.run_epoch(); }),
                  is_error(ErrorCode::kUnknown, "step(): step 2 needs batch 2", "no more data"));
      EXPECT_EQ(trainer.step_count(), 2);
      EXPECT_TRUE(trainer.lost_shards().empty());
      EXPECT_NO_THROW(all_values(trainer));
    });
    next = nullptr;
  }
}

}  // namespace
}  // namespace yoke::testing
