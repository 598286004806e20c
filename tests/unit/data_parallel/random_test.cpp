// SPDX-License-Identifier: Apache-2.0
// tests/unit/data_parallel/random_test.cpp: random numbers of shards: seeds, dropout, augmentation.
#include <gtest/gtest.h>

#include <cmath>
#include <functional>

#include "common.h"

namespace yoke::testing {
namespace {

TEST(ShardSeeds, AreTheBaseSeedPlusTheShardNumber) {
  const auto owner_loss = [](std::int64_t seed) {
    DataParallelOptions options = options_for(2, 0.0F);
    options.base_seed = seed;
    float loss = 0;
    const auto model = nn::linear(1);
    data_parallel(
        options, tensor<float>({1, 2, 3, 4}, {4, 1}), tensor<float>({2, 4, 6, 8}, {4, 1}),
        [&](const Tensor& x, const Tensor& y) { return mse(model(x), y); },
        [&](Trainer& trainer) {
          EXPECT_EQ(trainer.shard_seeds(), (std::vector<std::int64_t>{seed, seed + 1}));
          trainer.step();
          loss = trainer.owner_loss_value();
        });
    EXPECT_TRUE(nn::parameters(model)[0].has_values());  // data_parallel copies the parameters into the model
    return loss;
  };
  EXPECT_NE(owner_loss(0), owner_loss(1000));
  EXPECT_EQ(owner_loss(100), owner_loss(100));
}

TEST(Dropout, MasksDifferByShardStepAndSeed) {
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
            values.push_back(static_cast<float>(2 * trainer.loss_value()) - values.back());  // of shard 1
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

// A row's flips and moves do not depend on the shard that has it: with 1, 2 or 3 shards, micro-batches or pieces.
TEST(Augmentation, IsTheSameForEveryNumberOfShards) {
  constexpr std::uint64_t kCount = 20;  // two batches of 8, and one of 4
  const Tensor images = tensor(some_numbers(kCount * 36, 3), {kCount, 6, 6, 1});
  const Tensor targets = tensor(some_numbers(kCount, 4), {kCount});
  const auto run = [&](std::int64_t shards, const std::function<void(DataParallelOptions&)>& change) {
    const auto model = nn::linear(1);
    DataParallelOptions options = options_for(shards, 0.05F);
    options.batch_size = 8;
    options.base_seed = 5;
    change(options);
    std::vector<double> losses;
    data_parallel(
        options, images, targets,
        [&](const Tensor& x, const Tensor& y) {
          return mse(squeeze(model(flatten(random_crop(random_flip(x), 2))), 1), y);
        },
        [&](Trainer& trainer) {
          for (int i = 0; i < 7; ++i) {
            trainer.step();
            losses.push_back(trainer.loss_value());
          }
        });
    return losses;
  };
  const auto same = [](DataParallelOptions&) {};
  const std::vector<double> one = run(1, same);
  const auto expect_one = [&](const std::vector<double>& got, const char* what) {
    for (std::size_t i = 0; i < one.size(); ++i) {
      EXPECT_NEAR(got[i], one[i], 1e-5 * (1 + one[i]))
          << what << ", step " << i;  // sums of up to 36 f32 terms
    }
  };
  expect_one(run(2, same), "2 shards");
  expect_one(run(3, same), "3 shards");
  expect_one(run(2, [](DataParallelOptions& options) { options.accumulate = 2; }), "micro-batches");
  expect_one(run(2, [](DataParallelOptions& options) { options.reproducible = 4; }), "reproducible");
  expect_one(run(3, [](DataParallelOptions& options) { options.varying_rows = true; }), "pieces");
  const std::vector<double> other = run(1, [](DataParallelOptions& options) { options.base_seed = 6; });
  EXPECT_GT(std::abs(other[0] - one[0]), 1e-3);
}

}  // namespace
}  // namespace yoke::testing
