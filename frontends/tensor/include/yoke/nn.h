// SPDX-License-Identifier: Apache-2.0
// frontends/tensor/include/yoke/nn.h: layers. module.h says how to write your own, and what all layers have in common.
//
// Images are channels last, [batch, height, width, channels], and sequences are [batch, length, channels]. Parameters
// start as PyTorch's do, unless options give an Initializer.
#pragma once

#include <yoke/attention.h>
#include <yoke/convolution.h>
#include <yoke/mode.h>
#include <yoke/module.h>
#include <yoke/ops.h>

#include <cstdint>
#include <functional>
#include <optional>
#include <utility>
#include <vector>

namespace yoke::nn {

// ---- combining ----

// Names its children by position: "0.weight", "2.1.bias".
Module sequential(std::vector<Module> members);
template <class... Members>
Module sequential(const Module& first, const Members&... rest) {
  return sequential(std::vector<Module>{first, rest...});
}
// x + block(x), or shortcut(x) + block(x). Names: "block", "shortcut".
Module residual(const Module& block, const Module& shortcut = {});
// A layer without parameters.
Module function(std::function<Tensor(const Tensor& x)> forward);

// ---- activations and such ----

Module relu();
Module tanh();
Module sigmoid();
Module gelu();
Module silu();
Module softmax(int axis = -1);
Module log_softmax(int axis = -1);
Module flatten();  // joins all axes except axis 0
// In training, sets each element to 0 with probability `rate`, in [0, 1), and scales the others by 1 / (1 - rate). The
// mask differs between steps, between uses in a graph, and between seeds, that is, between shards.
Module dropout(double rate);

// ---- products ----

struct LinearOptions {
  bool bias = true;
  Type type = Type::kF32;
  std::optional<Initializer> weight_init = {};  // default: U(-b, b) with b = 1 / sqrt(in)
  std::optional<Initializer> bias_init = {};    // default: the same
};
// x * transpose(weight) + bias: [..., in] -> [..., out]. weight: [out, in]; bias: [out].
Module linear(std::uint64_t out, const LinearOptions& options = {});

struct ConvLayerOptions {
  PerAxis stride = 1;
  PerAxis dilation = 1;
  ConvPadding padding = 0;
  std::uint64_t groups = 1;
  bool bias = true;
  Type type = Type::kF32;
  std::optional<Initializer> weight_init = {};  // default: U(-b, b) with b = 1 / sqrt(in / groups * kernel)
  std::optional<Initializer> bias_init = {};    // default: the same
};
// conv() with a bias. weight: [out, kernel sizes.., in / groups]; bias: [out].
Module conv1d(std::uint64_t out, std::uint64_t kernel, const ConvLayerOptions& options = {});
Module conv2d(std::uint64_t out, const PerAxis& kernel, const ConvLayerOptions& options = {});

struct ConvTransposeLayerOptions {
  PerAxis stride = 1;
  PerAxis dilation = 1;
  PerAxis padding = 0;
  PerAxis output_padding = 0;
  std::uint64_t groups = 1;
  bool bias = true;
  Type type = Type::kF32;
  std::optional<Initializer> weight_init = {};  // default: U(-b, b) with b = 1 / sqrt(out / groups * kernel)
  std::optional<Initializer> bias_init = {};    // default: the same
};
// conv_transpose() with a bias. weight: [in, kernel sizes.., out / groups]; bias: [out].
Module conv_transpose2d(std::uint64_t out, const PerAxis& kernel,
                        const ConvTransposeLayerOptions& options = {});

// The functions of these names.
Module max_pool(const PerAxis& window, const PoolOptions& options = {});
Module average_pool(const PerAxis& window, const AveragePoolOptions& options = {});
Module adaptive_average_pool(const PerAxis& count);
Module global_average_pool();
Module global_max_pool();

// ---- norms ----

struct BatchNormOptions {
  double momentum = 0.1;  // the share of the new statistics in the running ones
  double eps = 1e-5;
  bool affine = true;  // has weight and bias
  // Whether training uses the statistics of the whole batch instead of those of each shard. Each layer then needs two
  // more exchanges between the shards in the forward pass, and two in the backward pass. Cannot be combined with
  // accumulate, reproducible or varying_rows.
  bool synchronized = false;
  Type type = Type::kF32;
};
// In training, normalizes each channel (the last axis) with the statistics of its input: those of one shard or
// micro-batch, or of the whole batch if `synchronized`. In evaluation, with the running mean and variance. These are
// the states "running_mean" and "running_var", the unbiased variance; with several shards, all have the mean over the
// rows of what the shards report. With a single value per channel, in_mode() for training throws Error
// kInvalidArgument or, if `synchronized`, the states do not change.
Module batch_norm(const BatchNormOptions& options = {});

struct NormOptions {
  double eps = 1e-5;
  bool affine = true;  // has a weight
  bool bias = true;    // and a bias; not for rms_norm
  Type type = Type::kF32;
};
// The functions of these names, with weights that start at 1 and biases at 0, over the last axis.
Module layer_norm(const NormOptions& options = {});
Module rms_norm(const NormOptions& options = {.eps = 1e-6});
Module group_norm(std::uint64_t groups, const NormOptions& options = {});

// ---- sequences ----

struct EmbeddingOptions {
  Type type = Type::kF32;
  Initializer init = Initializer::normal(0, 1);
};
class Embedding final : public Layer {
 public:
  Embedding(std::uint64_t count, std::uint64_t dim, const EmbeddingOptions& options);
  Tensor forward(const Tensor& ids) const;  // [...] -> [..., dim]; ids out of range give zeros
  // x * transpose(weight): [..., dim] -> [..., count], as the output layer of a language model that shares the table.
  Tensor logits(const Tensor& x) const;

 private:
  Parameter table_;
};
// weight: [count, dim].
Handle<Embedding> embedding(std::uint64_t count, std::uint64_t dim, const EmbeddingOptions& options = {});

struct RecurrentOptions {
  Type type = Type::kF32;
};
struct RecurrentState {
  Tensor hidden;     // [batch, hidden]; empty: zeros
  Tensor cell = {};  // likewise; only of an Lstm
};
struct RecurrentResult {
  Tensor outputs;  // [batch, time, hidden]
  RecurrentState last;
};
// PyTorch's torch.nn.LSTM with batch_first and a single bias: [batch, time, in] -> [batch, time, hidden]. Parameters:
// weight_ih [4 * hidden, in], weight_hh [4 * hidden, hidden] and bias [4 * hidden], each with the gates in the order
// input, forget, cell, output.
class Lstm final : public Layer {
 public:
  Lstm(std::uint64_t hidden, const RecurrentOptions& options);
  Tensor forward(const Tensor& x) const { return run(x, {}).outputs; }
  RecurrentResult run(const Tensor& x, const RecurrentState& start) const;

 private:
  std::uint64_t hidden_;
  Parameter input_, state_, bias_;
};
Handle<Lstm> lstm(std::uint64_t hidden, const RecurrentOptions& options = {});

// PyTorch's torch.nn.GRU with batch_first. Parameters: weight_ih [3 * hidden, in], weight_hh [3 * hidden, hidden],
// bias_ih and bias_hh [3 * hidden], each with the gates in the order reset, update, new.
class Gru final : public Layer {
 public:
  Gru(std::uint64_t hidden, const RecurrentOptions& options);
  Tensor forward(const Tensor& x) const { return run(x, {}).outputs; }
  RecurrentResult run(const Tensor& x, const RecurrentState& start) const;

 private:
  std::uint64_t hidden_;
  Parameter input_, state_, input_bias_, state_bias_;
};
Handle<Gru> gru(std::uint64_t hidden, const RecurrentOptions& options = {});

// x + positions, for x [batch, length, width]: a learned table [max_length, width] that starts as N(0, deviation), or
// sinusoidal_positions().
Module learned_positions(std::uint64_t max_length, double deviation = 0.02, Type type = Type::kF32);
Module add_sinusoidal_positions();

struct MultiHeadAttentionOptions {
  std::uint64_t key_heads = 0;  // of keys and values, a divisor of `heads`; 0: `heads`
  bool causal = false;
  bool rotary = false;  // rotates queries and keys by their positions
  double dropout = 0;   // the rate for the attention weights; 0: no dropout
  bool bias = true;
  Type type = Type::kF32;
  // Defaults: U(-b, b) with b = sqrt(6 / (4 * width)) for query, key and value, 1 / sqrt(width) for output, biases 0.
  std::optional<Initializer> weight_init = {};
  std::optional<Initializer> output_init = {};
};
// Attention between linear layers "query", "key", "value" and "output", as torch.nn.MultiheadAttention with
// batch_first.
class MultiHeadAttention final : public Layer {
 public:
  MultiHeadAttention(std::uint64_t width, std::uint64_t heads, const MultiHeadAttentionOptions& options);
  // query [batch, queries, width], context [batch, keys, any width]; empty: query. mask as in AttentionOptions: true
  // where a query sees a key. padding_mask() makes one from lengths.
  Tensor forward(const Tensor& query, const Tensor& context = {}, const Tensor& mask = {}) const;

 private:
  std::uint64_t width_, heads_, key_heads_;
  bool causal_, rotary_;
  Module query_, key_, value_, output_, dropout_;
};
Handle<MultiHeadAttention> multi_head_attention(std::uint64_t width, std::uint64_t heads,
                                                const MultiHeadAttentionOptions& options = {});
// A mask [batch, 1, length] for sequences of these lengths, integers [batch], padded to `length`.
Tensor padding_mask(const Tensor& lengths, std::uint64_t length);

struct BlockOptions {
  std::uint64_t hidden = 0;  // of the feed-forward layer; 0: 4 * width
  double dropout = 0.1;
  bool norm_first = true;  // false: PyTorch's default, as in the original transformer
  std::function<Tensor(const Tensor&)> activation = [](const Tensor& x) { return yoke::relu(x); };
  std::function<Module()> norm = [] { return layer_norm(); };
  MultiHeadAttentionOptions attention = {};
  LinearOptions linear = {};
  std::optional<Initializer> output_init = {};  // of the feed-forward layer's second weight
};
// Self-attention and a feed-forward layer, each with a norm, dropout and a residual connection:
// torch.nn.TransformerEncoderLayer. Names: norm1, attention, norm2, feed_forward (linear1, linear2).
class EncoderBlock final : public Layer {
 public:
  EncoderBlock(std::uint64_t width, std::uint64_t heads, const BlockOptions& options);
  Tensor forward(const Tensor& x, const Tensor& mask = {}) const;

 private:
  bool norm_first_;
  Module norm1_;
  Handle<MultiHeadAttention> attention_;
  Module norm2_, feed_forward_, dropout_;
};
Handle<EncoderBlock> encoder_block(std::uint64_t width, std::uint64_t heads,
                                   const BlockOptions& options = {});

// Causal self-attention, attention to `memory`, and a feed-forward layer: torch.nn.TransformerDecoderLayer. Names as
// above, and norm3, cross_attention.
class DecoderBlock final : public Layer {
 public:
  DecoderBlock(std::uint64_t width, std::uint64_t heads, BlockOptions options);
  Tensor forward(const Tensor& x, const Tensor& memory, const Tensor& memory_mask = {}) const;

 private:
  bool norm_first_;
  Module norm1_;
  Handle<MultiHeadAttention> attention_;
  Module norm2_;
  Handle<MultiHeadAttention> cross_attention_;
  Module norm3_, feed_forward_, dropout_;
};
Handle<DecoderBlock> decoder_block(std::uint64_t width, std::uint64_t heads,
                                   const BlockOptions& options = {});

}  // namespace yoke::nn
