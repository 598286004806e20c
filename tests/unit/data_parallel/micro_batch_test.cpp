// SPDX-License-Identifier: Apache-2.0
// tests/unit/data_parallel/micro_batch_test.cpp: shards that compute a batch in parts, and runs whose bits do not
// depend on the number of shards.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "common.h"
#include "error_of.h"

namespace yoke::testing {
namespace {

using Pairs = std::vector<std::pair<std::int64_t, std::int64_t>>;

using test::error_of;
using test::is_error;

constexpr std::uint64_t kRows = 44;
constexpr std::uint64_t kWidth = 6;

nn::Module dropout_mlp() {
  return nn::sequential(nn::linear(16), nn::tanh(), nn::dropout(0.25), nn::linear(3));
}
nn::Module mlp() {
  return nn::sequential(nn::linear(16), nn::relu(), nn::linear(3));
}
nn::Module recurrent() {
  class Rows final : public nn::Layer {
   public:
    Tensor forward(const Tensor& x) const { return flatten(lstm_(reshape(x, {x.dims()[0], 2, kWidth / 2}))); }

   private:
    nn::Module lstm_ = child(nn::Module(nn::lstm(4)));
  };
  return nn::sequential(nn::make<Rows>(), nn::linear(3));
}

struct Setting {
  std::int64_t shards = 1;
  std::int64_t accumulate = 1;
  std::int64_t reproducible = 0;
  std::int64_t batch = 12;  // three batches of 12 rows, and one of 8
  MergeStrategy merge = MergeStrategy::kAuto;
  Placement placement = Placement::kAuto;
  Reduction reduction = Reduction::kMean;
  nn::Module (*model)() = mlp;
  std::uint32_t delay_us = 0;
  bool in_parts = false;  // calls the functions that make up a step
  bool overlaps = false;  // in small buckets
  int steps = 9;
};

struct Outcome {
  std::vector<double> losses;
  std::vector<float> values;
  double mean_loss = 0;
};

DataParallelOptions options_of(const Setting& setting) {
  RuntimeOptions delayed;
  delayed.injected_delay_us = setting.delay_us;
  DataParallelOptions options = options_for(setting.shards, 0.05F);
  options.runtime = test_runtime(delayed);
  options.accumulate = setting.accumulate;
  options.reproducible = setting.reproducible;
  options.batch_size = setting.batch;
  options.merge = setting.merge;
  options.placement = setting.placement;
  options.overlap = setting.overlaps ? Overlap::kOn : Overlap::kOff;
  options.bucket_byte_count = setting.overlaps ? 256 : 4U << 20U;
  options.reduction = setting.reduction;
  options.optimizer = Sgd{0.9, 1e-3, true};
  options.check_replicas_every = 1;
  return options;
}

void train(const DataParallelOptions& options, const nn::Module& model, Reduce reduce,
           const std::function<void(Trainer&)>& body) {
  std::vector<std::int32_t> labels(kRows);
  for (std::size_t i = 0; i < kRows; ++i) {
    labels[i] = static_cast<std::int32_t>(i * 7 % 3);
  }
  data_parallel(
      options, tensor(some_numbers(kRows * kWidth, 1), {kRows, kWidth}), tensor(labels, {kRows}),
      [&](const Tensor& x, const Tensor& y) {
        const Tensor weights =
            tensor(some_numbers(x.dims()[0], 9), {x.dims()[0]});  // data that depends on the rows
        return cross_entropy(model(x), y, reduce) + mean(weights) * 0.0F;
      },
      body);
}

Outcome run(const Setting& setting) {
  Outcome result;
  train(options_of(setting), setting.model(),
        setting.reduction == Reduction::kMean ? Reduce::kMean : Reduce::kSum, [&](Trainer& trainer) {
          for (int i = 0; i < setting.steps; ++i) {
            if (setting.in_parts) {
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
          result.mean_loss = trainer.mean_loss();
        });
  return result;
}

std::string text_of(const Setting& setting) {
  return std::to_string(setting.shards) + " shards, accumulate " + std::to_string(setting.accumulate) +
         ", reproducible " + std::to_string(setting.reproducible) + ", batch " +
         std::to_string(setting.batch) + ", merge " + merge_strategy_name(setting.merge) + ", placement " +
         placement_name(setting.placement);
}

void expect_equal(const Outcome& got, const Outcome& expected, const Setting& setting) {
  EXPECT_EQ(got.values, expected.values) << text_of(setting);
  EXPECT_EQ(got.losses, expected.losses) << text_of(setting);
  EXPECT_EQ(got.mean_loss, expected.mean_loss) << text_of(setting);
}

// 9 steps with sums of at most 64 f32 terms: 64 * 9 * 2^-24, relative to values around 1.
constexpr double kTolerance = 64 * 9 * 6e-8;

void expect_near(const Outcome& got, const Outcome& expected, const Setting& setting) {
  const double tolerance = kTolerance * (setting.reduction == Reduction::kSum ? 12 : 1);
  ASSERT_EQ(got.values.size(), expected.values.size());
  for (std::size_t i = 0; i < expected.values.size(); ++i) {
    ASSERT_NEAR(got.values[i], expected.values[i], tolerance * (1 + std::abs(expected.values[i])))
        << text_of(setting) << ", element " << i;
  }
  for (std::size_t i = 0; i < expected.losses.size(); ++i) {
    ASSERT_NEAR(got.losses[i], expected.losses[i], tolerance * (1 + expected.losses[i])) << text_of(setting);
  }
  EXPECT_NEAR(got.mean_loss, expected.mean_loss, tolerance * (1 + expected.mean_loss)) << text_of(setting);
}

TEST(Accumulate, MatchesOneMicroBatch) {
  for (const Reduction reduction : {Reduction::kMean, Reduction::kSum}) {
    Setting setting;
    setting.reduction = reduction;
    const Outcome whole = run(setting);
    for (const std::int64_t shards : kTriesAll ? Counts{1, 2, 3} : Counts{3}) {
      for (const std::int64_t micro_batches : {2, 5}) {  // 3 shards of 5: some have no rows
        setting.shards = shards;
        setting.accumulate = micro_batches;
        expect_near(run(setting), whole, setting);
      }
    }
  }
}

TEST(Accumulate, WorksWithEveryStrategyAndPlacement) {
  Setting setting;
  const Outcome whole = run(setting);
  setting.shards = 3;
  setting.accumulate = 2;
  for (const auto& [merge, placement] : strategies_and_placements()) {
    setting.merge = merge;
    setting.placement = placement;
    expect_near(run(setting), whole, setting);
  }
}

// A shard's last micro-batch then runs in parts. With 3 shards of 5, some have fewer micro-batches.
TEST(Accumulate, GivesTheSameBitsWithOverlap) {
  for (const auto& [shards, micro_batches] :
       kTriesAll ? Pairs{{2, 2}, {2, 5}, {3, 2}, {3, 5}} : Pairs{{3, 5}}) {
    for (const MergeStrategy merge : {MergeStrategy::kOwner, MergeStrategy::kTree, MergeStrategy::kDirect}) {
      Setting setting;
      setting.model = dropout_mlp;
      setting.shards = shards;
      setting.accumulate = micro_batches;
      setting.merge = merge;
      const Outcome calm = run(setting);
      setting.overlaps = true;
      expect_equal(run(setting), calm, setting);
      setting.delay_us = 200;
      expect_equal(run(setting), calm, setting);
      setting.in_parts = true;
      expect_equal(run(setting), calm, setting);
    }
  }
}

TEST(Accumulate, GivesTheSameBitsInPartsAndWithDelays) {
  Setting setting;
  setting.shards = 2;
  setting.accumulate = 3;
  setting.model = dropout_mlp;
  const Outcome whole = run(setting);
  Setting other = setting;
  other.in_parts = true;
  expect_equal(run(other), whole, other);
  other.delay_us = 300;
  expect_equal(run(other), whole, other);
}

TEST(Accumulate, DrawsOtherNumbersInEachMicroBatch) {
  Setting setting;
  setting.model = dropout_mlp;
  setting.steps = 1;
  const Outcome whole = run(setting);
  setting.accumulate = 2;
  EXPECT_NE(run(setting).losses, whole.losses);
  // Two rows that are alike, one in each micro-batch.
  const Parameter w("w", {64}, Initializer::constant(1));
  const auto drop = nn::dropout(0.5);
  DataParallelOptions options = options_for(1, 0.0F);
  options.accumulate = 2;
  data_parallel(
      options, tensor(std::vector<float>(128, 1.0F), {2, 64}), tensor(std::vector<float>(2, 0.0F), {2}),
      [&](const Tensor& x, const Tensor& y) {
        return sum(drop(x * w.tensor()) * tensor(some_numbers(64, 5), {64})) + sum(y);
      },
      [&](Trainer& trainer) {
        trainer.step();
        EXPECT_NE(2 * trainer.loss_value(), 2.0 * trainer.read_values("loss").at(0));
        EXPECT_EQ(trainer.shard_list()[0].rows, 2);
      });
}

// Ten rows in batches of 4, 4 and 2: of three micro-batches, the last has row 7 in the second batch and no row in
// the third.
TEST(Accumulate, FindsTheFirstBadStep) {
  std::vector<float> x(10, 1.0F);
  x[7] = std::numeric_limits<float>::infinity();
  DataParallelOptions options = options_for(1, 0.0F);
  options.accumulate = 3;
  options.batch_size = 4;
  const auto run_from = [&](const std::vector<float>& data) {
    const Parameter w("w", {}, Initializer::constant(1));
    std::optional<std::int64_t> bad;
    const Tensor rows = tensor(data, {10});
    data_parallel(
        options, rows, rows, [&](const Tensor& a, const Tensor&) { return mean(a * w.tensor()); },
        [&](Trainer& trainer) {
          trainer.run_epoch();
          trainer.set_batch(tensor(x, {10}), tensor(x, {10}));
          trainer.run_epoch();
          bad = trainer.first_bad_step();
        });
    return bad;
  };
  EXPECT_EQ(run_from(std::vector<float>(10, 1.0F)), 4);
  EXPECT_EQ(run_from(x), 1);
}

std::uint64_t used_by(const Trainer& trainer) {
  return trainer.shard_list()[0].stream->device()->memory().used_bytes;
}

TEST(Accumulate, NeedsTheMemoryThatIsCountedAndLessForActivations) {
  if (std::string(backend_name()) != "cc") {
    GTEST_SKIP() << "the reference executor has no workspace";
  }
  constexpr std::uint64_t kMany = 960;
  const auto model = nn::sequential(nn::linear(1500), nn::relu(), nn::linear(1));
  std::map<std::int64_t, MemoryNeed> needs;
  for (const std::int64_t micro_batches : {1, 8}) {
    DataParallelOptions options = options_for(2, 0.01F);
    options.accumulate = micro_batches;
    options.check_memory = [&](std::span<const MemoryNeed> all) { needs[micro_batches] = all[0]; };
    data_parallel(
        options, tensor(some_numbers(kMany * 3, 1), {kMany, 3}), tensor(some_numbers(kMany, 2), {kMany, 1}),
        [&](const Tensor& x, const Tensor& y) { return mse(model(x), y); },
        [&](Trainer& trainer) {
          // One-element tensors of 256 bytes, and the tiles of the sums.
          const double small = 2.0 * static_cast<double>(micro_batches) * (8 * 256) + 4 * 5120;
          EXPECT_NEAR(static_cast<double>(needs[micro_batches].total()),
                      static_cast<double>(used_by(trainer)), small);
        });
  }
  EXPECT_LT(needs[8].activations, needs[1].activations / 4);
  EXPECT_GT(needs[8].gradients, needs[1].gradients);
}

struct Model {
  const char* name;
  nn::Module (*make)();
};
void PrintTo(const Model& model,
             std::ostream* out) {  // NOLINT(readability-identifier-naming): GoogleTest's name
  *out << model.name;
}

class Reproducible : public ::testing::TestWithParam<Model> {};
INSTANTIATE_TEST_SUITE_P(Models, Reproducible,
                         ::testing::Values(Model{"Mlp", mlp}, Model{"Dropout", dropout_mlp},
                                           Model{"Lstm", recurrent}));

TEST_P(Reproducible, GivesTheSameBitsForEveryNumberOfShards) {
  Setting setting;
  setting.model = GetParam().make;
  for (const auto& [slices, batch] : kTriesAll ? Pairs{{4, 12}, {8, 13}, {8, 5}} : Pairs{{8, 5}}) {
    setting.reproducible = slices;
    setting.batch = batch;  // 13: parts differ in size; 5: some have no rows
    setting.shards = 1;
    setting.placement = Placement::kAuto;
    const Outcome one = run(setting);
    for (setting.shards = 2; setting.shards <= slices; setting.shards *= 2) {
      setting.placement = Placement::kAuto;
      expect_equal(run(setting), one, setting);
    }
    setting.shards = 4;
    for (const Placement placement : kPlacements) {
      setting.placement = placement;
      expect_equal(run(setting), one, setting);
    }
  }
}

TEST(ReproducibleRun, IsTheRunOfOneShardUpToRounding) {
  for (const Reduction reduction : {Reduction::kMean, Reduction::kSum}) {
    Setting setting;
    setting.reduction = reduction;
    const Outcome whole = run(setting);
    setting.shards = 2;
    setting.reproducible = 8;
    expect_near(run(setting), whole, setting);
  }
}

TEST(ReproducibleRun, GivesTheSameBitsInPartsAndWithDelays) {
  Setting setting;
  setting.reproducible = 4;
  setting.model = dropout_mlp;
  const Outcome one = run(setting);
  for (const std::int64_t shards : {1, 4}) {
    setting.shards = shards;
    setting.in_parts = true;
    setting.delay_us = shards == 4 ? 300 : 0;
    expect_equal(run(setting), one, setting);
  }
}

TEST(ReproducibleRun, AddsInTheOrderOfTheTree) {
  // (0 + 1) + (2 + 3) of 1, 2^-24, -1, -2^-25 is not 0 only if 1 + 2^-24 rounds to 1 and -1 - 2^-25 to -1; in sequence,
  // the sum is -2^-25.
  const std::vector<float> x = {1.0F, 0x1p-24F, -1.0F, -0x1p-25F};
  for (const std::int64_t shards : {1, 2, 4}) {
    DataParallelOptions options = options_for(shards, 1.0F);
    options.reduction = Reduction::kSum;
    options.reproducible = 4;
    const Parameter w("w", {}, Initializer::zeros());
    data_parallel(
        options, tensor(x, {4}), tensor(x, {4}),
        [&](const Tensor& a, const Tensor&) { return sum(a * w.tensor()); },
        [&](Trainer& trainer) {
          trainer.step();
          EXPECT_EQ(trainer.read_values("w").at(0), 0.0F) << shards << " shards";
        });
  }
}

TEST(ReproducibleRun, RefusesWhatItCannotKeep) {
  const auto error = [](auto change) {
    Setting setting;
    setting.shards = 2;
    setting.reproducible = 4;
    change(setting);
    DataParallelOptions options = options_of(setting);
    const auto backend = options.runtime->backend(options.backend_name);
    Error refused = error_of([&] { train(options, mlp(), Reduce::kMean, [](Trainer&) {}); });
    EXPECT_EQ(backend->live_counts().buffers, 0U);
    return refused;
  };
  constexpr auto kInvalid = ErrorCode::kInvalidArgument;
  EXPECT_THAT(error([](Setting& s) { s.reproducible = 6; }), is_error(kInvalid, "choose a power of two"));
  EXPECT_THAT(error([](Setting& s) { s.reproducible = -4; }), is_error(kInvalid, "choose a power of two"));
  EXPECT_THAT(error([](Setting& s) { s.shards = 3; }),
              is_error(kInvalid, "not a multiple of the number of shards, 3"));
  EXPECT_THAT(error([](Setting& s) { s.shards = 8; }),
              is_error(kInvalid, "not a multiple of the number of shards, 8"));
  EXPECT_THAT(error([](Setting& s) { s.accumulate = 2; }), is_error(kInvalid, "set only one of them"));
  EXPECT_THAT(error([](Setting& s) { s.merge = MergeStrategy::kDirect; }),
              is_error(kInvalid, "needs the merge strategy tree, but merge is direct"));
  DataParallelOptions tree = options_for(2, 0.1F);
  tree.reproducible = 4;
  tree.merge = MergeStrategy::kTree;
  train(tree, mlp(), Reduce::kMean, [](Trainer& trainer) { trainer.step(); });
  const auto off = [](std::int64_t count) {
    return [count](Setting& s) {
      s.reproducible = 0;
      s.accumulate = count;
    };
  };
  EXPECT_THAT(error(off(0)), is_error(kInvalid, "accumulate is 0; choose 1 to 4096"));
  EXPECT_THAT(error(off(4096)), is_error(kInvalid, "their product must be at most 4096"));
}

}  // namespace
}  // namespace yoke::testing
