// SPDX-License-Identifier: Apache-2.0
// tests/unit/data_parallel/equality_test.cpp: N shards train like one shard, with any strategy and timing.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <tuple>

#include "../../support/rounds.h"
#include "common.h"
#include "error_of.h"

namespace yoke::testing {
namespace {

constexpr std::uint64_t kRows = 44;  // three batches of 12, and one of 8

struct Outcome {
  std::vector<double> losses;
  std::vector<float> values;
};

struct Setting {
  std::int64_t shards = 1;
  MergeStrategy merge = MergeStrategy::kAuto;
  Placement placement = Placement::kAuto;
  std::uint64_t bucket_byte_count = 4U << 20U;
  MergeUse use = MergeUse::kStreaming;
  Overlap overlap = Overlap::kOff;
  Reduction reduction = Reduction::kMean;
  std::uint32_t delay_us = 0;
  std::uint64_t delay_seed = 0;
  int steps = 9;
  Optimizer optimizer = Sgd{0.9, 1e-3, true};
  std::int64_t batch = 12;
  int parts_every = 0;  // 2: every second step calls launch_gradients, grad_sync, update and advance; 0: none
};

Outcome run(const Setting& setting) {
  RuntimeOptions delayed;
  delayed.injected_delay_us = setting.delay_us;
  delayed.injected_delay_seed = setting.delay_seed;
  DataParallelOptions options = options_for(setting.shards, 0.05F);
  options.runtime = test_runtime(delayed);
  options.merge = setting.merge;
  options.placement = setting.placement;
  options.bucket_byte_count = setting.bucket_byte_count;
  options.merge_use = setting.use;
  options.overlap = setting.overlap;
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
          if (setting.parts_every != 0 && i % setting.parts_every == 0) {
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

// 9 steps with sums of at most 64 f32 terms: 64 * 9 * 2^-24, relative to values around 1.
constexpr double kTolerance = 64 * 9 * 6e-8;

template <class Number>
void expect_near(const std::vector<Number>& got, const std::vector<Number>& expected,
                 double tolerance = kTolerance) {
  ASSERT_EQ(got.size(), expected.size());
  for (std::size_t i = 0; i < expected.size(); ++i) {
    EXPECT_NEAR(got[i], expected[i], tolerance * (1 + std::abs(expected[i]))) << "element " << i;
  }
}

class Shards : public ::testing::TestWithParam<std::tuple<std::int64_t, MergeStrategy, MergeUse, Reduction>> {
};

TEST_P(Shards, MatchOneShard) {
  Setting setting;
  setting.reduction = std::get<3>(GetParam());
  // With kSum, the loss is a sum over 12 rows.
  const double scale = setting.reduction == Reduction::kSum ? 12 : 1;
  const Outcome one = run(setting);
  setting.shards = std::get<0>(GetParam());
  setting.merge = std::get<1>(GetParam());
  setting.use = std::get<2>(GetParam());
  const Outcome many = run(setting);
  expect_near(many.losses, one.losses, kTolerance * scale);
  expect_near(many.values, one.values, kTolerance * scale);
}

INSTANTIATE_TEST_SUITE_P(Strategies, Shards,
                         // With 9, a shard has no rows in the last batch.
                         ::testing::Combine(::testing::ValuesIn(kTriesAll ? Counts{2, 3, 4, 9} : Counts{9}),
                                            ::testing::ValuesIn(kStrategies),
                                            ::testing::Values(MergeUse::kCopy, MergeUse::kStreaming),
                                            ::testing::Values(Reduction::kMean, Reduction::kSum)));

// Optimizers that scale by the gradient's size take large steps where a gradient is almost 0, so rounding counts more.
TEST(Optimizers, MatchOneShardOnEveryPlacement) {
  for (const char* name : {"adam", "adamw", "rmsprop", "adagrad"}) {
    Setting setting;
    setting.optimizer = optimizer_by_name(name);
    const Outcome one = run(setting);
    setting.shards = 3;
    std::vector<std::vector<float>> bits;
    for (const Placement placement : {Placement::kOwner, Placement::kEverywhere, Placement::kSharded}) {
      setting.merge = MergeStrategy::kRing;
      setting.placement = placement;
      const Outcome many = run(setting);
      expect_near(many.values, one.values, 100 * kTolerance);
      bits.push_back(many.values);
    }
    EXPECT_EQ(bits[0], bits[1]) << name;
    EXPECT_EQ(bits[0], bits[2]) << name;
  }
}

TEST(OwnerAndDirect, GiveEqualBits) {
  Setting setting;
  setting.shards = 4;
  setting.merge = MergeStrategy::kOwner;
  const Outcome owner = run(setting);
  setting.merge = MergeStrategy::kDirect;
  const Outcome direct = run(setting);
  EXPECT_EQ(owner.values, direct.values);
}

std::string text_of(const Setting& setting) {
  return std::to_string(setting.shards) + " shards, merge " + merge_strategy_name(setting.merge) +
         ", placement " + placement_name(setting.placement) + ", buckets of " +
         std::to_string(setting.bucket_byte_count) + " bytes, overlap " + overlap_name(setting.overlap);
}

TEST(Placements, GiveEqualBits) {
  for (const std::int64_t shards : {2, 3, 14}) {  // with 14, two shards never have rows
    for (const MergeStrategy strategy : kStrategies) {
      if (!kTriesAll && shards != (strategy == MergeStrategy::kRing ? 14 : 3)) {
        continue;
      }
      Setting setting;
      setting.shards = shards;
      setting.merge = strategy;
      setting.placement = Placement::kOwner;
      const Outcome owner = run(setting);
      for (const Placement placement : kPlacements) {
        setting.placement = placement;
        EXPECT_EQ(run(setting).values, owner.values) << text_of(setting);
      }
    }
  }
}

TEST(Placements, GiveEqualBitsInSmallBuckets) {
  for (const MergeStrategy strategy : kStrategies) {
    std::vector<float> values;
    for (const Placement placement : kPlacements) {
      Setting setting;
      setting.shards = 3;
      setting.merge = strategy;
      setting.placement = placement;
      if (strategy != MergeStrategy::kRing) {  // whose order of sums depends on the buckets
        values = run(setting).values;
      }
      setting.bucket_byte_count = 256;
      const Outcome small = run(setting);
      if (!values.empty()) {
        EXPECT_EQ(small.values, values) << text_of(setting);
      }
      values = small.values;
    }
  }
}

void expect_parts_like_step(Setting setting) {
  const Outcome whole = run(setting);
  for (const int every : {1, 2}) {
    setting.parts_every = every;
    const Outcome parts = run(setting);
    EXPECT_EQ(parts.values, whole.values) << text_of(setting);
    EXPECT_EQ(parts.losses, whole.losses) << text_of(setting);
  }
}

TEST(PartsOfAStep, GiveTheSameBitsAsStep) {
  expect_parts_like_step({});
  for (const auto& [strategy, placement] : strategies_and_placements()) {
    Setting setting;
    setting.shards = 3;
    setting.merge = strategy;
    setting.placement = placement;
    expect_parts_like_step(setting);
  }
}

// Calls body(trainer, options) for a linear layer with 4 rows of data and the learning rate 0.1.
template <class Body>
void train_a_layer(std::int64_t shards, const Body& body, std::vector<Symbol> bindings = {},
                   Tensor factor = {}) {
  DataParallelOptions options = options_for(shards, 0.1F);
  options.bindings = std::move(bindings);
  const auto model = nn::linear(2);
  data_parallel(
      options, tensor(some_numbers(12, 1), {4, 3}), tensor(some_numbers(8, 2), {4, 2}),
      [&](const Tensor& x, const Tensor& y) {
        const Tensor loss = mean((model(x) - y) * (model(x) - y));
        return factor ? loss * factor : loss;
      },
      [&](Trainer& trainer) { body(trainer, options); });
}

TEST(PartsOfAStep, NeedGradientsOfTheirOwnStep) {
  for (const std::int64_t shards : {1, 2}) {
    train_a_layer(shards, [](Trainer& trainer, const DataParallelOptions&) {
      EXPECT_ERROR(ErrorCode::kFailedPrecondition, trainer.update());
      trainer.launch_gradients();
      trainer.update();
      trainer.step();
      EXPECT_ERROR(ErrorCode::kFailedPrecondition, trainer.grad_sync());
      EXPECT_ERROR(ErrorCode::kFailedPrecondition, trainer.update());
    });
  }
}

TEST(AStepThatFails, DoesNotCount) {
  const auto step_up_to_3 = Symbol{"step", 0, 3, 1};
  for (const std::int64_t shards : {1, 2}) {
    train_a_layer(
        shards,
        [](Trainer& trainer, const DataParallelOptions&) {
          double sum = 0;
          for (int i = 0; i < 3; ++i) {
            trainer.step();
            sum += trainer.loss_value();
          }
          EXPECT_ERROR(ErrorCode::kOutOfRange, trainer.step());
          EXPECT_NEAR(trainer.mean_loss(), sum / 3, 1e-6);
        },
        {step_up_to_3}, 1.0F + 0.0F * cast(symbol_value(step_up_to_3), Type::kF32));
  }
}

TEST(SingleShard, AcceptsAScalarWithTheNameOfAnArgument) {
  train_a_layer(
      1,
      [](Trainer& trainer, const DataParallelOptions&) {
        trainer.step();
        trainer.launch_gradients();
        trainer.update();
        EXPECT_GT(trainer.loss_value(), 0);
      },
      {}, scalar("momentum_0", 0.5));
}

TEST(PartsOfAStep, OfASingleShardAreCompiledAtTheFirstCall) {
  train_a_layer(1, [](Trainer& trainer, const DataParallelOptions& options) {
    const std::string weight = trainer.owner_params()[0].name();
    trainer.step();
    const std::uint64_t compiled = compile_count(*options.runtime);
    trainer.launch_gradients();
    EXPECT_GT(compile_count(*options.runtime), compiled);
    EXPECT_EQ(trainer.read_values("gradient/" + weight).size(), 6U);
    const std::vector<float> before = trainer.read_values(weight);
    trainer.update();
    EXPECT_NE(trainer.read_values(weight), before);
    EXPECT_EQ(trainer.shard_list()[0].rows, 4);
  });
}

class DelayedTraining : public ::testing::TestWithParam<std::tuple<std::int64_t, MergeStrategy, Placement>> {
};
INSTANTIATE_TEST_SUITE_P(All, DelayedTraining,
                         ::testing::Combine(::testing::ValuesIn(kTriesAll ? Counts{2, 3, 4, 8} : Counts{3}),
                                            ::testing::ValuesIn(kStrategies),
                                            ::testing::ValuesIn(kPlacements)));

TEST_P(DelayedTraining, GivesTheSameBits) {
  Setting setting;
  std::tie(setting.shards, setting.merge, setting.placement) = GetParam();
  setting.bucket_byte_count = 256;
  const Outcome calm = run(setting);
  setting.delay_us = 300;
  for (std::uint64_t seed = 1; seed <= test::delay_seeds(1); ++seed) {
    const std::uint64_t choice = seed + static_cast<std::uint64_t>(setting.shards) / 2;
    setting.delay_seed = seed;
    setting.overlap = choice % 2 == 0 ? Overlap::kOff : Overlap::kOn;
    setting.parts_every = choice % 3 == 0 ? 2 : 0;
    const Outcome delayed = run(setting);
    ASSERT_EQ(delayed.values, calm.values) << text_of(setting) << ", delay seed " << seed;
    ASSERT_EQ(delayed.losses, calm.losses) << text_of(setting) << ", delay seed " << seed;
  }
}

TEST(Training, OfManyShardsGivesTheSameBitsWithRandomDelays) {
  Setting setting;
  setting.shards = 18;
  setting.batch = 36;
  setting.merge = MergeStrategy::kDirect;
  const Outcome calm = run(setting);
  setting.delay_us = 300;
  for (std::uint64_t seed = 1; seed <= test::delay_seeds(5); ++seed) {
    setting.delay_seed = seed;
    EXPECT_EQ(run(setting).values, calm.values) << "delay seed " << seed;
  }
}

TEST(Training, WithoutABatchSizeUsesAllRows) {
  Setting setting;
  setting.batch = 0;
  setting.steps = 3;
  const Outcome one = run(setting);
  setting.shards = 4;
  expect_near(run(setting).values, one.values);
}

}  // namespace
}  // namespace yoke::testing
