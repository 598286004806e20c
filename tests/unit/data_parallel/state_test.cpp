// SPDX-License-Identifier: Apache-2.0
// tests/unit/data_parallel/state_test.cpp: running state, such as that of batch norm, in training.
#include <gtest/gtest.h>
#include <yoke/nn.h>
#include <yoke/train_helpers.h>

#include <cmath>

#include "common.h"
#include "error_of.h"

namespace yoke::testing {
namespace {

constexpr std::uint64_t kRows = 24;

// Reports the mean of the rows that a shard sees, and counts the steps.
class Means : public nn::Layer {
 public:
  Tensor forward(const Tensor& x) const {
    mean_.set_dims({x.dims().back()}, "means");
    steps_.set_dims({}, "means");
    const Tensor y = report_state(x, mean_, mean(x, {0}));
    return report_state(y, steps_, steps_.tensor() + 1.0F);
  }

 private:
  Parameter mean_ = state("mean", Initializer::zeros());
  Parameter steps_ = state("steps", Initializer::constant(5));
};

struct Setting {
  std::int64_t shards = 1;
  std::int64_t accumulate = 1;
  std::int64_t reproducible = 0;
  MergeStrategy merge = MergeStrategy::kAuto;
  Placement placement = Placement::kAuto;
  Reduction reduction = Reduction::kMean;
  bool overlaps = false;
  bool varies = false;
  bool redistributes = false;
  Optimizer optimizer = AdamW{.weight_decay = 0.1};
};

std::string text_of(const Setting& s) {
  return std::to_string(s.shards) + " shards, accumulate " + std::to_string(s.accumulate) +
         ", reproducible " + std::to_string(s.reproducible) + ", merge " + merge_strategy_name(s.merge) +
         ", placement " + placement_name(s.placement) + (s.reduction == Reduction::kSum ? ", sum" : "") +
         (s.overlaps ? ", overlap" : "") + (s.varies ? ", varying rows" : "") +
         (s.redistributes ? ", redistribute" : "");
}

DataParallelOptions options_of(const Setting& setting) {
  DataParallelOptions options = options_for(setting.shards, 0.01F);
  options.accumulate = setting.accumulate;
  options.reproducible = setting.reproducible;
  options.merge = setting.merge;
  options.placement = setting.placement;
  options.reduction = setting.reduction;
  options.overlap = setting.overlaps ? Overlap::kOn : Overlap::kOff;
  options.varying_rows = setting.varies;
  options.on_device_lost = setting.redistributes ? OnDeviceLost::kRedistribute : OnDeviceLost::kFail;
  options.bucket_byte_count = 256;
  options.optimizer = setting.optimizer;
  options.batch_size = 10;  // batches of 10, 10 and 4 rows
  options.check_replicas_every = 1;
  return options;
}

struct Outcome {
  std::vector<float> mean, steps;
};

Outcome run(const Setting& setting, int steps) {
  const auto model = nn::sequential(nn::make<Means>(), nn::linear(1));
  Outcome outcome;
  data_parallel(
      options_of(setting), tensor(some_numbers(kRows * 3, 1), {kRows, 3}),
      tensor(some_numbers(kRows, 2), {kRows, 1}),
      [&](const Tensor& x, const Tensor& y) {
        return mse(model(x), y, setting.reduction == Reduction::kSum ? Reduce::kSum : Reduce::kMean);
      },
      [&](Trainer& trainer) {
        for (int i = 0; i < steps; ++i) {
          trainer.step();
        }
        outcome = {trainer.read_values("0.mean"), trainer.read_values("0.steps")};
      });
  return outcome;
}

// The mean of rows begin to end - 1 of the inputs.
std::vector<float> mean_of(std::uint64_t begin, std::uint64_t end) {
  const std::vector<float> numbers = some_numbers(kRows * 3, 1);
  std::vector<float> means(3);
  for (std::uint64_t i = begin * 3; i < end * 3; ++i) {
    means[i % 3] += numbers[i] / static_cast<float>(end - begin);
  }
  return means;
}

TEST(RunningState, IsTheMeanOverTheRowsOfAllShards) {
  std::vector<Setting> settings = {{},
                                   {.accumulate = 2},
                                   {.shards = 3},
                                   {.shards = 3, .accumulate = 2},
                                   {.shards = 2, .reproducible = 4},
                                   {.reproducible = 4},
                                   {.shards = 3, .overlaps = true},
                                   {.shards = 12},  // some without rows
                                   {.shards = 3, .varies = true},
                                   {.shards = 3, .reduction = Reduction::kSum, .varies = true},
                                   {.shards = 3, .reduction = Reduction::kSum},
                                   {.reduction = Reduction::kSum},
                                   {.shards = 3, .redistributes = true},
                                   {.shards = 3, .optimizer = Sgd{0.9, 0.1, true}}};
  for (const MergeStrategy merge :
       {MergeStrategy::kDirect, MergeStrategy::kOwner, MergeStrategy::kTree, MergeStrategy::kRing}) {
    for (const Placement placement : {Placement::kOwner, Placement::kEverywhere, Placement::kSharded}) {
      settings.push_back({.shards = 3, .merge = merge, .placement = placement});
    }
  }
  for (const Setting& setting : settings) {
    SCOPED_TRACE(text_of(setting));
    for (const int steps : {1, 3}) {  // the third batch has 4 rows
      const Outcome got = run(setting, steps);
      const std::vector<float> expected = steps == 1 ? mean_of(0, 10) : mean_of(20, 24);
      for (std::size_t i = 0; i < 3; ++i) {
        EXPECT_NEAR(got.mean[i], expected[i], 24 * 6e-8 * steps) << "element " << i << " after " << steps;
      }
      EXPECT_NEAR(got.steps[0], 5 + steps, 24 * 6e-8 * 8);
    }
  }
}

TEST(RunningState, IsSavedRestoredAndCopiedToTheModel) {
  const std::string path = ::testing::TempDir() + "state_test.npz";
  const auto model = nn::sequential(nn::make<Means>(), nn::linear(1));
  const Tensor x = tensor(some_numbers(kRows * 3, 1), {kRows, 3});
  const Tensor y = tensor(some_numbers(kRows, 2), {kRows, 1});
  const auto loss_of = [&](const Tensor& a, const Tensor& b) { return mse(model(a), b); };
  data_parallel(options_of({.shards = 2}), x, y, loss_of, [&](Trainer& trainer) {
    trainer.step();
    trainer.save_params(path);
    trainer.step();
    trainer.restore_params(path);
    EXPECT_NEAR(trainer.read_values("0.steps")[0], 6, 1e-5);
  });
  EXPECT_NEAR(nn::states(model)[1].float_values()[0], 6, 1e-5);
  std::filesystem::remove(path);
}

TEST(RunningState, IsInTheFileOfAModel) {
  const std::string path = ::testing::TempDir() + "state_of_a_model_test.safetensors";
  const auto make_model = [] { return nn::sequential(nn::linear(4), nn::batch_norm(), nn::linear(1)); };
  const nn::Module trained = make_model();
  const nn::Module restored = make_model();
  const Tensor x = tensor(some_numbers(kRows * 3, 1), {kRows, 3});
  const Tensor y = tensor(some_numbers(kRows, 2), {kRows, 1});
  data_parallel(
      options_of({}), x, y, [&](const Tensor& a, const Tensor& b) { return mse(trained(a), b); },
      [](Trainer& trainer) { trainer.run_epoch(); });
  save_params(path, trained);
  restore_params(path, restored);
  EXPECT_EQ(host_values(nn::states(restored)[0].tensor()), host_values(nn::states(trained)[0].tensor()));
  PredictorOptions options;
  options.runtime = test_runtime();
  Predictor of_trained(trained, options);
  Predictor of_restored(restored, options);
  EXPECT_EQ(host_values(of_restored.predict(x)), host_values(of_trained.predict(x)));

  const nn::Handle<Means> layer = nn::make<Means>();  // not a Module
  EXPECT_EQ(nn::parameters_and_states(layer).size(), 2U);
  EXPECT_EQ(test::error_of([&] { restore_params(path, layer); }).code(), ErrorCode::kInvalidArgument);
  for (const auto& of_nothing : {std::function([&] { save_params(path, nn::Module()); }),
                                 std::function([&] { restore_params(path, nn::Module()); })}) {
    EXPECT_EQ(test::error_of(of_nothing).code(), ErrorCode::kFailedPrecondition);
  }
  std::filesystem::remove(path);
}

TEST(RunningState, IsPartOfTheTrainersState) {
  const Tensor x = tensor(some_numbers(kRows * 3, 1), {kRows, 3});
  const Tensor y = tensor(some_numbers(kRows, 2), {kRows, 1});
  TrainerState state;
  std::vector<float> expected;
  for (const std::int64_t shards : {3, 2}) {  // the second run goes on from the first one's state
    const auto model = nn::sequential(nn::make<Means>(), nn::linear(1));
    const auto loss_of = [&](const Tensor& a, const Tensor& b) { return mse(model(a), b); };
    data_parallel(options_of({.shards = shards, .placement = Placement::kSharded}), x, y, loss_of,
                  [&](Trainer& trainer) {
                    if (shards == 3) {
                      trainer.step();
                      state = trainer.state();
                      expected = all_values(trainer);
                    } else {
                      trainer.set_state(state);
                      EXPECT_EQ(all_values(trainer), expected);
                      trainer.step();
                      EXPECT_NEAR(trainer.read_values("0.steps")[0], 7, 1e-5);
                    }
                  });
  }
  for (const NamedArray& array : state.optimizer) {
    EXPECT_FALSE(array.name.ends_with("0.mean") || array.name.ends_with("0.steps")) << array.name;
  }
}

TEST(RunningState, EvaluationUsesItAndDoesNotChangeIt) {
  const auto norm = nn::batch_norm({.affine = false});
  const auto model = nn::sequential(norm, nn::linear(1));
  const Tensor x = tensor(some_numbers(kRows * 3, 1), {kRows, 3});
  const Tensor y = tensor(some_numbers(kRows, 2), {kRows, 1});
  for (const std::int64_t shards : {1, 2}) {
    data_parallel(
        options_of({.shards = shards}), x, y,
        [&](const Tensor& a, const Tensor& b) { return mse(model(a), b); },
        [&](Trainer& trainer) {
          Evaluation evaluation = trainer.evaluation(
              x, y, [&](const Tensor& a, const Tensor&) { return std::vector<Tensor>{mean(norm(a))}; });
          trainer.step();
          const std::vector<float> means = trainer.read_values("0.running_mean");
          const std::vector<float> variances = trainer.read_values("0.running_var");
          const std::vector<float> all = mean_of(0, kRows);
          double expected = 0;
          for (std::size_t i = 0; i < 3; ++i) {
            expected += (all[i] - means[i]) / std::sqrt(variances[i] + 1e-5) / 3;
          }
          EXPECT_NEAR(evaluation.run()[0], expected, 1e-5);
          EXPECT_EQ(trainer.read_values("0.running_mean"), means);
          EXPECT_NE(means, std::vector<float>(3));
        });
  }
}

// The numbers depend on the row's position in the batch, but not on the shard or the latest step.
TEST(RandomNumbers, ByRowDependOnlyOnTheRowOutsideOfTraining) {
  const Tensor x = tensor(some_numbers(kRows * 3, 1), {kRows, 3});
  const Tensor y = tensor(some_numbers(kRows, 2), {kRows, 1});
  const auto draws = [](const Tensor& a) { return uniform({a.dims()[0]}, {.stream = 3, .by_row = true}); };
  std::vector<double> evaluated;
  std::vector<std::vector<double>> predicted;
  for (const std::int64_t shards : {1, 3}) {
    const auto model = nn::linear(1);
    data_parallel(
        options_of({.shards = shards}), x, y,
        [&](const Tensor& a, const Tensor& b) { return mse(model(a), b); },
        [&](Trainer& trainer) {
          Evaluation evaluation = trainer.evaluation(
              x, y, [&](const Tensor& a, const Tensor&) { return std::vector<Tensor>{mean(draws(a))}; }, 8);
          for (int i = 0; i < 2; ++i) {
            evaluated.push_back(evaluation.run()[0]);
            predicted.push_back(host_values(trainer.predict(draws, x, 8)));
            trainer.step();
          }
        });
  }
  for (std::size_t i = 1; i < evaluated.size(); ++i) {
    EXPECT_NEAR(evaluated[i], evaluated[0], 1e-6);
    EXPECT_EQ(predicted[i], predicted[0]);
  }
}

TEST(Predict, GivesTheModelsOutputsInEvaluation) {
  const auto model = nn::sequential(nn::batch_norm(), nn::linear(2), nn::dropout(0.5));
  const Tensor x = tensor(some_numbers(kRows * 3, 1), {kRows, 3});
  const Tensor y = tensor(some_numbers(kRows * 2, 2), {kRows, 2});
  data_parallel(
      options_of({.shards = 2}), x, y, [&](const Tensor& a, const Tensor& b) { return mse(model(a), b); },
      [&](Trainer& trainer) {
        trainer.run_epoch();
        const Tensor all = trainer.predict(model, x);
        const Tensor parts = trainer.predict(model, x, 7);  // the last part has 3 rows
        EXPECT_EQ(all.dims(), (Dims{kRows, 2}));
        const std::vector<double> one = host_values(all);
        const std::vector<double> other = host_values(parts);
        double error = 0;
        const std::vector<float> targets = some_numbers(kRows * 2, 2);
        for (std::size_t i = 0; i < one.size(); ++i) {
          EXPECT_NEAR(one[i], other[i], 1e-6);
          error += (one[i] - targets[i]) * (one[i] - targets[i]) / static_cast<double>(one.size());
        }
        const double evaluated = trainer
                                     .evaluation(x, y,
                                                 [&](const Tensor& a, const Tensor& b) {
                                                   return std::vector<Tensor>{mse(model(a), b)};
                                                 })
                                     .run()[0];
        EXPECT_NEAR(error, evaluated, 1e-6);
        const auto scalar_of = [](const Tensor& a) { return mean(a); };
        EXPECT_THROW((void)trainer.predict(scalar_of, x), Error);
      });
}

}  // namespace
}  // namespace yoke::testing
