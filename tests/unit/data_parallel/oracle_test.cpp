// SPDX-License-Identifier: Apache-2.0
// tests/unit/data_parallel/oracle_test.cpp: numbers that are known: one weight, y = 2x, on 1, 2 and 4 shards.
#include <gtest/gtest.h>
#include <yoke/program/text.h>

#include <algorithm>

#include "common.h"
#include "train_oracles.h"

namespace yoke::testing {
namespace {

class OneWeight : public ::testing::TestWithParam<std::tuple<OneStep, MergeStrategy>> {};

TEST_P(OneWeight, OneStepGivesTheKnownWeightAndLoss) {
  const OneStep& expected = std::get<0>(GetParam());
  const MergeStrategy strategy = std::get<1>(GetParam());
  const Parameter w = weight_of(0.5F);
  DataParallelOptions options = options_for(expected.shards, 0.05F);
  options.reduction = expected.reduction;
  options.merge = strategy;
  data_parallel(
      options, tensor(kLineX, {4}), tensor(kLineY, {4}),
      [&](const Tensor& x, const Tensor& y) { return loss_of_line(w, x, y, expected.mean_loss); },
      [&](Trainer& trainer) {
        trainer.step();
        EXPECT_NEAR(trainer.owner_loss_value(), expected.owner_loss, 1e-4);
        EXPECT_NEAR(trainer.read_values("w").at(0), expected.weight, 1e-5);
      });
  EXPECT_NEAR(w.float_values()[0], expected.weight, 1e-5);  // the model keeps what it learned
}

INSTANTIATE_TEST_SUITE_P(SumAndMean, OneWeight,
                         ::testing::Combine(::testing::ValuesIn(kOneSteps),
                                            ::testing::Values(MergeStrategy::kOwner, MergeStrategy::kTree,
                                                              MergeStrategy::kDirect)),
                         [](const auto& one) {
                           const OneStep& c = std::get<0>(one.param);
                           return std::string(c.mean_loss ? "MeanLoss" : "SumLoss") +
                                  (c.reduction == Reduction::kSum ? "SumOf" : "MeanOf") +
                                  std::to_string(c.shards) + merge_strategy_name(std::get<1>(one.param));
                         });

TEST(TwoSteps, SetBatchGivesTheKnownWeights) {
  const Parameter w = weight_of(0.5F);
  data_parallel(
      options_for(2, 0.02F), tensor(kLineX, {4}), tensor(kLineY, {4}),
      [&](const Tensor& x, const Tensor& y) { return loss_of_line(w, x, y, false); },
      [&](Trainer& trainer) {
        trainer.step();
        EXPECT_NEAR(trainer.read_values("w").at(0), 1.4, 1e-5);
        EXPECT_NEAR(trainer.owner_loss_value(), 11.25, 1e-4);
        trainer.set_batch(tensor<float>({5, 6, 7, 8}, {4}), tensor<float>({10, 12, 14, 16}, {4}));
        trainer.step();
        EXPECT_NEAR(trainer.read_values("w").at(0), 3.488, 1e-5);
        EXPECT_NEAR(trainer.owner_loss_value(), 21.96, 1e-4);
      });
}

TEST(AllReduceNumbers, SumsAndMeansHaveTheKnownOutputsAndGradients) {
  const auto runtime = test_runtime();
  const auto device = runtime->backend(backend_name())->open_device(0);
  for (const yoke::testing::AllReduceOracle& expected : kAllReduces) {
    std::vector<Context> contexts = {Context(Stream::create(device)), Context(Stream::create(device))};
    const TensorSpec spec{YOKE_F32, {2}};
    const std::vector<float> inputs[] = {{2, 5}, {4, 1}};
    for (std::size_t k = 0; k < 2; ++k) {
      contexts[k].init_from_host("input", spec, std::as_bytes(std::span(inputs[k])));
    }
    const AllReduce forward_pass(contexts, "input", "output", expected.reduction);
    const std::vector<CollectiveTensor> reduced = forward_pass.run();
    std::vector<std::vector<float>> outputs(2, std::vector<float>(2));
    for (std::size_t k = 0; k < 2; ++k) {
      // Each shard's loss is the sum of its output times a factor; its gradient comes from autodiff.
      reduced[k].resolve(*contexts[k].stream());
      const Tensor output = placeholder("output", Type::kF32, {2});
      const Tensor scaled = output * (k == 1 ? expected.factor : 1.0F);
      const std::vector<Tensor> slope = gradients(sum(scaled), {output});
      const Lowered lowered = lower("shard_loss", {{"scaled", scaled}, {"output_gradient", slope[0]}});
      allocate_missing(contexts[k], lowered);
      contexts[k].link(compile(device, program::print(lowered.program)), "shard_loss").run();
      contexts[k].to_host("scaled", std::as_writable_bytes(std::span(outputs[k])));
    }
    const AllReduce backward_pass(contexts, "output_gradient", "input_gradient", expected.reduction);
    backward_pass.run();
    for (std::size_t k = 0; k < 2; ++k) {
      std::vector<float> gradient(2);
      contexts[k].to_host("input_gradient", std::as_writable_bytes(std::span(gradient)));
      contexts[k].stream()->wait();
      const auto& wanted = k == 0 ? expected.output0 : expected.output1_scaled;
      EXPECT_EQ(outputs[k], wanted);
      EXPECT_EQ(gradient, expected.gradient);
    }
  }
}

TEST(MergeOracle, OwnerOneTwoPlusSourceThreeFourIsFourSix) {
  const auto runtime = test_runtime();
  const auto device = runtime->backend(backend_name())->open_device(0);
  for (const auto strategy : {MergeStrategy::kOwner, MergeStrategy::kTree, MergeStrategy::kDirect}) {
    for (const auto use : {MergeUse::kCopy, MergeUse::kStreaming}) {
      std::vector<Context> contexts = {Context(Stream::create(device)), Context(Stream::create(device))};
      const std::vector<float> values[] = {{1, 2}, {3, 4}};
      for (std::size_t k = 0; k < 2; ++k) {
        contexts[k].init_from_host("g", {YOKE_F32, {2}}, std::as_bytes(std::span(values[k])));
      }
      const GradientMerge merge(contexts, "g", strategy, use);
      merge.run();
      std::vector<float> merged(2);
      contexts[0].to_host("g", std::as_writable_bytes(std::span(merged)));
      contexts[0].stream()->wait();
      EXPECT_EQ(merged, (std::vector<float>{4, 6})) << merge_strategy_name(strategy);
    }
  }
}

// More shards than one expression may have operations (200).
TEST(MergeOracle, ManyShardsAreSummedInTheirOrder) {
#if defined(__SANITIZE_THREAD__)
  GTEST_SKIP()
      << "a launch locks each of its 250 buffers; the thread sanitizer follows at most 64 locks at once";
#endif
  constexpr std::size_t kShards = 250;
  constexpr std::size_t kElements = 33;
  const auto runtime = test_runtime();
  const auto device = runtime->backend(backend_name())->open_device(0);
  const auto stream = Stream::create(device);
  for (const auto strategy : {MergeStrategy::kOwner, MergeStrategy::kDirect}) {
    std::vector<Context> contexts;
    std::vector<float> sum(kElements);
    for (std::uint32_t k = 0; k < kShards; ++k) {
      const std::vector<float> values = some_numbers(kElements, k);
      contexts.emplace_back(stream);
      contexts[k].init_from_host("g", {YOKE_F32, {kElements}}, std::as_bytes(std::span(values)));
      stream->wait();
      std::transform(values.begin(), values.end(), sum.begin(), sum.begin(),
                     [&](float value, float before) { return k == 0 ? value : before + value; });
    }
    GradientMerge(contexts, "g", strategy, MergeUse::kStreaming).run();
    std::vector<float> merged(kElements);
    contexts[0].to_host("g", std::as_writable_bytes(std::span(merged)));
    stream->wait();
    EXPECT_EQ(merged, sum) << merge_strategy_name(strategy);
  }
}

TEST(ShardSeeds, AreBaseSeedPlusShardNumber) {
  DataParallelOptions options = options_for(2, 0.0F);
  options.base_seed = 100;
  const auto owner_loss = [&](std::int64_t seed) {
    options.base_seed = seed;
    float loss = 0;
    const auto model = nn::linear(1);
    data_parallel(
        options, tensor(kLineX, {4, 1}), tensor(kLineY, {4, 1}),
        [&](const Tensor& x, const Tensor& y) { return mse(model(x), y); },
        [&](Trainer& trainer) {
          EXPECT_EQ(trainer.shard_seeds(), (std::vector<std::int64_t>{seed, seed + 1}));
          trainer.step();
          loss = trainer.owner_loss_value();
        });
    return loss;
  };
  EXPECT_NE(owner_loss(0), owner_loss(1000));
  EXPECT_EQ(owner_loss(100), owner_loss(100));
}

}  // namespace
}  // namespace yoke::testing
