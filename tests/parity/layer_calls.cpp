// SPDX-License-Identifier: Apache-2.0
// tests/parity/layer_calls.cpp: calls of layers, whose parameters have random values.
#include <utility>

#include "calls.h"

namespace yoke::parity {
namespace {

// A call of a layer that has been applied to `inputs`: gives its parameters values, and adds them to the inputs.
template <class M>
Call layer_call(Random& random, const Json& options, std::vector<Tensor> inputs, std::size_t differentiable,
                const M& layer, const Tensor& output) {
  for (const Parameter& parameter : nn::parameters(layer)) {
    const Tensor values = random.floats(parameter.dims(), -1, 1);
    parameter.set_values(values.host_bytes());
    inputs.push_back(parameter.tensor());
  }
  return {options, inputs, differentiable, in_mode(output, Mode::kTrain)};
}

template <class M>
Call recurrent_call(Random& random, const M& layer) {
  const Tensor x = random.floats({random.size(1, 3), random.size(1, 4), random.size(1, 4)});
  const Tensor y = layer(x);
  return layer_call(random, Json::object(), {x}, 1 + nn::parameters(layer).size(), layer, y);
}

Call multi_head_attention_call(Random& random) {
  const std::uint64_t heads = random.size(1, 3);
  const std::uint64_t width = heads * random.size(1, 3);
  const std::uint64_t batch = random.size(1, 3);
  const Tensor x = random.floats({batch, random.size(1, 5), width});
  const Tensor context = random.floats({batch, random.size(1, 5), random.flag() ? width : width + 1});
  const std::uint64_t keys = context.dims()[1];
  const Tensor lengths = tensor<std::int64_t>(
      std::vector<std::int64_t>(batch, static_cast<std::int64_t>(random.size(1, keys))), {batch});
  const auto layer = nn::multi_head_attention(width, heads, {.type = random.type()});
  const Tensor y = layer(x, context, nn::padding_mask(lengths, keys));
  return layer_call(random, {{"heads", heads}}, {x, context, lengths}, 2, layer, y);
}

nn::BlockOptions block_options(Random& random, Json& options) {
  nn::BlockOptions block{.hidden = random.size(1, 6), .dropout = 0, .norm_first = random.flag()};
  block.norm = [type = random.type()] { return nn::layer_norm({.type = type}); };
  block.attention = {.causal = true, .type = random.type()};
  block.linear = {.type = random.type()};
  options = {{"heads", 2}, {"hidden", block.hidden}, {"norm_first", block.norm_first}};
  return block;
}

Call encoder_block_call(Random& random) {
  Json options;
  const Tensor x = random.floats({random.size(1, 3), random.size(1, 4), 4});
  const auto layer = nn::encoder_block(4, 2, block_options(random, options));
  const Tensor y = layer(x);
  return layer_call(random, options, {x}, 17, layer, y);
}

Call decoder_block_call(Random& random) {
  Json options;
  const std::uint64_t batch = random.size(1, 3);
  const Tensor x = random.floats({batch, random.size(1, 4), 4});
  const Tensor memory = random.floats({batch, random.size(1, 4), 4});
  const auto layer = nn::decoder_block(4, 2, block_options(random, options));
  const Tensor y = layer(x, memory);
  return layer_call(random, options, {x, memory}, 28, layer, y);
}

Call running_statistics_call(Random& random) {
  Dims dims{random.size(2, 4), random.size(1, 4), random.size(1, 3)};
  const Tensor x = random.floats(dims);
  const auto layer = nn::batch_norm({.momentum = 0.3, .affine = false, .type = random.type()});
  const Tensor y = layer(x);
  std::vector<Tensor> inputs = {x};
  for (const Parameter& state : nn::states(layer)) {
    state.set_values(random.floats({dims[2]}, 0.5, 2).host_bytes());
    inputs.push_back(state.tensor());
  }
  const InMode train = in_mode(std::span(&y, 1), Mode::kTrain);
  std::vector<Tensor> next;
  for (const Tensor& state : {inputs[1], inputs[2]}) {
    for (const Update& update : train.updates) {
      if (update.leaf.is(state)) {
        next.push_back(update.value);
      }
    }
  }
  return {{{"momentum", 0.3}}, inputs, 0, stack(next)};
}

// Embedding, and an output layer with the same weights.
Call tied_embedding_call(Random& random) {
  const std::uint64_t count = random.size(2, 6);
  const Tensor ids = random.integers({random.size(1, 3), random.size(1, 4)}, count);
  const auto layer = nn::embedding(count, random.size(1, 4), {.type = random.type()});
  const Tensor y = layer->logits(tanh(layer(ids)));
  const Parameter table = nn::parameters(layer)[0];
  table.set_values(random.floats(table.dims(), -1, 1).host_bytes());
  return {Json::object(), {table.tensor(), ids}, 1, y};
}

Call linear_call(Random& random) {
  const Tensor x = random.floats({random.size(1, 3), random.size(1, 3), random.size(1, 4)});
  const auto layer = nn::linear(random.size(1, 4), {.type = random.type()});
  const Tensor y = layer(x);
  return layer_call(random, Json::object(), {x}, 3, layer, y);
}

Call grouped_attention_call(Random& random) {
  const std::uint64_t key_heads = random.size(1, 2);
  const std::uint64_t heads = key_heads * random.size(1, 3);
  const Tensor x = random.floats({random.size(1, 3), random.size(1, 5), heads * random.size(1, 3)});
  const bool causal = random.flag();
  const auto layer = nn::multi_head_attention(
      x.dims()[2], heads, {.key_heads = key_heads, .causal = causal, .type = random.type()});
  const Tensor y = layer(x);
  return layer_call(random, {{"heads", heads}, {"key_heads", key_heads}, {"causal", causal}}, {x}, 9, layer,
                    y);
}

Call learned_positions_call(Random& random) {
  const Tensor x = random.floats({random.size(1, 3), random.size(1, 6), random.size(1, 4)});
  const nn::Module layer = nn::learned_positions(6, 0.02, random.type());
  const Tensor y = layer(x);
  return layer_call(random, Json::object(), {x}, 2, layer, y);
}

const Named kLayers[] = {
    {"lstm", [](Random& r) { return recurrent_call(r, nn::lstm(r.size(1, 4), {.type = r.type()})); }},
    {"gru", [](Random& r) { return recurrent_call(r, nn::gru(r.size(1, 4), {.type = r.type()})); }},
    {"multi_head_attention", multi_head_attention_call},
    {"encoder_block", encoder_block_call},
    {"decoder_block", decoder_block_call},
    {"running_statistics", running_statistics_call},
    {"linear", linear_call},
    {"tied_embedding", tied_embedding_call},
    {"grouped_attention", grouped_attention_call},
    {"learned_positions", learned_positions_call},
};

}  // namespace

std::span<const Named> layers() {
  return kLayers;
}

}  // namespace yoke::parity
