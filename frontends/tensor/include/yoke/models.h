// SPDX-License-Identifier: Apache-2.0
// frontends/tensor/include/yoke/models.h: known models, made of the layers in nn.h.
#pragma once

#include <yoke/nn.h>

#include <cstdint>
#include <string>
#include <string_view>

namespace yoke::models {

// Image models: [batch, height, width, channels] -> [batch, classes].
//
// LeNet-5 with ReLU and max pooling; 61,706 weights for 28 x 28 pixels and 10 classes. At least 14 x 14 pixels.
nn::Module lenet(std::uint64_t class_count);
// ResNet-18 for small images: a 3 x 3 convolution first, and no pooling before the blocks; 11,173,962 weights for 3
// channels and 10 classes. `norm`: options of every batch norm.
nn::Module resnet18(std::uint64_t class_count, const nn::BatchNormOptions& norm = {});

// Models of text: symbol numbers [batch, context] -> logits of the symbol after each one, [batch, context, symbols]. A
// char-mlp only predicts the one after the last: [batch, symbols].
struct GptOptions {
  std::uint64_t layers = 4;
  std::uint64_t heads = 4;
  std::uint64_t width = 128;
  std::uint64_t context = 64;  // the longest
  double dropout = 0;
};
// A decoder-only transformer as GPT-2: pre-norm, GELU, learned positions, and an output layer that shares the
// embedding; no biases. Weights start as N(0, 0.02), those before a residual sum as N(0, 0.02 / sqrt(2 * layers)).
nn::Module gpt(std::uint64_t symbol_count, const GptOptions& options = {});
nn::Module char_bigram(std::uint64_t symbol_count);  // a table of logits that starts at 0
struct CharMlpOptions {
  std::uint64_t width = 10;  // of the embedding
  std::uint64_t hidden = 200;
};
nn::Module char_mlp(std::uint64_t symbol_count, const CharMlpOptions& options = {});
struct CharLstmOptions {
  std::uint64_t layers = 1;
  std::uint64_t width = 128;
};
nn::Module char_lstm(std::uint64_t symbol_count, const CharLstmOptions& options = {});

// The targets that logits are for: `targets` or, if these are [batch, context] and the logits [batch, symbols], the
// last ones, [batch].
Tensor targets_of(const Tensor& logits, const Tensor& targets);

// A text model by the name that the command has for it, with options after a colon: "char-bigram",
// "char-mlp:hidden=300", "char-lstm:width=64,context=32", "gpt:layers=4,heads=4,width=128,context=64".
struct TextModel {
  nn::Module module;
  std::uint64_t context = 0;
  bool predicts_last = false;  // only the symbol after the last one
};
bool is_text_model(std::string_view name);
// Error kInvalidArgument: an option is unknown (the message lists them), or not 1 to 65,536 (layers: 1,000).
TextModel text_model(std::string_view name, std::uint64_t symbol_count);

}  // namespace yoke::models
