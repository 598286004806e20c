// SPDX-License-Identifier: Apache-2.0
// tests/unit/data_parallel/optimizer_test.cpp: optimizers that need norms of gradients or parameters, groups of
// parameters and moving averages, compared with PyTorch, between numbers of shards, and between placements.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <tuple>
#include <vector>

#include "common.h"
#include "error_of.h"

namespace yoke::testing {
namespace {

Tensor some_doubles(const Dims& dims, std::uint32_t seed, double factor = 1) {
  const std::vector<float> numbers = some_numbers(element_count(dims), seed);
  std::vector<double> values;
  for (const float number : numbers) {
    values.push_back(factor * static_cast<double>(number));
  }
  return tensor(values, dims);
}

struct Reference {
  std::string name;
  Optimizer optimizer;
  double rate;
  std::vector<double> expected;
};

// 100 steps of torch.optim 2.15 in f64, with rates that are exact in f32, for mean((x w + b - y)^2): w by rows, then b.
// LAMB's follow from the formulas.
std::vector<Reference> references() {
  const Sgd sgd{.momentum = 0.9};
  return {
      {"clip_grad_norm_ 0.3",
       clip_by_global_norm(sgd, 0.3),
       0.0625,
       {0.524632740481, 2.279741241717, -0.128696411138, 0.483333812823, -0.002436087661, 0.082864579236,
        0.438373645005, -0.421532678482, 0.351177754296, -0.035246899067, -1.240738679994, 0.838682404752,
        -1.852625522933, 4.093979167264, -0.581574452897, -0.410440698354, 0.292500496534, -0.849773126279}},
      {"clip_grad_value_ 0.05, then clip_grad_norm_ 0.1",
       clip_by_value(clip_by_global_norm(sgd, 0.1), 0.05),
       0.0625,
       {0.636080438322, 1.061075569731, -0.158221370152, 0.237845770974, -0.434992737388, 0.027532033620,
        0.373687616303, 0.604648834832, 0.382637498356, -0.063595255765, -1.578274111001, 0.858334941344,
        -1.096307160002, 1.488425256354, -0.595933674733, -0.271633045275, -0.291877496872, -0.841300156564}},
      {"groups",
       with_groups(AdamW{.weight_decay = 0.1}, {{"b*", AdamW{.weight_decay = 0}, 2}}),
       0.015625,
       {0.546415149658, 0.529665914749, -0.165579703289, 0.001199747023, -0.525063107273, 0.047954350665,
        0.311680743490, 0.695339132876, 0.425311096598, -0.071905911580, -1.455499756419, 0.558670598093,
        -0.444813365063, 0.964930647180, -0.571508667424, -0.120338950610, -0.287700090742, -0.961805751128}},
      {"lamb",
       Lamb{.weight_decay = 0.1},
       0.015625,
       {0.230407063295, -0.070227020843, -0.142850582259, 0.229592714787, -0.565869058356, 0.134891818169,
        -0.109204091543, 0.638118825578, 0.373145022175, -0.010209249950, -0.998531898983, 0.234942598092,
        0.095775714867, 0.320694350473, -0.484438809969, 0.067127346277, -0.186415145507, -1.020392266140}},
      {"AveragedModel",
       moving_average(sgd, 0.9),
       0.0625,
       {0.519888982149, 2.279460095112, -0.126579665458, 0.457780437103, 0.036973402422, 0.084612806696,
        0.444523652257, -0.439421521977, 0.345388957516, -0.041784729177, -1.237215406271, 0.842525170697,
        -1.832275335864, 4.054082201858, -0.578781696819, -0.401868551757, 0.282930816733, -0.852037148590}},
  };
}

class Optimizers : public ::testing::TestWithParam<std::int64_t> {};
INSTANTIATE_TEST_SUITE_P(Shards, Optimizers, ::testing::Values(1, 2, 3));

TEST_P(Optimizers, FollowPyTorchFor100Steps) {
  for (const Reference& one : references()) {
    const Tensor x = some_doubles({12, 5}, 1);
    const Tensor y = some_doubles({12, 3}, 2, 4);
    const Parameter w("weight", {5, 3}, Initializer::zeros(), Type::kF64);
    const Parameter b("bias", {3}, Initializer::zeros(), Type::kF64);
    w.set_values(some_doubles({5, 3}, 3).host_bytes());
    b.set_values(some_doubles({3}, 4).host_bytes());
    DataParallelOptions options = options_for(GetParam(), 0);
    options.optimizer = one.optimizer;
    options.learning_rate = Tensor(one.rate);
    options.bucket_byte_count = 256;
    std::vector<double> got;
    data_parallel(
        options, x, y,
        [&](const Tensor& in, const Tensor& target) {
          return mean(square(einsum("ni,io->no", {in, w.tensor()}) + b.tensor() - target));
        },
        [&](Trainer& trainer) {
          for (int i = 0; i < 100; ++i) {
            trainer.step();
          }
          if (!one.optimizer.states().empty() && one.optimizer.states().back() == "average") {
            trainer.swap_averages();
          }
        });
    for (const Parameter& parameter : {w, b}) {
      const auto* const values = reinterpret_cast<const double*>(parameter.values().data());
      got.insert(got.end(), values, values + parameter.byte_count() / sizeof(double));
    }
    ASSERT_EQ(got.size(), one.expected.size());
    for (std::size_t i = 0; i < got.size(); ++i) {
      EXPECT_NEAR(got[i], one.expected[i], 1e-11) << one.name << ", element " << i;
    }
  }
}

// Trains an MLP with a bias that gets no decay, and returns its weights.
std::vector<float> train(DataParallelOptions options, bool in_parts = false, int steps = 5) {
  options.batch_size = 12;
  options.check_replicas_every = options.on_device_lost == OnDeviceLost::kFail ? 1 : 0;
  const auto model = nn::sequential(nn::linear(40), nn::tanh(), nn::linear(3));
  std::vector<std::int32_t> labels(44);
  for (std::size_t i = 0; i < labels.size(); ++i) {
    labels[i] = static_cast<std::int32_t>(i * 7 % 3);
  }
  std::vector<float> values;
  data_parallel(
      options, tensor(some_numbers(44 * 5, 1), {44, 5}), tensor(labels, {44}),
      [&](const Tensor& x, const Tensor& y) { return cross_entropy(model(x), y); },
      [&](Trainer& trainer) {
        for (int i = 0; i < steps; ++i) {
          if (in_parts) {
            trainer.launch_gradients();
            trainer.grad_sync();
            trainer.update();
            trainer.advance();
          } else {
            trainer.step();
          }
        }
        values = all_values(trainer);
      });
  return values;
}

Optimizer clipped() {
  return clip_by_global_norm(
      with_groups(Adam{.weight_decay = 0.1}, {{"*bias", Adam{.weight_decay = 0}, 0.5}}), 0.05);
}

class ClippedTraining : public ::testing::TestWithParam<std::tuple<std::int64_t, MergeStrategy>> {};
INSTANTIATE_TEST_SUITE_P(All, ClippedTraining,
                         ::testing::Combine(::testing::Values(3, 14), ::testing::ValuesIn(kStrategies)));

// The order of a ring's sums depends on the buckets, so all runs have small ones.
TEST_P(ClippedTraining, HasTheSameBitsForEveryPlacementAndTiming) {
  const auto [shards, strategy] = GetParam();
  if (!kTriesAll && shards == 14 && strategy != MergeStrategy::kOwner) {
    GTEST_SKIP() << "14 shards in debug builds are too slow for more than one strategy";
  }
  DataParallelOptions options = options_for(shards, 0.05F);
  options.merge = strategy;
  options.optimizer = clipped();
  options.bucket_byte_count = 256;
  options.placement = Placement::kOwner;
  const std::vector<float> expected = train(options);
  const std::vector<float> of_one = [&] {
    DataParallelOptions one = options_for(1, 0.05F);
    one.optimizer = clipped();
    return train(one);
  }();
  for (std::size_t i = 0; i < expected.size(); ++i) {
    EXPECT_NEAR(expected[i], of_one[i], 2e-3) << i;  // Adam divides by gradients that may be almost 0
  }
  for (const auto& [merge, placement] : strategies_and_placements()) {
    if (merge != strategy) {
      continue;
    }
    options.placement = placement;
    const std::string where = placement_name(placement);
    EXPECT_EQ(train(options), expected) << where;
    EXPECT_EQ(train(options, true), expected) << where << ", in parts";
    options.overlap = Overlap::kOn;
    EXPECT_EQ(train(options), expected) << where << ", overlapping";
    options.overlap = Overlap::kAuto;
    options.on_device_lost = OnDeviceLost::kRedistribute;
    EXPECT_EQ(train(options), expected) << where << ", with two sets of parameters";
    options.on_device_lost = OnDeviceLost::kFail;
    if (options.merge != MergeStrategy::kRing) {
      options.bucket_byte_count = 4U << 20U;
      EXPECT_EQ(train(options), expected) << where << ", large buckets";
      options.bucket_byte_count = 256;
    }
  }
}

TEST(ClippedTraining, OfReproducibleRunsHasTheSameBitsForEveryNumberOfShards) {
  std::vector<std::vector<float>> found;
  for (const std::int64_t shards : {1, 2, 4}) {
    DataParallelOptions options = options_for(shards, 0.05F);
    options.optimizer = clipped();
    options.reproducible = 4;
    found.push_back(train(options));
  }
  EXPECT_EQ(found[0], found[1]);
  EXPECT_EQ(found[0], found[2]);
}

TEST(ClippedTraining, OfMicroBatchesMatchesThatOfWholeBatches) {
  DataParallelOptions options = options_for(2, 0.05F);
  options.optimizer = clip_by_global_norm(Sgd{.momentum = 0.9}, 0.05);
  const std::vector<float> whole = train(options);
  options.accumulate = 3;
  const std::vector<float> micro = train(options);
  for (std::size_t i = 0; i < whole.size(); ++i) {
    EXPECT_NEAR(micro[i], whole[i], 1e-6);
  }
}

// If step() waited for the norm, it would wait for the gate.
TEST(ClippedTraining, DoesNotMakeTheHostWait) {
  for (const Placement placement : kPlacements) {
    DataParallelOptions options = options_for(2, 0.05F);
    options.optimizer = clipped();
    options.merge = MergeStrategy::kRing;
    options.placement = placement;
    const auto model = nn::linear(2);
    data_parallel(
        options, tensor(some_numbers(12, 1), {4, 3}), tensor(some_numbers(8, 2), {4, 2}),
        [&](const Tensor& x, const Tensor& y) { return mse(model(x), y); },
        [&](Trainer& trainer) {
          trainer.step();
          trainer.wait();
          Gate gate;
          gate.hold(*trainer.shard_list()[1].stream);
          trainer.step();
          const Event end = trainer.shard_list()[0].stream->record();
          EXPECT_FALSE(end.is_done()) << placement_name(placement);
          gate.open();
          trainer.wait();
        });
  }
}

TEST(ClippedTraining, WithoutFiniteGradientsGivesNaNAsPyTorchDoes) {
  for (const std::int64_t shards : {1, 2}) {
    const Parameter w("w", {2}, Initializer::constant(1));
    DataParallelOptions options = options_for(shards, 0.1F);
    options.optimizer = clip_by_global_norm(Sgd{}, 1);
    data_parallel(
        options, tensor<float>({1, 1}, {2, 1}), tensor<float>({1, 1}, {2}),
        [&](const Tensor& x, const Tensor&) {
          return sum(w.tensor() * tensor<float>({1, HUGE_VALF}, {2})) * mean(x);
        },
        [&](Trainer& trainer) {
          trainer.step();
          const std::vector<float> values = trainer.read_values("w");
          EXPECT_EQ(values[0], 1);  // multiplied by 0
          EXPECT_TRUE(std::isnan(values[1]));
        });
  }
}

// The number is the count of elements: the padding of parameters does not count.
TEST(NumbersOverAllGradients, CountOnlyElementsOfParameters) {
  OptimizerRule rule;
  rule.name = "count";
  rule.update = [](const UpdateOperands& of) {
    return std::vector<Update>{{of.value, of.value + cast(of.number, of.value.type())}};
  };
  rule.term = [](const Tensor& gradient) { return gradient * 0 + 1; };
  rule.number = [](const Tensor& total) { return total; };
  const auto trained = [&](std::int64_t shards) {
    DataParallelOptions options = options_for(shards, 0.1F);
    options.optimizer = Optimizer(rule);
    const Parameter w("w", {3}, Initializer::zeros());
    return data_parallel(
        options, tensor<float>({1, 1}, {2, 1}), tensor<float>({1, 1}, {2}),
        [&](const Tensor& x, const Tensor&) { return sum(w.tensor()) * mean(x); },
        [&](Trainer& trainer) {
          trainer.step();
          return trainer.read_values("w");
        });
  };
  EXPECT_EQ(trained(1), (std::vector<float>{3, 3, 3}));
  EXPECT_EQ(trained(2), (std::vector<float>{3, 3, 3}));
  rule.number = [](const Tensor& total) { return total + cast(symbol_value(step_symbol()), Type::kF64); };
  for (const std::int64_t shards : {1, 2}) {
    EXPECT_THAT(
        test::error_of([&] { trained(shards); }),
        test::is_error(ErrorCode::kInvalidArgument, "'count': the number over all gradients uses a symbol"));
  }
}

TEST(LambTraining, HasTheSameBitsOnTheOwnerAndEverywhere) {
  for (const MergeStrategy strategy : kStrategies) {
    DataParallelOptions options = options_for(3, 0.05F);
    options.merge = strategy;
    options.optimizer = clip_by_global_norm(Lamb{.weight_decay = 0.1}, 0.05);
    options.bucket_byte_count = 256;
    const std::vector<float> expected = train(options);
    options.overlap = Overlap::kOn;
    EXPECT_EQ(train(options), expected) << merge_strategy_name(strategy);
    options.placement = Placement::kEverywhere;
    EXPECT_EQ(train(options), expected) << merge_strategy_name(strategy);
    options.placement = Placement::kSharded;
    EXPECT_ERROR(ErrorCode::kInvalidArgument, train(options));
  }
}

TEST(Groups, ThatMatchNoParameterAreErrors) {
  DataParallelOptions options = options_for(2, 0.05F);
  options.optimizer = with_groups(Sgd{}, {{"*bias", Sgd{}}, {"*.bias", Sgd{}}});
  EXPECT_THAT(
      test::error_of([&] { train(options); }),
      test::is_error(ErrorCode::kInvalidArgument, "optimizer: no parameter is in the group '*.bias'"));
}

TEST(MovingAverages, AreExchangedWithTheParametersForEvaluation) {
  for (const Placement placement : kPlacements) {
    DataParallelOptions options = options_for(2, 0.1F);
    options.optimizer = moving_average(Sgd{}, 0.5);
    options.placement = placement;
    const Parameter w("w", {}, Initializer::constant(1));
    data_parallel(
        options, tensor<float>({1, 1}, {2}), tensor<float>({1, 1}, {2}),
        [&](const Tensor& x, const Tensor&) { return mean(x * w.tensor()); },
        [&](Trainer& trainer) {
          EXPECT_ERROR(ErrorCode::kFailedPrecondition, trainer.swap_averages());
          trainer.step();  // 0.9, average 0.9
          trainer.step();  // 0.8, average 0.85
          trainer.swap_averages();
          EXPECT_NEAR(trainer.read_values("w")[0], 0.85, 1e-6);
          EXPECT_ERROR(ErrorCode::kFailedPrecondition, trainer.step());
          trainer.swap_averages();
          trainer.step();  // 0.7, average 0.775
          EXPECT_NEAR(trainer.read_values("w")[0], 0.7, 1e-6);
          trainer.swap_averages();
          EXPECT_NEAR(trainer.read_values("w")[0], 0.775, 1e-6);
        });
  }
}

}  // namespace
}  // namespace yoke::testing
