// SPDX-License-Identifier: Apache-2.0
// tests/unit/tensor/module_test.cpp: custom modules, their names and their running state; graphs by mode.
#include <gtest/gtest.h>

#include <cmath>

#include "evaluate.h"

namespace yoke {
namespace {

using testing::values;
using Names = std::vector<std::string>;

Names names_of(const std::vector<Parameter>& parameters) {
  Names names;
  for (const Parameter& parameter : parameters) {
    names.push_back(parameter.name());
  }
  return names;
}

// The README shows it.
class Block : public nn::Layer {
 public:
  Block(std::uint64_t width, std::uint64_t heads)
      : attention_(child("attention", nn::multi_head_attention(width, heads, {.causal = true}))),
        mlp_(child("mlp", nn::sequential(nn::linear(4 * width), nn::gelu(), nn::linear(width)))) {}

  Tensor forward(const Tensor& x) const {
    const Tensor h = x + attention_(norm1_(x));
    return h + mlp_(norm2_(h));
  }

 private:
  nn::Module norm1_ = child("norm1", nn::layer_norm());
  nn::Module norm2_ = child("norm2", nn::layer_norm());
  nn::Handle<nn::MultiHeadAttention> attention_;
  nn::Module mlp_;
};

TEST(ModuleTest, TransformerBlockHasPathsAsNames) {
  const auto model = nn::sequential(nn::make<Block>(8, 2), nn::make<Block>(8, 2));
  EXPECT_EQ(model(placeholder("x", Type::kF32, {3, 5, 8})).dims(), (Dims{3, 5, 8}));
  const Names names = names_of(nn::parameters(model));
  EXPECT_EQ(names.size(), 32U);
  EXPECT_EQ(names[0], "0.norm1.weight");
  EXPECT_EQ(names[4], "0.attention.query.weight");
  EXPECT_EQ(names[12], "0.mlp.0.weight");
  EXPECT_EQ(names[31], "1.mlp.2.bias");
}

// Two inputs, two outputs, and two layers of one kind without names.
class Pair : public nn::Layer {
 public:
  std::pair<Tensor, Tensor> forward(const Tensor& a, const Tensor& b) const {
    return {first_(a), second_(b)};
  }

 private:
  nn::Module first_ = child(nn::linear(2));
  nn::Module second_ = child(nn::linear(3));
};

TEST(ModuleTest, ForwardMayHaveAnyInputsAndOutputs) {
  const auto pair = nn::make<Pair>();
  const auto [a, b] = pair(placeholder("a", Type::kF32, {5, 4}), placeholder("b", Type::kF32, {5, 6}));
  EXPECT_EQ(a.dims(), (Dims{5, 2}));
  EXPECT_EQ(b.dims(), (Dims{5, 3}));
  EXPECT_EQ(names_of(nn::parameters(pair)), (Names{"0.weight", "0.bias", "1.weight", "1.bias"}));
}

TEST(ModuleTest, NamesThatClashOrHaveDotsAreRefused) {
  struct Twice : nn::Layer {
    nn::Module a = child("same", nn::linear(1));
    nn::Module b = child("same", nn::linear(1));
  };
  EXPECT_MESSAGE("the layer has two children or parameters named 'same'; give each its own name",
                 nn::make<Twice>());
  struct Dotted : nn::Layer {
    Parameter w = parameter("a.b", Initializer::zeros());
  };
  EXPECT_MESSAGE("'a.b' cannot name a child or parameter of a layer; use a name without dots",
                 nn::make<Dotted>());
}

TEST(ModuleTest, TiedEmbeddingHasOneTable) {
  const auto table = nn::embedding(5, 3);
  const Tensor ids = placeholder("ids", Type::kI64, {2, 4});
  const Tensor logits = table->logits(table(ids));
  EXPECT_EQ(logits.dims(), (Dims{2, 4, 5}));
  EXPECT_EQ(parameters_of(logits).size(), 1U);
}

TEST(ModeTest, LowerAndGradientsRefuseAGraphWithoutAMode) {
  const Tensor x = placeholder("x", Type::kF32, {4});
  const Tensor y = sum(by_mode(x, x * 2.0F));
  const char* const rest =
      ": the expression has layers that differ between training and evaluation, such as dropout; choose with "
      "in_mode(x, Mode::kTrain) or in_mode(x, Mode::kEval) first";
  EXPECT_MESSAGE((std::string("lower") + rest).c_str(), lower("p", {{"y", y}}));
  EXPECT_MESSAGE((std::string("gradients") + rest).c_str(), gradients(y, {x}));
  EXPECT_MESSAGE(
      "by_mode: 'x' [4] is f32 [4] in training, but f32 [] in evaluation; make them equal in shape and type",
      by_mode(x, y));
}

TEST(ModeTest, ChoosesInTheWholeGraphAndKeepsSharedParts) {
  const Tensor x = tensor<float>({1, 2}, {2});
  const Tensor shared = exp(x);
  const Tensor y = by_mode(shared * 2.0F, shared * 3.0F) + shared;
  const std::vector<Tensor> roots = {y, shared};
  const InMode train = in_mode(roots, Mode::kTrain);
  EXPECT_TRUE(train.values[1].is(shared));
  EXPECT_NEAR(values<float>(train.values[0])[1], 3 * std::exp(2.0), 1e-5);
  EXPECT_NEAR(values<float>(in_mode(y, Mode::kEval))[0], 4 * std::exp(1.0), 1e-5);
}

TEST(ModeTest, WorksInScansAndTheirGradients) {
  const Tensor xs = tensor<float>({1, 2, 3}, {3, 1});
  const auto body = [](const std::vector<Tensor>& carry, const std::vector<Tensor>& x) {
    const Tensor next = by_mode(carry[0] + x[0], carry[0] * x[0]);
    return Scan{{next}, {next}};
  };
  const Tensor last = sum(scan(body, {tensor<float>({1}, {1})}, {xs}).carry[0]);
  const Tensor train = in_mode(last, Mode::kTrain);
  const Tensor eval = in_mode(last, Mode::kEval);
  EXPECT_EQ(values<float>(train), (std::vector<float>{7}));
  EXPECT_EQ(values<float>(eval), (std::vector<float>{6}));
  EXPECT_EQ(values<float>(gradients(eval, {xs})[0]), (std::vector<float>{6, 3, 2}));
}

TEST(ModeTest, ReportsAreTheMeanOverTheUsesOfAState) {
  const Parameter state = Parameter::state("count", Initializer::zeros());
  state.set_dims({}, "the test");
  const Tensor x = tensor<float>({1, 2}, {2});
  const Tensor y =
      report_state(x, state, state.tensor() + 1.0F) + report_state(x, state, state.tensor() + 3.0F);
  const InMode train = in_mode(std::span(&y, 1), Mode::kTrain);
  ASSERT_EQ(train.updates.size(), 1U);
  state.set_values(std::as_bytes(std::span<const float>(std::vector<float>{10})));
  EXPECT_EQ(values<float>(train.updates[0].value), (std::vector<float>{12}));
  EXPECT_EQ(values<float>(train.values[0]), (std::vector<float>{2, 4}));
  EXPECT_TRUE(in_mode(std::span(&y, 1), Mode::kEval).updates.empty());
  EXPECT_MESSAGE("report_state: the next value of 'count' is f32 [2], but the state is f32 []",
                 report_state(x, state, x));
}

TEST(BatchNormTest, RunningStatisticsAreThoseOfPyTorch) {
  // torch.nn.BatchNorm1d(1) after one batch of 1, 2, 3, 6: mean 3, variance 3.5, unbiased 14/3.
  const auto layer = nn::batch_norm();
  const Tensor x = tensor<float>({1, 2, 3, 6}, {4, 1});
  const Tensor y = layer(x);
  const auto states = nn::states(layer);
  ASSERT_EQ(names_of(states), (Names{"running_mean", "running_var"}));
  EXPECT_EQ(names_of(nn::parameters(layer)), (Names{"weight", "bias"}));
  const auto set = [](const Parameter& p, std::vector<float> v) {
    p.set_values(std::as_bytes(std::span(v)));
  };
  set(states[0], {0});
  set(states[1], {1});
  set(nn::parameters(layer)[0], {1});
  set(nn::parameters(layer)[1], {0});
  const InMode train = in_mode(std::span(&y, 1), Mode::kTrain);
  EXPECT_NEAR(values<float>(train.values[0])[0], -2 / std::sqrt(3.5 + 1e-5), 1e-6);
  for (const Update& update : train.updates) {
    const float next = values<float>(update.value)[0];
    EXPECT_NEAR(next, update.leaf.name() == "running_mean" ? 0.3 : 0.9 + 0.1 * 14 / 3, 1e-6);
  }
  EXPECT_NEAR(values<float>(in_mode(y, Mode::kEval))[3], 6, 1e-4);
  const Tensor single = layer(tensor<float>({5}, {1, 1}));
  EXPECT_NEAR(values<float>(in_mode(single, Mode::kEval))[0], 5, 1e-4);
  EXPECT_MESSAGE(
      "a value of shape [1, 1] exists in evaluation only, such as a batch normalization of one value per "
      "channel; "
      "train with more rows per shard and micro-batch",
      in_mode(single, Mode::kTrain));
}

TEST(LayersTest, GiveTheShapesOfTheirFunctions) {
  const Tensor image = placeholder("image", Type::kF32, {2, 8, 8, 3});
  const auto model = nn::sequential(
      nn::conv2d(6, 3, {.padding = ConvPadding::same(), .bias = false}), nn::batch_norm(), nn::relu(),
      nn::residual(nn::sequential(nn::conv2d(8, 3, {.stride = 2, .padding = 1}), nn::group_norm(2)),
                   nn::conv2d(8, 1, {.stride = 2})),
      nn::max_pool(2));
  EXPECT_EQ(model(image).dims(), (Dims{2, 2, 2, 8}));
  EXPECT_EQ(names_of(nn::parameters(model)),
            (Names{"0.weight", "1.weight", "1.bias", "3.block.0.weight", "3.block.0.bias", "3.block.1.weight",
                   "3.block.1.bias", "3.shortcut.weight", "3.shortcut.bias"}));
  EXPECT_EQ(names_of(nn::states(model)), (Names{"1.running_mean", "1.running_var"}));
  EXPECT_EQ(nn::conv_transpose2d(4, 2, {.stride = 2})(image).dims(), (Dims{2, 16, 16, 4}));
  EXPECT_EQ(nn::conv1d(4, 3)(placeholder("x", Type::kF32, {2, 8, 3})).dims(), (Dims{2, 6, 4}));
  EXPECT_EQ(nn::average_pool(4)(image).dims(), (Dims{2, 2, 2, 3}));
  EXPECT_EQ(nn::adaptive_average_pool(3)(image).dims(), (Dims{2, 3, 3, 3}));
  EXPECT_EQ(nn::global_average_pool()(image).dims(), (Dims{2, 3}));
  EXPECT_EQ(nn::global_max_pool()(image).dims(), (Dims{2, 3}));
  const Tensor text = placeholder("text", Type::kF32, {2, 5, 8});
  const Tensor memory = placeholder("memory", Type::kF32, {2, 7, 8});
  EXPECT_EQ(nn::encoder_block(8, 2)(text).dims(), text.dims());
  EXPECT_EQ(nn::decoder_block(8, 2)(text, memory).dims(), text.dims());
  EXPECT_EQ(nn::rms_norm()(text).dims(), text.dims());
  EXPECT_EQ(nn::add_sinusoidal_positions()(nn::learned_positions(9)(text)).dims(), text.dims());
  EXPECT_EQ(nn::gru(4)->run(text, {}).last.hidden.dims(), (Dims{2, 4}));
}

}  // namespace
}  // namespace yoke
