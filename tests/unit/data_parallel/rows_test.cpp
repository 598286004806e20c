// SPDX-License-Identifier: Apache-2.0
// tests/unit/data_parallel/rows_test.cpp: shards whose numbers of rows change from step to step.
#include "rows.h"

#include <iterator>
#include <limits>
#include <map>

namespace yoke::testing::rows {
namespace {

using test::error_of;
using test::is_error;

// Also with shards without rows, one that has all, and numbers of rows that are several pieces.
std::vector<Weights> changes(std::int64_t shards) {
  std::vector<Weights> made;
  for (std::int64_t step = 0; step < 5; ++step) {
    Weights& weights = made.emplace_back();
    for (std::int64_t k = 0; k < shards; ++k) {
      weights.push_back((k * 3 + step * step + 1) % 4);
    }
    weights[static_cast<std::size_t>(step % shards)] += 1;
  }
  Weights& alone = made.emplace_back(static_cast<std::size_t>(shards), 0);
  alone.back() = 1;
  return made;
}

TEST(VaryingRows, GiveTheBitsOfFixedRowsIfTheyDoNotChange) {
  const std::vector<std::int64_t> counts = kTriesAll ? Counts{2, 3, 4, 9, 14} : Counts{3, 9};
  for (const std::int64_t shards : counts) {  // with 9 and 14, some shards have no rows
    Setting setting;
    setting.shards = shards;
    setting.dropout = 0.1;
    const Outcome fixed = run(setting);
    setting.varying = true;
    for (const bool fed : {false, true}) {
      setting.fed = fed;
      const Outcome varying = run(setting);
      expect_equal(varying, fixed, setting);
      EXPECT_NEAR(varying.mean_loss, fixed.mean_loss, 1e-12)
          << text_of(setting);  // another order of f64 sums
      EXPECT_EQ(varying.rows, fixed.rows) << text_of(setting);
      setting.weights = {Weights(static_cast<std::size_t>(shards), 7)};
      expect_equal(run(setting), fixed, setting);
      setting.weights.clear();
    }
  }
}

TEST(VaryingRows, MatchOneShardAndCompileNothing) {
  for (const Reduction reduction : {Reduction::kMean, Reduction::kSum}) {
    Setting setting;
    setting.reduction = reduction;
    const Outcome one = run(setting);
    setting.varying = true;
    for (const std::int64_t shards : {1, 2, 3, 4}) {
      if (!kTriesAll && (shards == 3) != (reduction == Reduction::kMean)) {
        continue;
      }
      setting.shards = shards;
      setting.weights = changes(shards);
      for (const bool fed : {false, true}) {
        setting.fed = fed;
        for (const std::int64_t accumulate : {1, 3}) {
          setting.accumulate = accumulate;
          const Outcome varying = run(setting);
          expect_near(varying, one, setting);
          EXPECT_EQ(varying.compiled, 0U) << text_of(setting);
        }
      }
    }
  }
}

TEST(VaryingRows, MicroBatchesWithoutRowsAddNothing) {
  Setting setting;
  const Outcome one = run(setting);
  setting.varying = true;
  setting.shards = 2;
  setting.accumulate = 2;
  setting.weights = {{1, 1}, {0, 1}};
  expect_near(run(setting), one, setting);
}

TEST(VaryingRows, WorkWithEveryStrategyAndPlacement) {
  Setting setting;
  const Outcome one = run(setting);
  setting.varying = true;
  setting.shards = 3;
  setting.weights = changes(3);
  std::map<MergeStrategy, std::vector<float>> values;
  for (const auto& [merge, placement] : strategies_and_placements()) {
    setting.merge = merge;
    setting.placement = placement;
    const Outcome got = run(setting);
    expect_near(got, one, setting);
    EXPECT_EQ(values.emplace(merge, got.values).first->second, got.values) << text_of(setting);
  }
}

TEST(VaryingRows, GiveTheSameBitsAgainInPartsWithOverlapAndWithDelays) {
  for (const bool fed : {false, true}) {
    Setting setting;
    setting.fed = fed;
    setting.varying = true;
    setting.shards = 3;
    setting.weights = changes(3);
    setting.dropout = 0.2;
    const Outcome first = run(setting);
    EXPECT_NE(first.rows[0], first.rows[1]);
    Setting other = setting;
    other.in_parts = true;
    expect_equal(run(other), first, other);
    other = setting;
    other.overlap = Overlap::kOn;
    expect_equal(run(other), first, other);
    other.delay_us = 300;
    expect_equal(run(other), first, other);
  }
}

// One weight, trained by hand on data of any size in batches of 4 rows: mean of (w * x - y)^2.
TEST(VaryingRows, OfSetBatchMatchTrainingByHand) {
  // Of the original data, 10 rows, or of a maximum that is larger.
  for (const std::int64_t max_rows : {0, 23}) {
    const std::vector<std::uint64_t> sizes =
        max_rows == 0 ? std::vector<std::uint64_t>{7, 1, 10, 3, 9, 4} : std::vector<std::uint64_t>{23, 5, 18};
    for (std::int64_t setting = 0; setting < 6; ++setting) {
      const std::int64_t shards = std::int64_t{1} << setting / 2;
      const std::int64_t reproducible = setting % 2 * 8;
      DataParallelOptions options = options_for(shards, 0.05F);
      options.batch_size = 4;
      options.varying_rows = true;
      options.reproducible = reproducible;
      options.max_rows = max_rows;
      const Parameter weight("w", {}, Initializer::constant(0.5));
      const auto numbers = [](std::uint64_t size, std::uint32_t seed) {
        return tensor(some_numbers(size, seed), {size});
      };
      const auto body = [&](Trainer& trainer) {
        const std::uint64_t compiled = compile_count(*options.runtime);
        double w = 0.5;
        trainer.step();  // the next data begins with its first batch
        w = trainer.read_values("w")[0];
        for (const std::uint64_t size : sizes) {
          trainer.set_batch(numbers(size, 5), numbers(size, 6));
          ASSERT_EQ(trainer.steps_per_epoch(), static_cast<std::int64_t>((size + 3) / 4));
          const std::vector<float> x = some_numbers(size, 5);
          const std::vector<float> y = some_numbers(size, 6);
          for (std::uint64_t step = 0; step < (size + 3) / 4 + 1; ++step) {  // one of the second epoch, too
            const std::uint64_t begin = 4 * step < size ? 4 * step : 0;
            const std::uint64_t end = std::min(size, begin + 4);
            double loss = 0;
            double slope = 0;
            for (std::uint64_t i = begin; i < end; ++i) {
              const double error = w * static_cast<double>(x[i]) - static_cast<double>(y[i]);
              loss += error * error / static_cast<double>(end - begin);
              slope += 2 * error * static_cast<double>(x[i]) / static_cast<double>(end - begin);
            }
            trainer.step();
            w -= 0.05 * slope;
            EXPECT_NEAR(trainer.loss_value(), loss, 1e-5) << shards << " shards, " << size << " rows";
          }
          EXPECT_NEAR(trainer.read_values("w")[0], w, 1e-5) << shards << " shards, " << size << " rows";
        }
        EXPECT_EQ(compile_count(*options.runtime), compiled);
        const std::uint64_t most = max_rows == 0 ? 10 : 23;
        EXPECT_THAT(error_of([&] { trainer.set_batch(numbers(most + 1, 5), numbers(most + 1, 6)); }),
                    is_error(ErrorCode::kInvalidArgument, "inputs has " + std::to_string(most + 1) + " rows",
                             "1 to " + std::to_string(most)));
        EXPECT_THAT(error_of([&] { trainer.set_batch(numbers(9, 5), numbers(8, 6)); }),
                    is_error(ErrorCode::kInvalidArgument, "inputs has 9 rows, targets has 8 rows"));
        EXPECT_EQ(trainer.steps_per_epoch(), static_cast<std::int64_t>((sizes.back() + 3) / 4));
      };
      data_parallel(
          options, numbers(10, 1), numbers(10, 2),
          [&](const Tensor& a, const Tensor& b) { return mse(a * weight.tensor(), b); }, body);
    }
  }
}

TEST(VaryingRows, AMaximumOfRowsIsChecked) {
  const auto refused = [](std::int64_t max_rows, bool varying) {
    DataParallelOptions options = options_for(1, 0.05F);
    options.max_rows = max_rows;
    options.varying_rows = varying;
    const Parameter weight("w", {}, Initializer::constant(0.5));
    const Tensor data = tensor<float>({1, 2}, {2});
    return error_of([&] {
      data_parallel(
          options, data, data, [&](const Tensor& a, const Tensor& b) { return mse(a * weight.tensor(), b); },
          [](Trainer&) {});
    });
  };
  EXPECT_THAT(refused(-1, true), is_error(ErrorCode::kInvalidArgument, "max_rows is -1; choose at least 1"));
  EXPECT_THAT(refused(5, false), is_error(ErrorCode::kInvalidArgument, "set varying_rows, too"));
  Setting fed{.varying = true, .fed = true};
  DataParallelOptions options = options_of(fed);
  options.max_rows = 5;
  EXPECT_THAT(error_of([&] { run(fed, options); }),
              is_error(ErrorCode::kInvalidArgument, "a feed's batches have at most batch_size rows"));
}

// 5 rows in batches of 3, so the second batch of an epoch usually has 2.
TEST(VaryingRows, OfAFeedAreUpToTheBatchSizeInEveryStep) {
  DataParallelOptions options = options_for(2, 0);
  options.batch_size = 3;
  options.varying_rows = true;
  const Parameter weight("w", {}, Initializer::constant(1));
  const auto next = [](std::int64_t number) {
    const Tensor rows = tensor<float>({1, 2, 3}, {3});
    return Batch{{"x", number < 3 ? rows : Tensor()}};
  };
  const Feed feed({{"x", {YOKE_TYPE_F32, {5}}}}, next);
  const auto loss_of = [&](const Batch& batch) { return mean(batch["x"] * weight.tensor()); };
  data_parallel(options, feed, loss_of, [](Trainer& trainer) {
    for (int step = 0; step < 3; ++step) {
      trainer.step();
      EXPECT_FLOAT_EQ(static_cast<float>(trainer.loss_value()), 2.0F);
    }
    EXPECT_THAT(
        error_of([&] { trainer.step(); }),
        is_error(ErrorCode::kInvalidArgument, "an empty Tensor as x; it must be host data of shape [3]"));
  });
}

// One weight, trained by hand on batches of any size: mean of (w * x - y)^2.
TEST(VaryingRows, OfAFeedMatchTrainingByHand) {
  constexpr std::uint64_t kSizes[] = {7, 1, 10, 3, 9, 2, 10, 5};
  const std::vector<float> x = some_numbers(10 * std::size(kSizes), 3);
  const std::vector<float> y = some_numbers(10 * std::size(kSizes), 4);
  double w = 0.5;
  double sum_of_losses = 0;
  std::vector<double> losses;
  for (std::size_t step = 0; step < std::size(kSizes); ++step) {
    double loss = 0;
    double slope = 0;
    for (std::size_t i = 10 * step; i < 10 * step + kSizes[step]; ++i) {
      const double error = w * x[i] - y[i];
      loss += error * error / static_cast<double>(kSizes[step]);
      slope += 2 * error * x[i] / static_cast<double>(kSizes[step]);
    }
    losses.push_back(loss);
    sum_of_losses += loss;
    w -= 0.05 * slope;
  }
  const auto next = [&](std::int64_t number) {
    const auto step = static_cast<std::size_t>(number);
    const auto of = [&](const std::vector<float>& all) {
      const auto begin = all.begin() + static_cast<std::ptrdiff_t>(10 * step);
      return tensor(
          std::vector<float>(begin, begin + static_cast<std::ptrdiff_t>(kSizes[step % std::size(kSizes)])),
          {kSizes[step % std::size(kSizes)]});
    };
    return number < 8 ? Batch{of(x), of(y)} : Batch{};
  };
  for (const std::int64_t shards : {1, 2, 4}) {
    for (const std::int64_t reproducible : {0, 8}) {
      DataParallelOptions options = options_for(shards, 0.05F);
      options.batch_size = 10;
      options.varying_rows = true;
      options.reproducible = reproducible;
      const Parameter weight("w", {}, Initializer::constant(0.5));
      const std::uint64_t total = 10 * std::size(kSizes);
      data_parallel(
          options, {{YOKE_TYPE_F32, {total}}, {YOKE_TYPE_F32, {total}}, next},
          [&](const Tensor& a, const Tensor& b) { return mse(a * weight.tensor(), b); },
          [&](Trainer& trainer) {
            for (std::size_t i = 0; i < std::size(kSizes); ++i) {
              trainer.step();
              EXPECT_NEAR(trainer.loss_value(), losses[i], 1e-5) << shards << " shards, step " << i;
            }
            EXPECT_NEAR(trainer.read_values("w")[0], w, 1e-5) << shards << " shards";
            EXPECT_NEAR(trainer.mean_loss(), sum_of_losses / 8, 1e-5) << shards << " shards";
          });
    }
  }
}

TEST(VaryingRows, GiveTheBitsOfAnyNumberOfShardsIfReproducible) {
  Setting setting;
  setting.varying = true;
  setting.reproducible = 4;
  setting.shards = 4;
  const Outcome four = run(setting);
  for (const std::int64_t shards : {1, 2}) {
    setting.shards = shards;
    setting.fed = !setting.fed;
    expect_equal(run(setting), four, setting);
  }
}

TEST(VaryingRows, DrawOtherNumbersInEachPiece) {
  const auto loss_of_two_pieces = [](const Weights& weights) {
    DataParallelOptions options = options_for(2, 0.0F);
    options.varying_rows = true;
    const Parameter w("w", {}, Initializer::constant(1));
    const auto drop = nn::dropout(0.5);
    double loss = 0;
    data_parallel(
        options, tensor(std::vector<float>(8 * 32, 1.0F), {8, 32}), tensor(std::vector<float>(8, 0.0F), {8}),
        [&](const Tensor& x, const Tensor& y) {
          return mean(drop(x * w.tensor()) * tensor(some_numbers(32, 5), {32})) + mean(y);
        },
        [&](Trainer& trainer) {
          trainer.set_row_weights(weights);
          trainer.step();
          loss = weights[1] == 0 ? trainer.loss_value() : trainer.owner_loss_value();
        });
    return loss;
  };
  EXPECT_GT(std::abs(loss_of_two_pieces({1, 0}) - loss_of_two_pieces({1, 1})), 1e-6);
}

TEST(VaryingRows, ReportTheFirstStepWithABadLoss) {
  std::vector<float> x(kRows, 1.0F);
  x[2 * kBatch + 11] = std::numeric_limits<float>::quiet_NaN();
  for (const Weights& weights : {Weights{1, 1}, Weights{0, 1}, Weights{5, 1}}) {
    DataParallelOptions options = options_for(2, 0.0F);
    options.varying_rows = true;
    options.batch_size = kBatch;
    const Parameter w("w", {}, Initializer::constant(1));
    data_parallel(
        options, tensor(x, {kRows}), tensor(x, {kRows}),
        [&](const Tensor& a, const Tensor& b) { return mse(a * w.tensor(), b * 0.5F); },
        [&](Trainer& trainer) {
          trainer.set_row_weights(weights);
          trainer.step();
          trainer.step();
          EXPECT_EQ(trainer.first_bad_step(), std::nullopt);
          trainer.run_epoch();
          EXPECT_EQ(trainer.first_bad_step(), 2);
        });
  }
}

// Thirteen rows in batches of 4: with its last row, the second shard gets none.
TEST(VaryingRows, ReportABadStepOfAShardWithoutRowsInTheLastBatch) {
  DataParallelOptions options = options_for(2, 0.0F);
  options.varying_rows = true;
  options.batch_size = 4;
  const Parameter w("w", {}, Initializer::constant(1));
  std::vector<float> x(13, 1.0F);
  data_parallel(
      options, tensor(x, {13}), tensor(x, {13}),
      [&](const Tensor& a, const Tensor&) { return mean(a * w.tensor()); },
      [&](Trainer& trainer) {
        trainer.run_epoch();
        x[11] = std::numeric_limits<float>::infinity();
        trainer.set_batch(tensor(x, {13}), tensor(x, {13}));
        trainer.run_epoch();
        EXPECT_EQ(trainer.first_bad_step(), 4 + 2);
      });
}

TEST(VaryingRows, LossesAndMetricsOfEarlierStepsDoNotCount) {
  DataParallelOptions options = options_for(2, 0.0F);
  options.varying_rows = true;
  options.batch_size = 2;
  const Parameter w("w", {}, Initializer::constant(1));
  data_parallel(
      options, {{"x", tensor<float>({1, HUGE_VALF, 2, 3}, {4})}},
      [&](const Batch& batch) {
        return Loss(w.tensor() + mean(batch["x"]), {{"m", mean(batch["x"])}});
      },
      [&](Trainer& trainer) {
        trainer.step();
        EXPECT_EQ(trainer.loss_value(), HUGE_VAL);
        EXPECT_EQ(trainer.owner_loss_value(), 2);
        trainer.set_row_weights(Weights{1, 0});
        trainer.step();
        EXPECT_EQ(trainer.loss_value(), 3.5);
        EXPECT_EQ(trainer.metric_value("m"), 2.5);
      });
}

TEST(VaryingRows, OwnerMayHaveNoRows) {
  Setting setting;
  DataParallelOptions options = options_of(setting);
  options.shards = 2;
  options.varying_rows = true;
  const Parameter w("w", {}, Initializer::constant(1));
  const Tensor x = tensor(std::vector<float>(12, 2.0F), {12});
  data_parallel(
      options, x, x, [&](const Tensor& a, const Tensor&) { return mean(a * w.tensor()); },
      [&](Trainer& trainer) {
        trainer.set_row_weights(Weights{0, 3});
        trainer.step();
        EXPECT_DOUBLE_EQ(trainer.loss_value(), 2);
        EXPECT_THAT(error_of([&] { trainer.owner_loss_value(); }),
                    is_error(ErrorCode::kFailedPrecondition, "shard 0 had no rows", "use loss_value()"));
      });
}

}  // namespace
}  // namespace yoke::testing::rows
