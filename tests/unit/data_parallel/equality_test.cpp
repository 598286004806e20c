// SPDX-License-Identifier: Apache-2.0
// tests/unit/data_parallel/equality_test.cpp: N shards are one shard, in any strategy, under any timing.
#include <gtest/gtest.h>

#include <cmath>

#include "common.h"

namespace yoke::testing {
namespace {

constexpr std::uint64_t kRows = 44;  // batches of 12: three full ones, and 8 rows left

struct Outcome {
  std::vector<double> losses;
  std::vector<float> values;
};

struct Setting {
  std::int64_t shards = 1;
  MergeStrategy merge = MergeStrategy::kAuto;
  MergeUse use = MergeUse::kStreaming;
  Reduction reduction = Reduction::kMean;
  std::uint32_t delay_us = 0;
  std::uint64_t delay_seed = 0;
  int steps = 9;
  Sgd optimizer = {0.9, 1e-3, true};
  std::int64_t batch = 12;
  bool pieces = false;  // launch_gradients, grad_sync, update, advance instead of step
};

Outcome run(const Setting& setting) {
  DataParallelOptions options = options_for(setting.shards, 0.05F);
  options.runtime = test_runtime(setting.delay_us, setting.delay_seed);
  options.merge = setting.merge;
  options.merge_use = setting.use;
  options.reduction = setting.reduction;
  options.optimizer = setting.optimizer;
  options.batch_size = setting.batch;
  options.check_replicas_every = 1;
  const Tensor step = cast(symbol_value(step_symbol()), Type::kF32);
  options.learning_rate = 0.05F / (1.0F + step * 0.1F);
  const auto model = nn::sequential(nn::linear(16), nn::tanh(), nn::linear(3));
  std::vector<std::int32_t> labels(kRows);
  for (std::size_t i = 0; i < kRows; ++i) {
    labels[i] = static_cast<std::int32_t>(i * 7 % 3);
  }
  const auto reduce = setting.reduction == Reduction::kMean ? Reduce::kMean : Reduce::kSum;
  Outcome result;
  data_parallel(
      options, tensor(some_numbers(kRows * 5, 1), {kRows, 5}), tensor(labels, {kRows}),
      [&](const Tensor& x, const Tensor& y) { return cross_entropy(model(x), y, reduce); },
      [&](Trainer& trainer) {
        for (int i = 0; i < setting.steps; ++i) {
          if (setting.pieces) {
            trainer.launch_gradients();
            trainer.grad_sync();
            trainer.update();
            trainer.advance();
          } else {
            trainer.step();
          }
          result.losses.push_back(trainer.loss_value());
        }
        result.values = all_values(trainer);
      });
  return result;
}

// 12 rows, 16 hidden units, sums of under 64 f32 terms per step, 9 steps: 64 * 9 * 2^-24 of values around 1.
constexpr double kTolerance = 64 * 9 * 6e-8;

class Shards : public ::testing::TestWithParam<std::tuple<std::int64_t, MergeStrategy, MergeUse, Reduction>> {
};

TEST_P(Shards, GiveTheLossesAndParametersOfOneShard) {
  Setting setting;
  setting.reduction = std::get<3>(GetParam());
  const double scale = setting.reduction == Reduction::kSum ? 12 : 1;  // losses are sums then
  const Outcome one = run(setting);
  setting.shards = std::get<0>(GetParam());
  setting.merge = std::get<1>(GetParam());
  setting.use = std::get<2>(GetParam());
  const Outcome many = run(setting);
  ASSERT_EQ(many.values.size(), one.values.size());
  for (std::size_t i = 0; i < one.losses.size(); ++i) {
    EXPECT_NEAR(many.losses[i], one.losses[i], kTolerance * scale * (1 + std::abs(one.losses[i])))
        << "step " << i;
  }
  for (std::size_t i = 0; i < one.values.size(); ++i) {
    EXPECT_NEAR(many.values[i], one.values[i], kTolerance * scale * (1 + std::abs(one.values[i])));
  }
}

INSTANTIATE_TEST_SUITE_P(
    Strategies, Shards,
    ::testing::Combine(::testing::Values(2, 3, 4, 9),  // 9: some shards have no rows of the last batch
                       ::testing::Values(MergeStrategy::kOwner, MergeStrategy::kTree, MergeStrategy::kDirect),
                       ::testing::Values(MergeUse::kCopy, MergeUse::kStreaming),
                       ::testing::Values(Reduction::kMean, Reduction::kSum)));

TEST(Losses, FallOverTheRun) {
  Setting setting;
  setting.steps = 60;
  const Outcome trained = run(setting);
  EXPECT_LT(trained.losses.back(), 0.9 * trained.losses.front());
}

TEST(OwnerAndDirect, SumInTheSameOrderSoTheirBitsAreEqual) {
  Setting setting;
  setting.shards = 4;
  setting.merge = MergeStrategy::kOwner;
  const Outcome owner = run(setting);
  setting.merge = MergeStrategy::kDirect;
  const Outcome direct = run(setting);
  EXPECT_EQ(owner.values, direct.values);
}

TEST(Pieces, OfAStepGiveTheBitsOfStep) {
  for (const auto strategy : {MergeStrategy::kOwner, MergeStrategy::kTree, MergeStrategy::kDirect}) {
    Setting setting;
    setting.shards = 3;
    setting.merge = strategy;
    const Outcome whole = run(setting);
    setting.pieces = true;
    EXPECT_EQ(run(setting).values, whole.values) << merge_strategy_name(strategy);
  }
}

TEST(Repeating, GivesTheSameBitsUnderRandomDelays) {
  for (const auto strategy : {MergeStrategy::kOwner, MergeStrategy::kTree, MergeStrategy::kDirect}) {
    Setting setting;
    setting.shards = 4;
    setting.merge = strategy;
    const Outcome calm = run(setting);
    setting.delay_us = 300;
    for (std::uint64_t seed = 1; seed <= 20; ++seed) {
      setting.delay_seed = seed;
      const Outcome delayed = run(setting);
      ASSERT_EQ(delayed.values, calm.values) << merge_strategy_name(strategy) << ", delay seed " << seed;
      ASSERT_EQ(delayed.losses, calm.losses) << merge_strategy_name(strategy) << ", delay seed " << seed;
    }
  }
}

TEST(WholeData, WithoutABatchSizeIsOneBatch) {
  Setting setting;
  setting.batch = 0;
  setting.steps = 3;
  const Outcome one = run(setting);
  setting.shards = 4;
  const Outcome four = run(setting);
  for (std::size_t i = 0; i < one.values.size(); ++i) {
    EXPECT_NEAR(four.values[i], one.values[i], kTolerance * (1 + std::abs(one.values[i])));
  }
}

TEST(Dropout, DrawsDifferentMasksOnEveryShardAndStepAndRepeatsThem) {
  const auto losses = [](std::int64_t seed) {
    DataParallelOptions options = options_for(2, 0.0F);
    options.base_seed = seed;
    const Parameter w("w", {64}, Initializer::constant(1));
    const auto drop = nn::dropout(0.5);
    std::vector<float> values;
    data_parallel(
        options, tensor(std::vector<float>(2 * 64, 1.0F), {2, 64}), tensor(std::vector<float>(2, 0.0F), {2}),
        [&](const Tensor& x, const Tensor& y) {
          const Tensor kept = drop(x * w.tensor()) * tensor(some_numbers(64, 5), {64});
          return sum(kept) + sum(y);
        },
        [&](Trainer& trainer) {
          for (int i = 0; i < 3; ++i) {
            trainer.step();
            values.push_back(trainer.owner_loss_value());
            values.push_back(static_cast<float>(2 * trainer.loss_value()) - values.back());  // shard 1's
          }
        });
    return values;
  };
  const std::vector<float> first = losses(7);
  EXPECT_EQ(first, losses(7));
  EXPECT_NE(first, losses(8));
  EXPECT_NE(first[0], first[1]);  // shards differ
  EXPECT_NE(first[0], first[2]);  // steps differ
}

TEST(Bindings, AdvanceUnderTheTrainerLastOneFastest) {
  const Symbol outer{"outer", 0, 2, 1};
  const Symbol inner{"inner", 0, 3, 1};
  DataParallelOptions options = options_for(2, 1.0F);
  options.bindings = {outer, inner};
  const Tensor number = cast(symbol_value(outer) * 10 + symbol_value(inner), Type::kF32);
  const Parameter w("w", {}, Initializer::zeros());
  std::vector<double> seen;
  data_parallel(
      options, tensor<float>({1, 1}, {2}), tensor<float>({0, 0}, {2}),
      [&](const Tensor& x, const Tensor& y) { return mean(x * w.tensor()) * 0.0F + number + mean(y); },
      [&](Trainer& trainer) {
        for (int i = 0; i < 7; ++i) {
          trainer.step();
          seen.push_back(trainer.loss_value());
        }
      });
  EXPECT_EQ(seen, (std::vector<double>{0, 1, 2, 10, 11, 12, 0}));
}

TEST(MixedShards, OnTwoDevicesOfOneBackendTrainAsOne) {
  Setting setting;
  const Outcome one = run(setting);
  DataParallelOptions options = options_for(2, 0.05F);
  if (options.runtime->backend(backend_name())->device_count() < 2) {
    GTEST_SKIP() << backend_name() << " offers one device here";
  }
  setting.shards = 2;
  const Outcome two = run(setting);
  for (std::size_t i = 0; i < one.values.size(); ++i) {
    EXPECT_NEAR(two.values[i], one.values[i], kTolerance * (1 + std::abs(one.values[i])));
  }
}

TEST(MeanLoss, IsOfRowsOrOfShardsAsAskedWhateverTheGradientsReductionIs) {
  // Batches of 3 of 7 rows: the losses of their rows are 1 2 3, 4 5 6 and 7.
  const Parameter w("w", {}, Initializer::constant(1));
  for (const int shards : {2, 4}) {
    const double sum_of_shards = shards == 2 ? (4.5 + 10.5 + 7) / 3 : 28.0 / 3;
    for (const Reduction reduction : {Reduction::kMean, Reduction::kSum}) {
      DataParallelOptions options = options_for(shards, 0.0F);
      options.reduction = reduction;
      options.batch_size = 3;
      const Tensor x = tensor<float>({1, 2, 3, 4, 5, 6, 7}, {7});
      data_parallel(
          options, x, x, [&](const Tensor& a, const Tensor&) { return mean(a * w.tensor()); },
          [&](Trainer& trainer) {
            const double expected[] = {14.0 / 3, sum_of_shards};
            for (const Reduction shown : {Reduction::kMean, Reduction::kSum}) {
              trainer.run_epoch();
              EXPECT_DOUBLE_EQ(trainer.mean_loss(shown), expected[shown == Reduction::kSum]) << shards;
            }
            trainer.run_epoch();
            EXPECT_DOUBLE_EQ(trainer.mean_loss(), expected[reduction == Reduction::kSum]) << shards;
            EXPECT_THROW(trainer.mean_loss(), Error);
          });
    }
  }
}

TEST(Evaluation, SeesTheSymbolsOfTheLatestStep) {
  const Symbol phase{"phase", 5, 8, 1};
  const Symbol step{"step", 100, 200, 10};
  DataParallelOptions options = options_for(2, 0.0F);
  options.bindings = {phase, step};
  const Parameter w("w", {}, Initializer::constant(1));
  const Tensor x = tensor<float>({1, 1}, {2});
  Evaluation evaluation;
  data_parallel(
      options, x, x, [&](const Tensor& a, const Tensor&) { return mean(a * w.tensor()); },
      [&](Trainer& trainer) {
        evaluation = trainer.evaluation(x, x, [&](const Tensor&, const Tensor&) {
          return std::vector<Tensor>{cast(symbol_value(phase), Type::kF32),
                                     cast(symbol_value(step), Type::kF32)};
        });
        EXPECT_EQ(evaluation.run(), (std::vector<double>{5, 100}));  // of the first step, which is to come
        trainer.step();
        EXPECT_EQ(evaluation.run(), (std::vector<double>{5, 100}));
        trainer.step();
        trainer.step();
        EXPECT_EQ(evaluation.run(), (std::vector<double>{7, 120}));
      });
  EXPECT_EQ(evaluation.run(), (std::vector<double>{7, 120}));  // it holds all that it needs
}

TEST(Evaluation, AveragesOverAllRowsWhateverTheBatches) {
  DataParallelOptions options = options_for(3, 0.0F);
  const Parameter w("w", {}, Initializer::constant(2));
  std::vector<float> x(10);
  for (std::size_t i = 0; i < x.size(); ++i) {
    x[i] = static_cast<float>(i);
  }
  data_parallel(
      options, tensor(x, {10}), tensor(x, {10}),
      [&](const Tensor& a, const Tensor& b) { return mse(a * w.tensor(), b); },
      [&](Trainer& trainer) {
        auto evaluation = trainer.evaluation(
            tensor(x, {10}), tensor(x, {10}),
            [&](const Tensor& a, const Tensor& b) {
              return std::vector<Tensor>{mean(a * w.tensor()), mean(b)};
            },
            4);
        EXPECT_EQ(evaluation.run(), (std::vector<double>{9.0, 4.5}));
        EXPECT_EQ(evaluation.run(), (std::vector<double>{9.0, 4.5}));
      });
}

}  // namespace
}  // namespace yoke::testing
