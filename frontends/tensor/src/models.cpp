// SPDX-License-Identifier: Apache-2.0
// frontends/tensor/src/models.cpp: known models.
#include <yoke/losses.h>
#include <yoke/models.h>
#include <yoke/runtime/closest.h>

#include <array>
#include <charconv>
#include <cmath>
#include <map>
#include <vector>

#include "node.h"

namespace yoke::models {

nn::Module lenet(std::uint64_t class_count) {
  return nn::sequential(nn::conv2d(6, 5, {.padding = 2}), nn::relu(), nn::max_pool(2), nn::conv2d(16, 5),
                        nn::relu(), nn::max_pool(2), nn::flatten(), nn::linear(120), nn::relu(),
                        nn::linear(84), nn::relu(), nn::linear(class_count));
}

namespace {

nn::Module conv3(std::uint64_t out, std::uint64_t stride) {
  return nn::conv2d(out, 3, {.stride = stride, .padding = 1, .bias = false});
}

nn::Module basic_block(std::uint64_t out, std::uint64_t stride, bool has_shortcut,
                       const nn::BatchNormOptions& norm) {
  const nn::Module block = nn::sequential(conv3(out, stride), nn::batch_norm(norm), nn::relu(), conv3(out, 1),
                                          nn::batch_norm(norm));
  const nn::Module shortcut =
      has_shortcut
          ? nn::sequential(nn::conv2d(out, 1, {.stride = stride, .bias = false}), nn::batch_norm(norm))
          : nn::Module();
  return nn::sequential(nn::residual(block, shortcut), nn::relu());
}

class Gpt final : public nn::Layer {
 public:
  Gpt(std::uint64_t symbol_count, const GptOptions& options)
      : table_(child("embedding", nn::embedding(symbol_count, options.width,
                                                {.init = Initializer::normal(0, kDeviation)}))),
        positions_(child("positions", nn::learned_positions(options.context, kDeviation))),
        dropout_(nn::dropout(options.dropout)) {
    const Initializer inner = Initializer::normal(0, kDeviation);
    const Initializer output =
        Initializer::normal(0, kDeviation / std::sqrt(2.0 * static_cast<double>(options.layers)));
    const auto norm = [] { return nn::layer_norm({.bias = false}); };
    nn::BlockOptions block;
    block.dropout = options.dropout;
    block.activation = [](const Tensor& x) { return gelu(x); };
    block.norm = norm;
    block.attention.causal = true;
    block.attention.bias = block.linear.bias = false;
    block.attention.weight_init = block.linear.weight_init = inner;
    block.attention.output_init = block.output_init = output;
    std::vector<nn::Module> blocks;
    for (std::uint64_t i = 0; i < options.layers; ++i) {
      blocks.push_back(nn::encoder_block(options.width, options.heads, block));
    }
    blocks_ = child("blocks", nn::sequential(std::move(blocks)));
    norm_ = child("norm", norm());
  }

  Tensor forward(const Tensor& ids) const {
    return table_->logits(norm_(blocks_(dropout_(positions_(table_(ids))))));
  }

 private:
  static constexpr double kDeviation = 0.02;
  nn::Handle<nn::Embedding> table_;
  nn::Module positions_, dropout_, blocks_, norm_;
};

}  // namespace

nn::Module resnet18(std::uint64_t class_count, const nn::BatchNormOptions& norm) {
  std::vector<nn::Module> members = {conv3(64, 1), nn::batch_norm(norm), nn::relu()};
  for (const std::uint64_t width : std::vector<std::uint64_t>{64, 128, 256, 512}) {
    members.push_back(basic_block(width, width == 64 ? 1 : 2, width != 64, norm));
    members.push_back(basic_block(width, 1, false, norm));
  }
  members.push_back(nn::global_average_pool());
  members.push_back(nn::linear(class_count));
  return nn::sequential(std::move(members));
}

nn::Module gpt(std::uint64_t symbol_count, const GptOptions& options) {
  return nn::make<Gpt>(symbol_count, options);
}

nn::Module char_bigram(std::uint64_t symbol_count) {
  return nn::embedding(symbol_count, symbol_count, {.init = Initializer::zeros()});
}

nn::Module char_mlp(std::uint64_t symbol_count, const CharMlpOptions& options) {
  return nn::sequential(nn::embedding(symbol_count, options.width), nn::flatten(), nn::linear(options.hidden),
                        nn::tanh(), nn::linear(symbol_count));
}

nn::Module char_lstm(std::uint64_t symbol_count, const CharLstmOptions& options) {
  std::vector<nn::Module> members = {nn::embedding(symbol_count, options.width)};
  for (std::uint64_t i = 0; i < options.layers; ++i) {
    members.push_back(nn::lstm(options.width));
  }
  members.push_back(nn::linear(symbol_count));
  return nn::sequential(std::move(members));
}

Tensor targets_of(const Tensor& logits, const Tensor& targets) {
  detail::require(logits, "targets_of");
  detail::require(targets, "targets_of");
  if (logits.rank() != 2 || targets.rank() != 2) {
    return targets;
  }
  const std::uint64_t length = targets.dims()[1];
  return squeeze(slice(targets, 1, length - 1, length), 1);
}

namespace {

using Numbers = std::map<std::string, std::uint64_t, std::less<>>;

struct Known {
  std::string_view name;
  Numbers defaults;
};

const std::array<Known, 4>& known_models() {
  static const std::array<Known, 4> known = {
      {{"char-bigram", {{"context", 64}}},
       {"char-mlp", {{"context", 3}, {"width", 10}, {"hidden", 200}}},
       {"char-lstm", {{"context", 64}, {"layers", 1}, {"width", 128}}},
       {"gpt", {{"context", 64}, {"layers", 4}, {"heads", 4}, {"width", 128}}}}};
  return known;
}

const Known* find_model(std::string_view name) {
  for (const Known& one : known_models()) {
    if (one.name == name.substr(0, name.find(':'))) {
      return &one;
    }
  }
  return nullptr;
}

constexpr std::uint64_t kMostOthers = 65'536;
constexpr std::uint64_t kMostLayers = 1000;

// "layers=4,heads=4" over the defaults.
Numbers parse(std::string_view name, const Known& model) {
  Numbers numbers = model.defaults;
  Numbers given;
  const std::size_t colon = name.find(':');
  std::string_view rest = colon == std::string_view::npos ? std::string_view() : name.substr(colon + 1);
  bool has_more = colon != std::string_view::npos;
  while (has_more) {
    const std::size_t comma = rest.find(',');
    const std::string_view part = rest.substr(0, comma);
    has_more = comma != std::string_view::npos;
    rest = has_more ? rest.substr(comma + 1) : std::string_view();
    const std::size_t equals = std::min(part.find('='), part.size());
    const auto found = numbers.find(part.substr(0, equals));
    const std::string_view text = part.substr(std::min(equals + 1, part.size()));
    std::uint64_t number = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
    if (found == numbers.end() || error != std::errc() || end != text.data() + text.size() || number < 1 ||
        number > (found->first == "layers" ? kMostLayers : kMostOthers)) {
      std::string options;
      std::vector<std::string> names;
      for (const auto& [option, value] : model.defaults) {
        options += (options.empty() ? "" : ",") + option + "=" + std::to_string(value);
        names.push_back(option);
      }
      detail::fail(
          "model '" + std::string(name) + "': '" + std::string(part) +
          (found == numbers.end() ? "' is not an option; use " : "' has no whole number in range; use ") +
          std::string(model.name) + ":" + options +
          ", with whole numbers from 1 to 65536, at most 1000 layers" +
          (found == numbers.end() ? did_you_mean(part.substr(0, equals), names) : ""));
    }
    if (!given.emplace(found->first, number).second) {
      detail::fail("model '" + std::string(name) + "': the option '" + found->first +
                   "' is given more than once; give it once");
    }
    found->second = number;
  }
  return numbers;
}

}  // namespace

bool is_text_model(std::string_view name) {
  return find_model(name) != nullptr;
}

TextModel text_model(std::string_view name, std::uint64_t symbol_count) {
  const Known* model = find_model(name);
  if (model == nullptr) {
    detail::fail(
        "unknown text model '" + std::string(name) +
        "'; use char-bigram, char-mlp, char-lstm or gpt, with options as in "
        "gpt:layers=4,heads=4,width=128,context=64" +
        did_you_mean(name.substr(0, name.find(':')), {"char-bigram", "char-mlp", "char-lstm", "gpt"}));
  }
  const Numbers numbers = parse(name, *model);
  const auto number = [&](const char* option) { return numbers.find(option)->second; };
  const std::uint64_t context = number("context");
  if (model->name == "char-bigram") {
    return {char_bigram(symbol_count), context};
  }
  if (model->name == "char-mlp") {
    return {char_mlp(symbol_count, {number("width"), number("hidden")}), context, true};
  }
  if (model->name == "char-lstm") {
    return {char_lstm(symbol_count, {number("layers"), number("width")}), context};
  }
  return {gpt(symbol_count, {number("layers"), number("heads"), number("width"), context}), context};
}

}  // namespace yoke::models
