// SPDX-License-Identifier: Apache-2.0
// tests/unit/data_parallel/synchronized_test.cpp: losses that are reduced over the shards while they are computed, as
// by synchronized batch norm.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <yoke/all_reduce.h>
#include <yoke/composite.h>
#include <yoke/models.h>

#include "common.h"
#include "error_of.h"

namespace yoke::testing {
namespace {

constexpr std::uint64_t kRows = 22;

Tensor features() {
  std::vector<float> values = some_numbers(kRows * 5, 3);
  for (float& value : values) {
    value = value * 2 + 30;  // the mean is large compared with the differences
  }
  return tensor(values, {kRows, 5});
}

struct Trained {
  std::vector<double> losses;
  std::vector<float> values;
};

// Two epochs; the last batch has fewer rows.
Trained train(const DataParallelOptions& options, bool synchronized, bool by_hand = false) {
  const nn::BatchNormOptions norm{.synchronized = synchronized};
  const nn::Module model =
      nn::sequential(nn::batch_norm(norm), nn::linear(6), nn::batch_norm(norm), nn::tanh(), nn::linear(1));
  Trained trained;
  const auto loss_of = [&](const Tensor& x, const Tensor& y) { return mse(model(x), y); };
  data_parallel(options, features(), tensor(some_numbers(kRows, 9), {kRows, 1}), loss_of,
                [&](Trainer& trainer) {
                  EXPECT_FALSE(trainer.overlaps());
                  for (std::int64_t i = 0; i < 2 * trainer.steps_per_epoch(); ++i) {
                    if (by_hand) {
                      trainer.launch_gradients();
                      trainer.grad_sync();
                      trainer.update();
                      trainer.advance();
                    } else {
                      trainer.step();
                    }
                    trained.losses.push_back(trainer.loss_value());
                  }
                  trained.values = all_values(trainer);  // with the running statistics
                });
  return trained;
}

DataParallelOptions options_of(std::int64_t shards) {
  DataParallelOptions options = options_for(shards, 0.05F);
  options.batch_size = 8;
  options.optimizer = Sgd{.momentum = 0.9};
  return options;
}

template <class T>
void expect_near(const std::vector<T>& found, const std::vector<T>& expected, double tolerance) {
  ASSERT_EQ(found.size(), expected.size());
  for (std::size_t i = 0; i < found.size(); ++i) {
    EXPECT_NEAR(found[i], expected[i], tolerance * (1 + std::abs(static_cast<double>(expected[i])))) << i;
  }
}

void expect_same(const Trained& found, const Trained& expected) {
  expect_near(found.losses, expected.losses, 2e-5);
  expect_near(found.values, expected.values, 1e-4);
}

TEST(SynchronizedNorm, TrainingDoesNotDependOnTheNumberOfShards) {
  const Trained alone = train(options_of(1), false);
  EXPECT_LT(alone.losses.back(), alone.losses.front());
  expect_same(train(options_of(1), true), alone);
  // With 8, each shard has one row, and two have none at the end.
  for (const std::int64_t shards : kTriesAll ? Counts{2, 3, 4, 8} : Counts{8}) {
    SCOPED_TRACE(shards);
    expect_same(train(options_of(shards), true), alone);
  }
  // Without it, the statistics are those of three rows, so this test can fail.
  EXPECT_GT(std::abs(train(options_of(3), false).losses.back() - alone.losses.back()), 1e-3);
}

TEST(SynchronizedNorm, DoesNotOverlap) {
  DataParallelOptions options = options_of(2);
  options.overlap = Overlap::kOn;
  (void)train(options, true);  // which asks overlaps()
}

TEST(SynchronizedNorm, WorksWithEveryStrategyPlacementAndOverlap) {
  const Trained alone = train(options_of(1), false);
  for (const auto& [merge, placement] : strategies_and_placements()) {
    SCOPED_TRACE(std::string(merge_strategy_name(merge)) + " " + placement_name(placement));
    DataParallelOptions options = options_of(3);
    options.merge = merge;
    options.placement = placement;
    options.overlap = Overlap::kOn;
    const Trained found = train(options, true);
    expect_same(found, alone);
    EXPECT_EQ(found.values, train(options, true).values);
  }
}

TEST(SynchronizedNorm, WorksInHandWrittenLoopsAndWithOtherOptions) {
  const Trained alone = train(options_of(1), false);
  expect_same(train(options_of(3), true, true), alone);
  DataParallelOptions options = options_of(3);
  options.row_weights = {3, 1, 2};
  expect_same(train(options, true), alone);
  options = options_of(3);
  options.on_device_lost = OnDeviceLost::kRedistribute;
  expect_same(train(options, true), alone);
  options = options_of(2);
  options.check_replicas_every = 1;
  expect_same(train(options, true), alone);
}

TEST(SynchronizedNorm, FeedGivesTheSameResults) {
  const Trained alone = train(options_of(1), false);
  const Tensor x = features();
  const Tensor y = tensor(some_numbers(kRows, 9), {kRows, 1});
  const nn::BatchNormOptions norm{.synchronized = true};
  const nn::Module model =
      nn::sequential(nn::batch_norm(norm), nn::linear(6), nn::batch_norm(norm), nn::tanh(), nn::linear(1));
  const auto rows = [](const Tensor& all, std::uint64_t begin, std::uint64_t count) {
    const std::uint64_t bytes = all.host_bytes().size() / kRows;
    const auto part = all.host_bytes().subspan(begin * bytes, count * bytes);
    Dims dims = all.dims();
    dims[0] = count;
    return literal(Type::kF32, dims, {part.begin(), part.end()});
  };
  Feed feed;
  feed.fields = {{"inputs", {YOKE_TYPE_F32, {kRows, 5}}}, {"targets", {YOKE_TYPE_F32, {kRows, 1}}}};
  feed.next = [&](std::int64_t number) {
    const auto begin = static_cast<std::uint64_t>(number % 3) * 8;
    const std::uint64_t count = std::min<std::uint64_t>(8, kRows - begin);
    return Batch{{"inputs", rows(x, begin, count)}, {"targets", rows(y, begin, count)}};
  };
  Trained found;
  data_parallel(
      options_of(3), feed, [&](const Tensor& a, const Tensor& b) { return mse(model(a), b); },
      [&](Trainer& trainer) {
        for (int i = 0; i < 6; ++i) {
          trainer.step();
          found.losses.push_back(trainer.loss_value());
        }
        found.values = all_values(trainer);
      });
  expect_same(found, alone);
}

// The reduced tensors here are arguments of the gradient program: the loss, and the gradient of w. Every shard's loss
// is the sum over all shards, so the gradients are those of all shards' losses.
TEST(SynchronizedNorm, ResultsCanBeReduced) {
  for (const std::int64_t shards : {1, 2}) {
    const Parameter w("w", {}, Initializer::constant(2));
    const Tensor data = tensor<float>({1, 2, 3, 4}, {4});
    const auto loss_of = [&](const Tensor& x, const Tensor&) {
      return all_reduce(sum(all_reduce(w.tensor(), Reduction::kSum) * x), Reduction::kSum);
    };
    DataParallelOptions options = options_for(shards, 0.25F);
    options.reduction = Reduction::kSum;
    data_parallel(options, data, data, loss_of, [&](Trainer& trainer) {
      trainer.step();
      const auto n = static_cast<double>(shards);
      EXPECT_EQ(trainer.owner_loss_value(), 2 * n * 10);
      EXPECT_EQ(trainer.read_values("w"), (std::vector<float>{static_cast<float>(2 - 0.25 * n * n * 10)}));
    });
  }
}

TEST(SynchronizedNorm, SumsF64InF64AndSixteenBitsInF32) {
  for (const Type type : {Type::kF64, Type::kBF16}) {
    SCOPED_TRACE(program::type_name(type));
    std::vector<std::vector<double>> losses;
    for (const std::int64_t shards : {1, 3}) {
      const nn::Module norm = nn::named("norm", nn::batch_norm({.synchronized = true, .type = type}));
      const nn::Module linear = nn::linear(1);
      const auto loss_of = [&](const Tensor& x, const Tensor& y) {
        return mse(linear(cast(norm(cast(x, type)), Type::kF32)), y);
      };
      auto& found = losses.emplace_back();
      data_parallel(options_of(shards), features(), tensor(some_numbers(kRows, 9), {kRows, 1}), loss_of,
                    [&](Trainer& trainer) {
                      for (int i = 0; i < 4; ++i) {
                        trainer.step();
                        found.push_back(trainer.loss_value());
                      }
                    });
    }
    expect_near(losses[1], losses[0], type == Type::kF64 ? 1e-5 : 2e-2);
  }
}

// One row in the last batch: its channels have no variance.
TEST(SynchronizedNorm, SingleValueKeepsTheRunningStatistics) {
  const nn::Module norm = nn::named("norm", nn::batch_norm({.synchronized = true}));
  const nn::Module linear = nn::linear(1);
  DataParallelOptions options = options_of(2);
  options.batch_size = 21;
  data_parallel(
      options, features(), tensor(some_numbers(kRows, 9), {kRows, 1}),
      [&](const Tensor& x, const Tensor& y) { return mse(linear(norm(x)), y); },
      [&](Trainer& trainer) {
        trainer.step();
        const std::vector<float> before = trainer.read_values("norm.running_var");
        trainer.step();
        EXPECT_EQ(trainer.read_values("norm.running_var"), before);
      });
}

TEST(SynchronizedNorm, UnsupportedReductionsAreErrors) {
  const auto fails = [](DataParallelOptions options, const std::function<Tensor(const Tensor&)>& model) {
    return test::error_of([&] {
      data_parallel(
          options, features(), tensor(some_numbers(kRows, 9), {kRows, 1}),
          [&](const Tensor& x, const Tensor& y) { return mse(model(x), y); }, [](Trainer&) {});
    });
  };
  const nn::Module linear = nn::linear(1);
  const auto synchronized = [&](const Tensor& x) {
    return linear(x - all_reduce(mean(x, {0}), Reduction::kSum) / 2.0);
  };
  DataParallelOptions options = options_of(2);
  options.accumulate = 2;
  EXPECT_THAT(fails(options, synchronized).what(),
              ::testing::HasSubstr("cannot be combined with accumulate"));
  options = options_of(2);
  options.varying_rows = true;
  EXPECT_THAT(fails(options, synchronized).what(), ::testing::HasSubstr("varying_rows"));
  const Error mean_of_shards = fails(
      options_of(2), [&](const Tensor& x) { return linear(x - all_reduce(mean(x, {0}), Reduction::kMean)); });
  EXPECT_EQ(mean_of_shards.code(), ErrorCode::kInvalidArgument);
  EXPECT_THAT(mean_of_shards.what(), ::testing::HasSubstr("use Reduction::kSum"));
  // A full batch has 3, 3 and 2 rows, the last one 2, 2 and 2.
  for (const std::uint64_t reduced_rows : {2U, 3U}) {
    const Error differs = fails(options_of(3), [&](const Tensor& x) {
      return x.dims()[0] != reduced_rows ? linear(x)
                                         : linear(x - all_reduce(mean(x, {0}), Reduction::kSum) / 3.0);
    });
    EXPECT_THAT(differs.what(), ::testing::HasSubstr("losses with different all_reduces"));
  }
  EXPECT_THAT(test::error_of([&] {
                const CompositeOptions shifted{
                    "shifted", [](const std::vector<Tensor>& in) {
                      return std::vector<Tensor>{in[0] - all_reduce(in[0], Reduction::kSum)};
                    }};
                (void)composite(shifted, {features()});
              }).what(),
              ::testing::HasSubstr("cannot be used in a composite operation"));
  data_parallel(
      options_of(2), features(), tensor(some_numbers(kRows, 9), {kRows, 1}),
      [&](const Tensor& x, const Tensor& y) { return mse(linear(x), y); },
      [&](Trainer& trainer) {
        const auto metrics = [&](const Tensor& x, const Tensor&) {
          return std::vector<Tensor>{all_reduce(mean(linear(x)), Reduction::kSum)};
        };
        EXPECT_THAT(test::error_of([&] { (void)trainer.evaluation(features(), features(), metrics); }).what(),
                    ::testing::HasSubstr("evaluation: the metrics use all_reduce"));
      });
}

}  // namespace
}  // namespace yoke::testing
