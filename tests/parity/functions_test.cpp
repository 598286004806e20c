// SPDX-License-Identifier: Apache-2.0
// tests/parity/functions_test.cpp: functions of the frontend on random shapes, compared with PyTorch in f64 and in f32:
// values and gradients. functions.py computes PyTorch's side. YOKE_TEST_SEED changes the shapes.
#include <gtest/gtest.h>
#include <yoke/npz.h>
#include <yoke/yoke.h>

#include <cstdlib>
#include <fstream>
#include <iostream>
#include <nlohmann/json.hpp>
#include <random>

#include "../unit/data/test_files.h"
#include "../unit/tensor/evaluate.h"
#include "test_paths.h"

namespace yoke {
namespace {

using Json = nlohmann::json;

class Random {
 public:
  Random(std::uint64_t seed, Type type) : engine_(seed), type_(type) {}
  Type type() const { return type_; }
  std::uint64_t size(std::uint64_t low, std::uint64_t high) { return low + engine_() % (high - low + 1); }
  bool flag() { return engine_() % 2 == 0; }
  Tensor floats(const Dims& dims, double low = -2, double high = 2) {
    std::vector<double> values(element_count(dims));
    for (double& value : values) {
      value = low + (high - low) * static_cast<double>(engine_() >> 11U) * 0x1p-53;
    }
    return type_ == Type::kF64 ? tensor<double>(values, dims)
                               : tensor<float>(std::vector<float>(values.begin(), values.end()), dims);
  }
  Tensor integers(const Dims& dims, std::uint64_t below) {
    std::vector<std::int64_t> values(element_count(dims));
    for (std::int64_t& value : values) {
      value = static_cast<std::int64_t>(engine_() % below);
    }
    return tensor<std::int64_t>(values, dims);
  }

 private:
  std::mt19937_64 engine_;
  Type type_;
};

// One call: its inputs, the first `differentiable` of which have gradients, its options, and its result.
struct Call {
  Json options;
  std::vector<Tensor> inputs;
  std::size_t differentiable = 0;
  Tensor output;
};

Call conv_call(Random& random) {
  const bool is_plane = random.flag();
  const std::uint64_t groups = random.size(1, 3);
  const std::uint64_t in = random.size(1, 3);
  ConvOptions options{.groups = groups};
  Json padding;
  std::vector<std::uint64_t> stride, dilation;
  Dims x{random.size(1, 2)};
  Dims weight{groups * random.size(1, 3)};
  for (int k = 0; k < (is_plane ? 2 : 1); ++k) {
    x.push_back(random.size(5, 9));
    weight.push_back(random.size(1, 3));
    stride.push_back(random.size(1, 3));
    dilation.push_back(random.size(1, 2));
  }
  x.push_back(groups * in);
  weight.push_back(in);
  if (random.flag()) {
    stride.assign(stride.size(), 1);
    options.padding = ConvPadding::same();
    padding = "same";
  } else {
    const std::uint64_t both = random.size(0, 2);
    options.padding = both;
    padding = both;
  }
  options.stride = is_plane ? PerAxis{stride[0], stride[1]} : PerAxis(stride[0]);
  options.dilation = is_plane ? PerAxis{dilation[0], dilation[1]} : PerAxis(dilation[0]);
  const std::vector<Tensor> inputs{random.floats(x), random.floats(weight)};
  return {{{"stride", stride}, {"dilation", dilation}, {"padding", padding}, {"groups", groups}},
          inputs,
          2,
          conv(inputs[0], inputs[1], options)};
}

Call conv_transpose_call(Random& random) {
  const bool is_plane = random.flag();
  const std::uint64_t groups = random.size(1, 2);
  const std::uint64_t stride = random.size(1, 3);
  const std::uint64_t dilation = random.size(1, 2);
  const std::uint64_t padding = random.size(0, 1);
  const std::uint64_t more = random.size(0, std::max(stride, dilation) - 1);
  Dims x{random.size(1, 2)};
  Dims weight{groups * random.size(1, 2)};
  for (int k = 0; k < (is_plane ? 2 : 1); ++k) {
    x.push_back(random.size(3, 5));
    weight.push_back(random.size(1, 3));
  }
  x.push_back(weight[0]);
  weight.push_back(random.size(1, 3));
  const std::vector<Tensor> inputs{random.floats(x), random.floats(weight)};
  return {{{"stride", stride},
           {"dilation", dilation},
           {"padding", padding},
           {"output_padding", more},
           {"groups", groups}},
          inputs,
          2,
          conv_transpose(inputs[0], inputs[1],
                         {.stride = stride,
                          .dilation = dilation,
                          .padding = padding,
                          .output_padding = more,
                          .groups = groups})};
}

Dims image(Random& random, std::uint64_t channels) {
  Dims dims{random.size(1, 2)};
  for (std::uint64_t k = random.size(1, 2); k > 0; --k) {
    dims.push_back(random.size(6, 9));
  }
  dims.push_back(channels);
  return dims;
}

Call max_pool_call(Random& random) {
  const std::uint64_t window = random.size(1, 3);
  const std::uint64_t stride = random.size(1, 3);
  const std::uint64_t padding = random.size(0, window / 2);
  const std::uint64_t dilation = random.size(1, 2);
  const bool ceil_mode = random.flag();
  const Tensor x = random.floats(image(random, random.size(1, 3)));
  return {{{"window", window},
           {"stride", stride},
           {"padding", padding},
           {"dilation", dilation},
           {"ceil_mode", ceil_mode}},
          {x},
          1,
          max_pool(x, window,
                   {.stride = stride, .padding = padding, .dilation = dilation, .ceil_mode = ceil_mode})};
}

Call average_pool_call(Random& random) {
  const std::uint64_t window = random.size(1, 4);
  const std::uint64_t stride = random.size(1, 3);
  const std::uint64_t padding = random.size(0, window / 2);
  const bool ceil_mode = random.flag();
  const bool count_padding = random.flag();
  const Tensor x = random.floats(image(random, random.size(1, 3)));
  return {
      {{"window", window},
       {"stride", stride},
       {"padding", padding},
       {"ceil_mode", ceil_mode},
       {"count_padding", count_padding}},
      {x},
      1,
      average_pool(
          x, window,
          {.stride = stride, .padding = padding, .ceil_mode = ceil_mode, .count_padding = count_padding})};
}

Call adaptive_average_pool_call(Random& random) {
  const std::uint64_t count = random.size(1, 8);
  const Tensor x = random.floats(image(random, random.size(1, 3)));
  return {{{"count", count}}, {x}, 1, adaptive_average_pool(x, count)};
}

Call layer_norm_call(Random& random) {
  const Dims dims{random.size(1, 3), random.size(1, 4), random.size(2, 5)};
  const std::size_t axes = random.size(1, 2);
  const Dims last(dims.end() - static_cast<std::ptrdiff_t>(axes), dims.end());
  const std::vector<Tensor> inputs{random.floats(dims), random.floats(last), random.floats(last)};
  return {{{"axes", axes}}, inputs, 3, layer_norm(inputs[0], inputs[1], inputs[2], 1e-5, axes)};
}

Call rms_norm_call(Random& random) {
  const Dims dims{random.size(1, 3), random.size(2, 6)};
  const std::vector<Tensor> inputs{random.floats(dims), random.floats({dims[1]})};
  return {{{"eps", 1e-6}}, inputs, 2, rms_norm(inputs[0], inputs[1])};
}

Call group_norm_call(Random& random) {
  const std::uint64_t groups = random.size(1, 3);
  const std::uint64_t channels = groups * random.size(1, 3);
  const std::vector<Tensor> inputs{random.floats(image(random, channels)), random.floats({channels}),
                                   random.floats({channels})};
  return {{{"groups", groups}}, inputs, 3, group_norm(inputs[0], groups, inputs[1], inputs[2])};
}

Call batch_norm_call(Random& random) {
  const std::uint64_t channels = random.size(1, 3);
  const bool training = random.flag();
  std::vector<Tensor> inputs{random.floats(image(random, channels)), random.floats({channels}),
                             random.floats({channels}), random.floats({channels}),
                             random.floats({channels}, 0.1, 2)};
  const Moments running{inputs[3], inputs[4]};
  const Tensor output =
      batch_norm(inputs[0], training ? channel_moments(inputs[0]) : running, inputs[1], inputs[2]);
  return {{{"training", training}}, inputs, 3, output};
}

Call attention_call(Random& random) {
  const std::uint64_t batch = random.size(1, 2);
  const std::uint64_t key_heads = random.size(1, 2);
  const std::uint64_t heads = key_heads * random.size(1, 3);
  const std::uint64_t queries = random.size(1, 5);
  const std::uint64_t keys = random.size(1, 5);
  const std::uint64_t size = random.size(1, 4);
  std::vector<Tensor> inputs{random.floats({batch, queries, heads, size}),
                             random.floats({batch, keys, key_heads, size}),
                             random.floats({batch, keys, key_heads, random.size(1, 4)})};
  AttentionOptions options{.causal = random.flag()};
  const bool is_masked = !options.causal && random.flag();
  if (is_masked) {
    inputs.push_back(random.integers({batch, heads, queries, keys}, 3));  // 0: not seen
    options.mask = inputs[3] > 0;
  }
  return {{{"causal", options.causal}}, inputs, 3, attention(inputs[0], inputs[1], inputs[2], options)};
}

Call cross_entropy_call(Random& random) {
  const Dims rows{random.size(1, 3), random.size(1, 3)};
  const std::uint64_t classes = random.size(2, 5);
  const double smoothing = random.flag() ? 0.1 : 0;
  const std::uint64_t ignored = random.flag() ? 0 : classes;  // `classes`: none is ignored
  const std::vector<Tensor> inputs{
      random.floats({rows[0] + 1, rows[1], classes}),
      concat({random.integers(rows, classes), full(Type::kI64, {1, rows[1]}, 1)}, 0)};  // keeps some
  const bool is_sum = random.flag();
  return {{{"smoothing", smoothing}, {"sum", is_sum}, {"ignored", ignored}},
          inputs,
          1,
          cross_entropy(inputs[0], inputs[1], is_sum ? Reduce::kSum : Reduce::kMean, smoothing,
                        static_cast<std::int64_t>(ignored))};
}

Call binary_cross_entropy_call(Random& random) {
  const Dims dims{random.size(1, 5), random.size(1, 3)};
  const double weight = random.flag() ? 1 : 2.5;
  const std::vector<Tensor> inputs{random.floats(dims, -30, 30), random.floats(dims, 0, 1)};
  return {{{"positive_weight", weight}},
          inputs,
          1,
          binary_cross_entropy(inputs[0], inputs[1], Reduce::kMean, weight)};
}

// A function of two tensors of one shape.
template <class Function>
Call pair_call(Random& random, const Json& options, double low, const Function& function) {
  const Dims dims{random.size(1, 5), random.size(1, 4)};
  const std::vector<Tensor> inputs{random.floats(dims), random.floats(dims, low, 2)};
  return {options, inputs, 1, function(inputs[0], inputs[1])};
}

template <class Function>
Call single_call(Random& random, const Function& function) {
  const Tensor x = random.floats({random.size(1, 40)}, -8, 8);
  return {Json::object(), {x}, 1, function(x)};
}

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

Call rotary_call(Random& random) {
  const Dims dims{random.size(1, 2), random.size(1, 5), random.size(1, 3), 2 * random.size(1, 3)};
  const bool interleaved = random.flag();
  const Tensor x = random.floats(dims);
  const Tensor positions = random.integers({dims[1]}, 50);
  return {{{"interleaved", interleaved}, {"base", 500.0}},
          {x, positions},
          1,
          rotary(x, {.base = 500, .interleaved = interleaved, .positions = positions})};
}

Call sinusoidal_call(Random& random) {
  const Tensor x = random.floats({random.size(1, 3), random.size(1, 6), 2 * random.size(1, 4)});
  return {Json::object(), {x}, 1, x * sinusoidal_positions(x.dims()[1], x.dims()[2], random.type())};
}

Call learned_positions_call(Random& random) {
  const Tensor x = random.floats({random.size(1, 3), random.size(1, 6), random.size(1, 4)});
  const nn::Module layer = nn::learned_positions(6, 0.02, random.type());
  const Tensor y = layer(x);
  return layer_call(random, Json::object(), {x}, 2, layer, y);
}

template <class Function>
Call image_call(Random& random, const Function& function) {
  const Tensor x = random.floats(image(random, random.size(1, 3)));
  return {Json::object(), {x}, 1, function(x)};
}

struct Named {
  const char* name;
  Call (*make)(Random&);
};
const Named kFunctions[] = {
    {"conv", conv_call},
    {"conv_transpose", conv_transpose_call},
    {"max_pool", max_pool_call},
    {"average_pool", average_pool_call},
    {"adaptive_average_pool", adaptive_average_pool_call},
    {"layer_norm", layer_norm_call},
    {"rms_norm", rms_norm_call},
    {"group_norm", group_norm_call},
    {"batch_norm", batch_norm_call},
    {"attention", attention_call},
    {"cross_entropy", cross_entropy_call},
    {"binary_cross_entropy", binary_cross_entropy_call},
    {"mse",
     [](Random& r) { return pair_call(r, Json::object(), -2, [](auto& a, auto& b) { return mse(a, b); }); }},
    {"hinge",
     [](Random& r) {
       return pair_call(r, Json::object(), -2, [](auto& a, auto& b) { return hinge(a, b); });
     }},
    {"mae",
     [](Random& r) { return pair_call(r, Json::object(), -2, [](auto& a, auto& b) { return mae(a, b); }); }},
    {"huber",
     [](Random& r) {
       return pair_call(r, {{"delta", 0.7}}, -2, [](auto& a, auto& b) { return huber(a, b, 0.7); });
     }},
    {"kl_divergence",
     [](Random& r) {
       return pair_call(r, Json::object(), 0.1, [](auto& a, auto& b) { return kl_divergence(a, b); });
     }},
    {"lstm", [](Random& r) { return recurrent_call(r, nn::lstm(r.size(1, 4), {.type = r.type()})); }},
    {"gru", [](Random& r) { return recurrent_call(r, nn::gru(r.size(1, 4), {.type = r.type()})); }},
    {"multi_head_attention", multi_head_attention_call},
    {"encoder_block", encoder_block_call},
    {"decoder_block", decoder_block_call},
    {"running_statistics", running_statistics_call},
    {"linear", linear_call},
    {"tied_embedding", tied_embedding_call},
    {"grouped_attention", grouped_attention_call},
    {"rotary", rotary_call},
    {"sinusoidal_positions", sinusoidal_call},
    {"learned_positions", learned_positions_call},
    {"global_average_pool",
     [](Random& r) { return image_call(r, [](auto& x) { return global_average_pool(x); }); }},
    {"global_max_pool", [](Random& r) { return image_call(r, [](auto& x) { return global_max_pool(x); }); }},
    {"gelu", [](Random& r) { return single_call(r, [](auto& x) { return gelu(x); }); }},
    {"gelu_tanh", [](Random& r) { return single_call(r, [](auto& x) { return gelu_tanh(x); }); }},
    {"silu", [](Random& r) { return single_call(r, [](auto& x) { return silu(x); }); }},
    {"softplus", [](Random& r) { return single_call(r, [](auto& x) { return softplus(x); }); }},
    {"leaky_relu", [](Random& r) { return single_call(r, [](auto& x) { return leaky_relu(x, 0.2); }); }},
};

NamedArray array_of(std::string name, const Tensor& x) {
  return {std::move(name), x.type(), x.dims(), testing::value_bytes(x)};
}

// The inputs, values and gradients of a call, in f64 in even rounds and in f32 in odd ones.
void write_call(const Named& function, std::uint64_t round, std::uint64_t seed,
                const test::TemporaryFolder& folder) {
  Random random(seed * 1000 + round, round % 2 == 0 ? Type::kF64 : Type::kF32);
  const Call call = function.make(random);
  const Tensor dy = random.floats(call.output.dims());
  std::vector<NamedArray> arrays{array_of("y", call.output), array_of("dy", dy)};
  const std::vector<Tensor> wanted(call.inputs.begin(),
                                   call.inputs.begin() + static_cast<std::ptrdiff_t>(call.differentiable));
  const std::vector<Tensor> found = gradients(sum(call.output * dy), wanted);
  for (std::size_t i = 0; i < call.inputs.size(); ++i) {
    arrays.push_back(array_of("x" + std::to_string(i), call.inputs[i]));
    if (i < found.size()) {
      arrays.push_back(array_of("g" + std::to_string(i), found[i]));
    }
  }
  const std::string stem = std::string(function.name) + "-" + std::to_string(round);
  save_npz(folder / (stem + ".npz"), arrays);
  std::ofstream(folder / (stem + ".json")) << Json{{"function", function.name}, {"options", call.options}};
}

TEST(Functions, AgreeWithPyTorchOnRandomShapes) {
  const char* given = std::getenv("YOKE_PEER_PYTHON");
  const std::string python = given != nullptr ? given : "python3";
  if (std::system((python + " -c 'import torch, numpy' >/dev/null 2>&1").c_str()) != 0) {
    GTEST_SKIP() << python << " does not have torch and numpy; set YOKE_PEER_PYTHON";
  }
  const char* const seed_text = std::getenv("YOKE_TEST_SEED");
  const std::uint64_t seed = seed_text != nullptr ? std::strtoull(seed_text, nullptr, 10) : 1;
  std::cout << "seed " << seed << '\n';
  const test::TemporaryFolder folder;
  for (const Named& function : kFunctions) {
    for (std::uint64_t round = 0; round < 24; ++round) {
      write_call(function, round, seed, folder);
    }
  }
  EXPECT_EQ(std::system((python + " " + test::source_folder() + "/tests/parity/functions.py " +
                         folder.path().string())
                            .c_str()),
            0);
}

}  // namespace
}  // namespace yoke
