// SPDX-License-Identifier: Apache-2.0
// tests/unit/tensor/losses_test.cpp: losses by hand, their stability, and the one-weight model whose numbers
// are known.
#include <gtest/gtest.h>

#include <cmath>
#include <map>

#include "evaluate.h"

namespace yoke {
namespace {

using testing::values;
using Floats = std::vector<float>;

TEST(LossesTest, CrossEntropyIsMinusTheLogarithmOfTheProbability) {
  const Tensor logits = tensor<double>({1, 2, 3, 0, 0, 0}, {2, 3});
  const Tensor labels = tensor<std::uint8_t>({2, 0}, {2});
  const double first = std::log(std::exp(1 - 3.0) + std::exp(2 - 3.0) + 1);
  EXPECT_NEAR(values<double>(cross_entropy(logits, labels))[0], (first + std::log(3.0)) / 2, 1e-15);
  EXPECT_NEAR(values<double>(cross_entropy(logits, labels, Reduce::kSum))[0], first + std::log(3.0), 1e-15);
  EXPECT_NEAR(values<double>(sum(log_softmax(logits), {1}))[1], -3 * std::log(3.0), 1e-14);
}

TEST(LossesTest, CrossEntropyTakesEveryIntegerType) {
  const Tensor logits = tensor<float>({1, 2, 3, 4}, {2, 2});
  const auto expected = values<float>(cross_entropy(logits, tensor<std::uint8_t>({1, 0}, {2})));
  EXPECT_EQ(values<float>(cross_entropy(logits, tensor<std::int32_t>({1, 0}, {2}))), expected);
  EXPECT_EQ(values<float>(cross_entropy(logits, tensor<std::int64_t>({1, 0}, {2}))), expected);
}

TEST(LossesTest, CrossEntropyIsStableForLargeLogits) {
  const Tensor logits = tensor<float>({1000, -1000, 0, -1000, 1000, 1000, 3e38F, 0, 0}, {3, 3});
  const Tensor labels = tensor<std::uint8_t>({0, 1, 0}, {3});
  const Tensor loss = cross_entropy(logits, labels, Reduce::kSum);
  EXPECT_NEAR(values<float>(loss)[0], std::log(2.0), 1e-6);
  const auto gradient = values<float>(gradients(loss, {logits})[0]);
  const Floats expected = {0, 0, 0, 0, -0.5, 0.5, 0, 0, 0};
  for (std::size_t i = 0; i < expected.size(); ++i) {
    EXPECT_NEAR(gradient[i], expected[i], 1e-6);
  }
  EXPECT_EQ(values<float>(cross_entropy(tensor<float>({1000, 0}, {1, 2}), tensor<std::uint8_t>({1}, {1}))),
            (Floats{1000}));
}

TEST(LossesTest, CrossEntropyHasTheGradientSoftmaxMinusOneHot) {
  const Tensor logits = tensor<double>({0.5, -1, 2, 1, 1, 0}, {2, 3});
  const Tensor labels = tensor<std::uint8_t>({2, 0}, {2});
  const auto got = values<double>(gradients(cross_entropy(logits, labels), {logits})[0]);
  const auto expected = values<double>((softmax(logits) - one_hot(labels, 3, Type::kF64)) * 0.5);
  for (std::size_t i = 0; i < got.size(); ++i) {
    EXPECT_NEAR(got[i], expected[i], 1e-15);
  }
}

TEST(LossesTest, SoftmaxOfAnyAxisSumsToOne) {
  const Tensor x = tensor<float>({100, 200, 300, 400, 500, 600}, {2, 3});
  for (const int axis : {0, 1, -1}) {
    for (const float total : values<float>(sum(softmax(x, axis), {axis}))) {
      EXPECT_NEAR(total, 1, 1e-6);
    }
  }
}

TEST(LossesTest, MseAndHingeByHand) {
  const Tensor output = tensor<float>({1, -2, 0.5F}, {3, 1});
  const Tensor target = tensor<float>({1, 1, -1}, {3});
  EXPECT_EQ(values<float>(mse(output, target, Reduce::kSum)), (Floats{9 + 2.25F}));
  EXPECT_EQ(values<float>(mse(output, target)), (Floats{3.75}));
  EXPECT_EQ(values<float>(hinge(output, target, Reduce::kSum)), (Floats{0 + 3 + 1.5F}));
  EXPECT_EQ(values<float>(hinge(output, target)), (Floats{1.5}));
}

TEST(LossesTest, AccuracyIsTheShareOfRightRows) {
  const Tensor logits = tensor<float>({1, 2, 5, 4, 0, 3, 1, 1}, {4, 2});
  EXPECT_EQ(values<float>(accuracy(logits, tensor<std::uint8_t>({1, 0, 0, 0}, {4}))), (Floats{0.75}));
}

// One weight w = 0.5, x = [1, 2, 3, 4], y = 2x, learning rate 0.05, plain SGD: N shards, gradients summed or
// averaged.
struct Row {
  bool loss_is_mean;
  bool reduction_is_mean;
  std::map<int, double> weight;
  std::map<int, double> owner_loss;
};

struct Step {
  double weight = 0;
  double owner_loss = 0;
};

Step one_step(const Row& row, int shards, double weight, const std::vector<float>& xs, double rate) {
  const auto batch = xs.size() / static_cast<std::size_t>(shards);
  const Tensor x = placeholder("x", Type::kF32, {batch});
  const Tensor y = placeholder("y", Type::kF32, {batch});
  const Tensor w = placeholder("w", Type::kF32, {});
  const Tensor loss = mse(x * w, y, row.loss_is_mean ? Reduce::kMean : Reduce::kSum);
  const Lowered lowered = lower("gradient", {{"loss", loss}, {"dw", gradients(loss, {w})[0]}});
  double gradient = 0;
  Step step;
  for (int shard = 0; shard < shards; ++shard) {
    Floats own(xs.begin() + shard * static_cast<std::ptrdiff_t>(batch),
               xs.begin() + (shard + 1) * static_cast<std::ptrdiff_t>(batch));
    testing::Leaves leaves;
    leaves.bind(x, own).bind(w, Floats{static_cast<float>(weight)});
    for (float& value : own) {
      value *= 2;
    }
    leaves.bind(y, own);
    auto results = testing::run(lowered, leaves);
    gradient += testing::from_bytes<float>(results.at("dw"))[0];
    step.owner_loss = shard == 0 ? testing::from_bytes<float>(results.at("loss"))[0] : step.owner_loss;
  }
  const Tensor g = placeholder("g", Type::kF32, {});
  const Lowered update =
      lower("update", {}, sgd_one(w, row.reduction_is_mean ? g / shards : g, {}, rate, {}));
  testing::Leaves leaves;
  leaves.bind(w, Floats{static_cast<float>(weight)}).bind(g, Floats{static_cast<float>(gradient)});
  testing::run(update, leaves);
  step.weight = testing::from_bytes<float>(leaves.of(w))[0];
  return step;
}

TEST(OneWeightTest, EndsWhereTheTableSays) {
  const std::map<int, double> sum_losses = {{1, 67.5}, {2, 11.25}, {4, 2.25}};
  const std::map<int, double> mean_losses = {{1, 16.875}, {2, 5.625}, {4, 2.25}};
  const Row table[] = {{false, false, {{1, 5.0}, {2, 5.0}, {4, 5.0}}, sum_losses},
                       {false, true, {{1, 5.0}, {2, 2.75}, {4, 1.625}}, sum_losses},
                       {true, true, {{1, 1.625}, {2, 1.625}, {4, 1.625}}, mean_losses},
                       {true, false, {{1, 1.625}, {2, 2.75}, {4, 5.0}}, mean_losses}};
  for (const Row& row : table) {
    for (const int shards : {1, 2, 4}) {
      const Step step = one_step(row, shards, 0.5, {1, 2, 3, 4}, 0.05);
      EXPECT_NEAR(step.weight, row.weight.at(shards), 1e-5) << shards << " shards";
      EXPECT_NEAR(step.owner_loss, row.owner_loss.at(shards), 1e-4) << shards << " shards";
    }
  }
}

TEST(OneWeightTest, TwoStepsWithAnotherBatch) {
  const Row row{false, true, {}, {}};
  const Step first = one_step(row, 2, 0.5, {1, 2, 3, 4}, 0.02);
  EXPECT_NEAR(first.weight, 1.4, 1e-5);
  EXPECT_NEAR(first.owner_loss, 11.25, 1e-4);
  const Step second = one_step(row, 2, first.weight, {5, 6, 7, 8}, 0.02);
  EXPECT_NEAR(second.weight, 3.488, 1e-5);
  EXPECT_NEAR(second.owner_loss, 21.96, 1e-4);
}

}  // namespace
}  // namespace yoke
