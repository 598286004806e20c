// SPDX-License-Identifier: Apache-2.0
// tests/unit/tensor/losses_test.cpp: values, gradients and numerical stability of losses.
#include <gtest/gtest.h>

#include <cmath>

#include "evaluate.h"

namespace yoke {
namespace {

using testing::values;
using Floats = std::vector<float>;

TEST(LossesTest, CrossEntropyIsTheNegativeLogProbability) {
  const Tensor logits = tensor<double>({1, 2, 3, 0, 0, 0}, {2, 3});
  const Tensor labels = tensor<std::uint8_t>({2, 0}, {2});
  const double first = std::log(std::exp(1 - 3.0) + std::exp(2 - 3.0) + 1);
  EXPECT_NEAR(values<double>(cross_entropy(logits, labels))[0], (first + std::log(3.0)) / 2, 1e-15);
  EXPECT_NEAR(values<double>(cross_entropy(logits, labels, Reduce::kSum))[0], first + std::log(3.0), 1e-15);
  EXPECT_NEAR(values<double>(sum(log_softmax(logits), {1}))[1], -3 * std::log(3.0), 1e-14);
}

TEST(LossesTest, CrossEntropyLeavesOutRowsOfTheIgnoredClass) {
  const Tensor logits = tensor<double>({1, 2, 3, 0.5, 0, 0, 7, 1, 2}, {3, 3});
  const Tensor labels = tensor<std::int64_t>({2, -100, 0}, {3});
  const Tensor kept = tensor<double>({1, 2, 3, 7, 1, 2}, {2, 3});
  const Tensor kept_labels = tensor<std::int64_t>({2, 0}, {2});
  for (const double smoothing : {0.0, 0.1}) {
    for (const Reduce reduce : {Reduce::kMean, Reduce::kSum}) {
      const Tensor loss = cross_entropy(logits, labels, reduce, smoothing, -100);
      EXPECT_NEAR(values<double>(loss)[0],
                  values<double>(cross_entropy(kept, kept_labels, reduce, smoothing))[0], 1e-15);
      const auto gradient = values<double>(gradients(loss, {logits})[0]);
      EXPECT_EQ((std::vector<double>{gradient[3], gradient[4], gradient[5]}), (std::vector<double>{0, 0, 0}));
      EXPECT_NE(gradient[0], 0);
    }
  }
  EXPECT_EQ(
      values<double>(cross_entropy(kept, tensor<std::uint8_t>({255, 255}, {2}), Reduce::kMean, 0, 255))[0], 0)
      << "all rows are ignored";
}

TEST(LossesTest, CrossEntropyAcceptsEveryIntegerType) {
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

TEST(LossesTest, GradientOfCrossEntropyIsSoftmaxMinusOneHot) {
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

TEST(LossesTest, MseAndHingeGiveTheExpectedValues) {
  const Tensor output = tensor<float>({1, -2, 0.5F}, {3, 1});
  const Tensor target = tensor<float>({1, 1, -1}, {3});
  EXPECT_EQ(values<float>(mse(output, target, Reduce::kSum)), (Floats{9 + 2.25F}));
  EXPECT_EQ(values<float>(mse(output, target)), (Floats{3.75}));
  EXPECT_EQ(values<float>(hinge(output, target, Reduce::kSum)), (Floats{0 + 3 + 1.5F}));
  EXPECT_EQ(values<float>(hinge(output, target)), (Floats{1.5}));
}

TEST(LossesTest, AccuracyIsTheFractionOfCorrectRows) {
  const Tensor logits = tensor<float>({1, 2, 5, 4, 0, 3, 1, 1}, {4, 2});
  EXPECT_EQ(values<float>(accuracy(logits, tensor<std::uint8_t>({1, 0, 0, 0}, {4}))), (Floats{0.75}));
}

}  // namespace
}  // namespace yoke
