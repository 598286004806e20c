// SPDX-License-Identifier: Apache-2.0
// tests/unit/embedding/module_arguments_test.cpp: layers and models with empty and invalid arguments.
#include <yoke/yoke.h>

#include <functional>
#include <limits>
#include <vector>

#include "rig.h"

namespace yoke::test {
namespace {

constexpr ErrorCode kInvalid = ErrorCode::kInvalidArgument;
constexpr ErrorCode kEmpty = ErrorCode::kFailedPrecondition;

const Tensor kNone;
const Tensor kMatrix = placeholder("m", Type::kF32, {2, 3});
const Tensor kSequences = placeholder("s", Type::kF32, {2, 3, 4});  // [batch, length, width]

struct Nothing : nn::Layer {
  Tensor forward(const Tensor&) { return {}; }
};

TEST(ModuleArguments, Layers) {
  EXPECT_ERROR(kEmpty, (void)nn::Module()(kMatrix));
  EXPECT_FALSE(nn::Module(nn::Handle<nn::Embedding>()));
  EXPECT_ERROR(kEmpty, (void)nn::Handle<nn::Embedding>()(kMatrix));
  EXPECT_EQ(nn::Module().layer(), nullptr);
  EXPECT_TRUE(nn::parameters(nn::Module()).empty());
  EXPECT_FALSE(nn::Handle<nn::Embedding>(nullptr));
  EXPECT_ERROR(kInvalid, (void)nn::sequential(nn::Module(), nn::relu()));
  EXPECT_ERROR(kInvalid, (void)nn::sequential(std::vector<nn::Module>(1)));
  EXPECT_TRUE(nn::sequential(std::vector<nn::Module>())(kMatrix).is(kMatrix));
  EXPECT_ERROR(kInvalid, (void)nn::linear(0));
  EXPECT_ERROR(kInvalid, (void)nn::linear(0, {.bias = false})(kMatrix));
  EXPECT_ERROR(kInvalid, (void)nn::embedding(0, 0));
  EXPECT_ERROR(kInvalid, (void)nn::lstm(0));
  EXPECT_ERROR(kInvalid, (void)nn::dropout(std::numeric_limits<double>::quiet_NaN()));
  for (const nn::Module& module : std::vector<nn::Module>{
           nn::linear(2), nn::embedding(2, 2), nn::lstm(2), nn::relu(), nn::tanh(), nn::sigmoid(), nn::gelu(),
           nn::silu(), nn::softmax(), nn::log_softmax(), nn::dropout(0.5), nn::flatten(), nn::average_pool(2),
           nn::max_pool(2), nn::adaptive_average_pool(2), nn::global_average_pool(), nn::global_max_pool()}) {
    EXPECT_THROW((void)module(kNone), Error);
  }
  EXPECT_FALSE(nn::Module(nn::make<Nothing>())(kMatrix));
  EXPECT_TRUE(Nothing().parameters().empty());
  EXPECT_TRUE(in_mode(nn::dropout(0.5)(kMatrix), static_cast<Mode>(99)));
  EXPECT_FALSE(in_mode(kNone, Mode::kTrain));
  EXPECT_TRUE(in_mode(std::span<const Tensor>(), Mode::kEval).values.empty());
  const std::vector<Tensor> empty_tensor(1);
  EXPECT_FALSE(in_mode(empty_tensor, Mode::kTrain).values.at(0));
  EXPECT_ERROR(kInvalid, (void)by_mode(kMatrix, kNone));
  EXPECT_ERROR(kInvalid, (void)in_mode(by_mode(kNone, kMatrix), Mode::kTrain));
  const Parameter state = Parameter::state("s", Initializer::zeros());
  EXPECT_ERROR(kInvalid, (void)report_state(kMatrix, {}, kMatrix));
  EXPECT_ERROR(kInvalid, (void)report_state(kNone, state, kMatrix));
  EXPECT_ERROR(kInvalid, (void)report_state(kMatrix, state, kNone));
  EXPECT_ERROR(kInvalid, (void)nn::named("", nn::linear(2)));
  EXPECT_ERROR(kInvalid, (void)nn::named("name", nn::Module()));
  EXPECT_ERROR(kInvalid, (void)nn::function({}));
  EXPECT_ERROR(kInvalid, (void)nn::residual({}));
  EXPECT_ERROR(kInvalid, (void)nn::conv2d(0, 3)(zeros(Type::kF32, {1, 4, 4, 1})));
  EXPECT_ERROR(kInvalid, (void)nn::conv2d(4, {1, 2, 3}));
  EXPECT_ERROR(kInvalid, (void)nn::conv2d(4, {}));
  const Tensor pooled = placeholder("pooled", Type::kF32, {1, 4, 4, 1});
  EXPECT_ERROR(kInvalid, (void)nn::max_pool({})(pooled));
  EXPECT_ERROR(kInvalid, (void)nn::average_pool({})(pooled));
  EXPECT_ERROR(kInvalid, (void)nn::adaptive_average_pool({})(pooled));
  EXPECT_ERROR(kInvalid, (void)nn::conv2d(4, 3, {.groups = 0}));
  EXPECT_ERROR(kInvalid, (void)nn::batch_norm({.momentum = 2}));
  EXPECT_ERROR(kInvalid, (void)nn::gru(0));
  EXPECT_ERROR(kInvalid, (void)nn::learned_positions(0)(zeros(Type::kF32, {1, 1, 1})));
  EXPECT_ERROR(kInvalid, (void)nn::multi_head_attention(4, 0));
  EXPECT_ERROR(kInvalid, (void)nn::multi_head_attention(4, 3));
  EXPECT_ERROR(kInvalid, (void)nn::padding_mask(kMatrix, 3));
  EXPECT_ERROR(kInvalid, (void)nn::padding_mask(kNone, 3));
}

TEST(ModuleArguments, Names) {
  const nn::Module module = nn::linear(2);
  EXPECT_ERROR(kEmpty, nn::fail_empty());
  EXPECT_ERROR(kInvalid, nn::add_name(nullptr, "name"));
  EXPECT_ERROR(kInvalid, nn::add_name(module.layer().get(), ""));
  EXPECT_EQ(nn::parameters(module).at(0).name(), "weight");
  EXPECT_TRUE(nn::states(nn::Module()).empty());
  EXPECT_TRUE(Nothing().states().empty());
  EXPECT_TRUE(nn::parameters_and_states(nn::Module()).empty());
  EXPECT_TRUE(Nothing().parameters_and_states().empty());
}

TEST(ModuleArguments, Convolutions) {
  EXPECT_ERROR(kInvalid, (void)nn::conv1d(0, 3));
  EXPECT_ERROR(kInvalid, (void)nn::conv1d(4, 3, {.groups = 3}));
  EXPECT_ERROR(kInvalid, (void)nn::conv1d(4, 3)(kNone));
  EXPECT_ERROR(kInvalid, (void)nn::conv1d(4, 3)(kMatrix));
  EXPECT_ERROR(kInvalid, (void)nn::conv1d(4, 0)(kSequences));
  EXPECT_ERROR(kInvalid, (void)nn::conv1d(0, 3, {.bias = false})(kSequences));
  EXPECT_ERROR(kInvalid, (void)nn::conv1d(4, 3, {.stride = 0})(kSequences));
  const Tensor image = placeholder("image", Type::kF32, {1, 3, 3, 2});
  EXPECT_ERROR(kInvalid, (void)nn::conv_transpose2d(0, 2));
  EXPECT_ERROR(kInvalid, (void)nn::conv_transpose2d(4, {}));
  EXPECT_ERROR(kInvalid, (void)nn::conv_transpose2d(4, 2, {.groups = 0}));
  EXPECT_ERROR(kInvalid, (void)nn::conv_transpose2d(4, 2)(kNone));
  EXPECT_ERROR(kInvalid, (void)nn::conv_transpose2d(4, 2)(kMatrix));
  EXPECT_ERROR(kInvalid, (void)nn::conv_transpose2d(4, 0)(image));
  EXPECT_ERROR(kInvalid, (void)nn::conv_transpose2d(4, 2, {.stride = 0})(image));
  EXPECT_ERROR(kInvalid, (void)nn::conv_transpose2d(4, 2, {.stride = {}})(image));
}

TEST(ModuleArguments, Sequences) {
  EXPECT_ERROR(kInvalid, (void)nn::embedding(2, 2)->logits(kNone));
  EXPECT_ERROR(kInvalid, (void)nn::embedding(2, 2)->logits(kMatrix));
  EXPECT_ERROR(kEmpty, (void)nn::Handle<nn::Embedding>()->logits(kMatrix));
  EXPECT_ERROR(kInvalid, nn::Embedding(0, 0, {}));
  EXPECT_ERROR(kInvalid, nn::Lstm(0, {}));
  EXPECT_ERROR(kInvalid, (void)nn::Lstm(2, {}).run(kNone, {}));
  EXPECT_ERROR(kInvalid, (void)nn::Lstm(2, {}).run(kSequences, {.hidden = kMatrix}));
  EXPECT_ERROR(kInvalid, (void)nn::Lstm(2, {}).run(kSequences, {.hidden = {}, .cell = kMatrix}));
  EXPECT_ERROR(kInvalid, nn::Gru(0, {}));
  EXPECT_ERROR(kInvalid, (void)nn::Gru(2, {}).run(kNone, {}));
  EXPECT_ERROR(kInvalid, (void)nn::Gru(2, {}).run(kSequences, {.hidden = kMatrix}));
  EXPECT_ERROR(kInvalid, (void)nn::add_sinusoidal_positions()(kNone));
  EXPECT_ERROR(kInvalid, (void)nn::add_sinusoidal_positions()(kMatrix));
  EXPECT_ERROR(kInvalid, (void)nn::add_sinusoidal_positions()(cast(kSequences, Type::kI32)));
}

TEST(ModuleArguments, Transformers) {
  EXPECT_ERROR(kInvalid, nn::MultiHeadAttention(4, 0, {}));
  EXPECT_ERROR(kInvalid, nn::MultiHeadAttention(0, 1, {}));
  EXPECT_ERROR(kInvalid, nn::MultiHeadAttention(4, 2, {.key_heads = 3}));
  EXPECT_ERROR(kInvalid, (void)nn::multi_head_attention(4, 2)(kNone));
  EXPECT_ERROR(kInvalid, (void)nn::multi_head_attention(4, 2)(kSequences, kMatrix));
  EXPECT_ERROR(kInvalid, (void)nn::multi_head_attention(4, 2)(kSequences, kNone, kMatrix));
  EXPECT_ERROR(kInvalid, nn::EncoderBlock(4, 0, {}));
  EXPECT_ERROR(kInvalid, nn::DecoderBlock(4, 0, {}));
  const auto encoder = [](const nn::BlockOptions& options) { (void)nn::encoder_block(4, 2, options); };
  const auto decoder = [](const nn::BlockOptions& options) { (void)nn::decoder_block(4, 2, options); };
  for (const std::function<void(const nn::BlockOptions&)>& make :
       {std::function(encoder), std::function(decoder)}) {
    EXPECT_ERROR(kInvalid, make({.dropout = 1}));
    EXPECT_ERROR(kInvalid, make({.activation = {}}));
    EXPECT_ERROR(kInvalid, make({.norm = {}}));
    EXPECT_ERROR(kInvalid, make({.norm = [] { return nn::Module(); }}));
    EXPECT_ERROR(kInvalid, make({.attention = {.key_heads = 3}}));
  }
  EXPECT_ERROR(kInvalid, (void)nn::encoder_block(4, 2)(kNone));
  EXPECT_ERROR(kInvalid, (void)nn::encoder_block(4, 2)(kMatrix));
  EXPECT_ERROR(kInvalid, (void)nn::encoder_block(4, 2)(kSequences, kMatrix));
  EXPECT_ERROR(kInvalid, (void)nn::decoder_block(4, 2)(kNone, kSequences));
  EXPECT_ERROR(kInvalid, (void)nn::decoder_block(4, 2)->forward(kNone, kSequences));
  EXPECT_ERROR(kInvalid, (void)nn::decoder_block(4, 2)->forward(kSequences, kNone));
  EXPECT_THAT(error_of([] { (void)nn::decoder_block(4, 2)(kSequences, kNone); }),
              is_error(kInvalid, "decoder_block: memory: an operand is an empty Tensor"));
  EXPECT_ERROR(kInvalid, (void)nn::decoder_block(4, 2)(kSequences, kMatrix));
  EXPECT_ERROR(kInvalid, (void)nn::decoder_block(4, 2)(kSequences, kSequences, kMatrix));
}

TEST(ModuleArguments, Models) {
  EXPECT_ERROR(kInvalid, (void)models::lenet(0));
  EXPECT_ERROR(kInvalid, (void)models::lenet(2)(kNone));
  EXPECT_ERROR(kInvalid, (void)models::lenet(2)(zeros(Type::kF32, {1, 1, 1, 1})));
  EXPECT_ERROR(kInvalid, (void)models::resnet18(0));
  EXPECT_ERROR(kInvalid, (void)models::resnet18(2)(kNone));
  EXPECT_ERROR(kInvalid, (void)models::gpt(0));
  EXPECT_ERROR(kInvalid, (void)models::gpt(2, {.heads = 0}));
  EXPECT_ERROR(kInvalid, (void)models::gpt(2, {.width = 0}));
  EXPECT_ERROR(kInvalid, (void)models::gpt(2, {.dropout = 1}));
  EXPECT_ERROR(kInvalid, (void)models::gpt(2)(kNone));
  const Tensor ids = placeholder("ids", Type::kI32, {2, 3});
  EXPECT_ERROR(kInvalid, (void)models::gpt(2, {.context = 0})(ids));
  EXPECT_EQ(models::gpt(5, {.layers = 0})(ids).dims(), (Dims{2, 3, 5}));
  EXPECT_ERROR(kInvalid, (void)models::char_bigram(0));
  EXPECT_ERROR(kInvalid, (void)models::char_bigram(2)(kNone));
  EXPECT_ERROR(kInvalid, (void)models::char_mlp(0));
  EXPECT_ERROR(kInvalid, (void)models::char_mlp(2, {.width = 0}));
  EXPECT_ERROR(kInvalid, (void)models::char_mlp(2, {.hidden = 0}));
  EXPECT_ERROR(kInvalid, (void)models::char_mlp(2)(kNone));
  EXPECT_ERROR(kInvalid, (void)models::char_lstm(0));
  EXPECT_ERROR(kInvalid, (void)models::char_lstm(2, {.width = 0}));
  EXPECT_ERROR(kInvalid, (void)models::char_lstm(2)(kNone));
  EXPECT_EQ(models::char_lstm(5, {.layers = 0})(ids).dims(), (Dims{2, 3, 5}));
  EXPECT_ERROR(kInvalid, (void)models::targets_of(kNone, kMatrix));
  EXPECT_ERROR(kInvalid, (void)models::targets_of(kMatrix, kNone));
}

TEST(ModuleArguments, NamesOfTextModels) {
  EXPECT_FALSE(models::is_text_model(""));
  EXPECT_FALSE(models::is_text_model(":"));
  EXPECT_TRUE(models::is_text_model("gpt"));
  EXPECT_FALSE(models::TextModel().module);
  for (const char* name : {"", ":", "gpt:", "gpt:heads", "gpt:heads=", "gpt:=1", "gpt:heads=0", "gpt:heads=3",
                           "gpt:heads=4,", "gpt:heads=65537", "char-bigram:width=1"}) {
    EXPECT_ERROR(kInvalid, (void)models::text_model(name, 2)) << name;
  }
  for (const char* name : {"char-bigram", "char-mlp", "char-lstm", "gpt"}) {
    EXPECT_ERROR(kInvalid, (void)models::text_model(name, 0)) << name;
  }
}

}  // namespace
}  // namespace yoke::test
