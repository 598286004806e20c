// SPDX-License-Identifier: Apache-2.0
// tests/parity/function_calls.cpp: calls of functions: convolutions, pooling, norms, attention, losses, activations.
#include <algorithm>

#include "calls.h"

namespace yoke::parity {
namespace {

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

template <class Function>
Call image_call(Random& random, const Function& function) {
  const Tensor x = random.floats(image(random, random.size(1, 3)));
  return {Json::object(), {x}, 1, function(x)};
}

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
    {"rotary", rotary_call},
    {"sinusoidal_positions", sinusoidal_call},
    {"global_average_pool",
     [](Random& r) { return image_call(r, [](auto& x) { return global_average_pool(x); }); }},
    {"global_max_pool", [](Random& r) { return image_call(r, [](auto& x) { return global_max_pool(x); }); }},
    {"gelu", [](Random& r) { return single_call(r, [](auto& x) { return gelu(x); }); }},
    {"gelu_tanh", [](Random& r) { return single_call(r, [](auto& x) { return gelu_tanh(x); }); }},
    {"silu", [](Random& r) { return single_call(r, [](auto& x) { return silu(x); }); }},
    {"softplus", [](Random& r) { return single_call(r, [](auto& x) { return softplus(x); }); }},
    {"leaky_relu", [](Random& r) { return single_call(r, [](auto& x) { return leaky_relu(x, 0.2); }); }},
};

}  // namespace

std::span<const Named> functions() {
  return kFunctions;
}

}  // namespace yoke::parity
