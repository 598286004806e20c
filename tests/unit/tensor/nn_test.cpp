// SPDX-License-Identifier: Apache-2.0
// tests/unit/tensor/nn_test.cpp: layers: shapes, parameter names and sharing, values, dropout.
#include <gtest/gtest.h>

#include <cmath>

#include "recurrent.h"

namespace yoke {
namespace {

using testing::values;
using Floats = std::vector<float>;

void set(const Parameter& parameter, const Floats& numbers) {
  parameter.set_values(std::as_bytes(std::span(numbers)));
}

template <class M>
std::vector<std::string> names_of(const M& module) {
  std::vector<std::string> names;
  for (const Parameter& parameter : nn::parameters(module)) {
    names.push_back(parameter.name());
  }
  return names;
}

TEST(NnTest, LinearInfersItsInputSize) {
  const nn::Module layer = nn::linear(2);
  const Tensor y = layer(tensor<float>({1, 2, 3, 4, 5, 6}, {2, 3}));
  const auto parameters = nn::parameters(layer);
  ASSERT_EQ(parameters.size(), 2U);
  EXPECT_EQ(parameters[0].dims(), (Dims{2, 3}));
  set(parameters[0], {1, 0, 1, 0, 1, 0});
  set(parameters[1], {10, 20});
  EXPECT_EQ(values<float>(y), (Floats{14, 22, 20, 25}));
}

TEST(NnTest, LinearAcceptsAnyBatchSizeAndRank) {
  const nn::Module layer = nn::linear(5);
  EXPECT_EQ(layer(placeholder("x", Type::kF32, {50, 3})).dims(), (Dims{50, 5}));
  EXPECT_EQ(layer(placeholder("x", Type::kF32, {7, 3})).dims(), (Dims{7, 5}));
  EXPECT_EQ(layer(placeholder("x", Type::kF32, {2, 4, 3})).dims(), (Dims{2, 4, 5}));
  EXPECT_EQ(nn::parameters(layer).size(), 2U);
}

TEST(NnTest, LinearReportsInputsOfAnotherSize) {
  const nn::Module model = nn::sequential(nn::linear(5));
  (void)model(placeholder("x", Type::kF32, {50, 3}));
  const Error error = test::error_of([&] { model(placeholder("x", Type::kF32, {50, 4})); });
  EXPECT_STREQ(
      error.what(),
      "linear(5): the last axis of the input 'x' [50, 4] has size 4, but parameter '0.weight' [5, 3] "
      "expects 3");
  EXPECT_THROW((void)model(placeholder("x", Type::kU8, {50, 3})), Error);
}

TEST(NnTest, LstmHasTheGatesOfPyTorch) {
  const auto layer = nn::named("cell", nn::lstm(2, {.type = Type::kF64}));
  const testing::Lstm expected(3, 2, 2, 2, Type::kF64);  // scan_test.cpp compares it with PyTorch
  const Tensor y = layer(permute(expected.x, {1, 0, 2}));
  EXPECT_EQ(y.dims(), (Dims{2, 3, 2}));
  EXPECT_EQ(names_of(layer), (std::vector<std::string>{"cell.weight_ih", "cell.weight_hh", "cell.bias"}));
  testing::Leaves leaves;
  const auto parameters = nn::parameters(layer);
  const std::vector<Tensor> same = {expected.wx, expected.wh, expected.bias};
  std::vector<double> numbers;
  for (int i = 0; i < 16; ++i) {
    numbers.push_back(std::sin(0.7 * i));
  }
  leaves.bind(expected.x, std::vector<double>(numbers.begin(), numbers.begin() + 12));
  for (std::size_t i = 0; i < same.size(); ++i) {
    numbers.resize(same[i].element_count());
    leaves.bind(same[i], numbers).bind(parameters[i].tensor(), numbers);
  }
  const std::vector<double> got = values<double>(permute(y, {1, 0, 2}), leaves);
  const std::vector<double> wanted = values<double>(expected.ys, leaves);
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    EXPECT_NEAR(got[i], wanted[i], 1e-15) << "element " << i;
  }
  const Error error = test::error_of([&] { layer(placeholder("x", Type::kF64, {50, 4})); });
  EXPECT_STREQ(error.what(), "lstm(2): the input 'x' [50, 4] is f64; it must be f64 [batch, time, in]");
}

TEST(NnTest, ParameterNamesArePaths) {
  const nn::Module model =
      nn::sequential(nn::linear(4), nn::relu(), nn::sequential(nn::linear(4, {.bias = false}), nn::linear(2)),
                     nn::named("head", nn::linear(1)));
  EXPECT_EQ(names_of(model), (std::vector<std::string>{"0.weight", "0.bias", "2.0.weight", "2.1.weight",
                                                       "2.1.bias", "3.head.weight", "3.head.bias"}));
}

TEST(NnTest, ParametersAreOrderedByMember) {
  const nn::Module model = nn::sequential(nn::linear(4), nn::relu(), nn::linear(2));
  const Tensor y = model(placeholder("x", Type::kF32, {5, 3}));
  const auto by_module = nn::parameters(model);
  const auto by_graph = parameters_of(sum(y));
  ASSERT_EQ(by_module.size(), by_graph.size());
  for (std::size_t i = 0; i < by_graph.size(); ++i) {
    EXPECT_TRUE(by_module[i].is(by_graph[i])) << i;
  }
}

TEST(NnTest, RepeatedMemberSharesItsParameters) {
  const nn::Module layer = nn::linear(3);
  const nn::Module model = nn::sequential(layer, nn::tanh(), layer);
  (void)model(placeholder("x", Type::kF32, {5, 3}));
  EXPECT_EQ(names_of(model), (std::vector<std::string>{"0.weight", "0.bias"}));
}

TEST(NnTest, EmbeddingGathersRows) {
  const auto layer = nn::embedding(3, 2);
  set(nn::parameters(layer)[0], {1, 2, 3, 4, 5, 6});
  EXPECT_EQ(values<float>(layer(tensor<std::int64_t>({2, 0}, {2}))), (Floats{5, 6, 1, 2}));
}

TEST(NnTest, ActivationsGiveTheExpectedValues) {
  const Tensor x = tensor<float>({-1, 0, 2}, {3});
  EXPECT_EQ(values<float>(nn::relu()(x)), (Floats{0, 0, 2}));
  EXPECT_NEAR(values<float>(nn::tanh()(x))[2], std::tanh(2.0), 1e-6);
  EXPECT_NEAR(values<float>(nn::sigmoid()(x))[0], 1 / (1 + std::exp(1.0)), 1e-6);
  EXPECT_NEAR(values<float>(nn::gelu()(x))[2], 1.9544997, 1e-6);
  EXPECT_NEAR(values<float>(nn::gelu()(x))[0], -0.1586553, 1e-6);
  const double total = std::exp(-1.0) + 1 + std::exp(2.0);
  EXPECT_NEAR(values<float>(nn::softmax()(x))[0], std::exp(-1.0) / total, 1e-6);
  EXPECT_NEAR(values<float>(nn::log_softmax()(x))[1], -std::log(total), 1e-6);
  EXPECT_EQ(nn::flatten()(placeholder("x", Type::kF32, {5, 2, 3})).dims(), (Dims{5, 6}));
}

TEST(DropoutTest, DropsTheGivenFractionAndScalesTheRest) {
  int dropped = 0;
  for (const float value :
       values<float>(in_mode(nn::dropout(0.25)(tensor<float>(Floats(10000, 3), {10000})), Mode::kTrain))) {
    ASSERT_TRUE(value == 0 || value == 4);
    dropped += value == 0 ? 1 : 0;
  }
  EXPECT_NEAR(dropped, 2500, 180);  // four standard deviations of 43
}

TEST(DropoutTest, MaskIsSharedByForwardAndBackwardAndChangesEveryStep) {
  const Tensor x = tensor<float>(Floats(64, 2), {64}, "x");
  const Tensor y = in_mode(nn::dropout(0.5)(x), Mode::kTrain);
  const Lowered lowered = lower("p", {{"y", y}, {"dx", gradients(sum(y), {x})[0]}});
  std::vector<Floats> masks;
  for (const std::int64_t step : {0, 1}) {
    testing::Leaves leaves;
    auto results = testing::run(lowered, leaves, {{"step", step}});
    const auto forward = testing::from_bytes<float>(results.at("y"));
    masks.push_back(testing::from_bytes<float>(results.at("dx")));
    for (std::size_t i = 0; i < forward.size(); ++i) {
      EXPECT_EQ(forward[i], 2 * masks.back()[i]);
    }
  }
  EXPECT_NE(masks[0], masks[1]);
}

TEST(DropoutTest, EachUseOfAModuleDrawsItsOwnMask) {
  const nn::Module layer = nn::dropout(0.5);
  const Tensor x = tensor<float>(Floats(64, 1), {64});
  EXPECT_NE(values<float>(in_mode(layer(x) - layer(x), Mode::kTrain)), Floats(64, 0));
}

TEST(DropoutTest, IsInactiveInEvaluation) {
  const Tensor x = placeholder("x", Type::kF32, {64});
  const Tensor y = nn::dropout(0.5)(x);
  EXPECT_TRUE(in_mode(y, Mode::kEval).is(x));
  EXPECT_FALSE(in_mode(y, Mode::kTrain).is(x));
}

// With values of 1, a result is the sum of the weights that are left, scaled by 1 / 0.75.
TEST(DropoutTest, OfAttentionWeightsActsInTrainingOnly) {
  const auto layer = nn::multi_head_attention(8, 2, {.dropout = 0.25});
  const Tensor queries = tensor<float>(Floats(2 * 50 * 2 * 4, 0), {2, 50, 2, 4});
  const Tensor ones = tensor<float>(Floats(2 * 50 * 2 * 4, 1), {2, 50, 2, 4});
  const Tensor y = attention(queries, queries, ones, {.dropout = nn::dropout(0.25)});
  for (const float value : values<float>(in_mode(y, Mode::kEval))) {
    ASSERT_NEAR(value, 1, 1e-6);
  }
  double sum = 0;
  int changed = 0;
  for (const float value : values<float>(in_mode(y, Mode::kTrain))) {
    sum += value / 800;
    changed += std::abs(value - 1) > 1e-3 ? 1 : 0;
  }
  EXPECT_NEAR(sum, 1, 0.03);  // five standard deviations of 0.082 / sqrt(200)
  EXPECT_GT(changed, 400);
  const Tensor x = placeholder("x", Type::kF32, {1, 3, 8});
  const Tensor in_layer = layer->forward(x);
  EXPECT_FALSE(in_mode(in_layer, Mode::kTrain).is(in_mode(in_layer, Mode::kEval)));
}

TEST(DropoutTest, RateMustBeInRange) {
  EXPECT_THROW((void)nn::dropout(1.0), Error);
  EXPECT_THROW((void)nn::dropout(-0.1), Error);
  EXPECT_THROW((void)nn::dropout(std::nan("")), Error);
}

}  // namespace
}  // namespace yoke
