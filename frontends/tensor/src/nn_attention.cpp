// SPDX-License-Identifier: Apache-2.0
// frontends/tensor/src/nn_attention.cpp: attention layers, blocks of transformers, positions.
#include <yoke/runtime/counted.h>

#include <utility>

#include "nn_common.h"

namespace yoke::nn {
namespace {

class LearnedPositions final : public Layer {
 public:
  LearnedPositions(std::uint64_t max_length, double deviation, Type type)
      : max_length_(max_length), table_(parameter("weight", Initializer::normal(0, deviation), type)) {}

  Tensor forward(const Tensor& x) const {
    check_input(x, "learned_positions", table_.type(), 3, "[batch, length, width]");
    const std::uint64_t length = x.dims()[1];
    if (length > max_length_) {
      detail::fail("learned_positions: the input " + detail::describe(x) + " has length " +
                   std::to_string(length) + ", but the table has " +
                   detail::counted(max_length_, "position"));
    }
    table_.set_dims({max_length_, x.dims()[2]}, "learned_positions");
    return x + slice(table_.tensor(), 0, 0, length);
  }

 private:
  std::uint64_t max_length_;
  Parameter table_;
};

LinearOptions projection(const MultiHeadAttentionOptions& options, double gain) {
  return {options.bias, options.type,
          options.weight_init.value_or(Initializer::xavier_uniform(std::sqrt(gain))), Initializer::zeros()};
}

Module norm_of(const BlockOptions& options) {
  if (!options.norm) {
    detail::fail("BlockOptions::norm is an empty function");
  }
  return options.norm();
}

Module feed_forward(std::uint64_t width, const BlockOptions& options) {
  if (!options.activation) {
    detail::fail("BlockOptions::activation is an empty function");
  }
  LinearOptions last = options.linear;
  last.weight_init = options.output_init ? options.output_init : last.weight_init;
  class FeedForward final : public Layer {
   public:
    FeedForward(std::uint64_t width, const BlockOptions& options, const LinearOptions& last)
        : linear1_(
              child("linear1", linear(options.hidden == 0 ? 4 * width : options.hidden, options.linear))),
          linear2_(child("linear2", linear(width, last))),
          dropout_(dropout(options.dropout)),
          activation_(options.activation) {}
    Tensor forward(const Tensor& x) const { return linear2_(dropout_(activation_(linear1_(x)))); }

   private:
    Module linear1_, linear2_, dropout_;
    std::function<Tensor(const Tensor&)> activation_;
  };
  return make<FeedForward>(width, options, last);
}

// A residual connection around `block`, with the norm before it or after the sum.
template <class Block>
Tensor with_norm(const Tensor& x, const Module& norm, bool norm_first, const Block& block) {
  return norm_first ? x + block(norm(x)) : norm(x + block(x));
}

}  // namespace

MultiHeadAttention::MultiHeadAttention(std::uint64_t width, std::uint64_t heads,
                                       const MultiHeadAttentionOptions& options)
    : width_(width),
      heads_(heads),
      key_heads_(options.key_heads == 0 ? heads : options.key_heads),
      causal_(options.causal),
      rotary_(options.rotary),
      dropout_(options.dropout != 0 ? dropout(options.dropout) : Module()) {
  if (heads == 0 || width % heads != 0 || heads % key_heads_ != 0) {
    detail::fail("multi_head_attention: the width " + std::to_string(width) + " cannot be divided into " +
                 detail::counted(heads, "head") + " with " + detail::counted(key_heads_, "key head") +
                 "; the key heads must divide the heads, and these the width");
  }
  const std::uint64_t keys = width / heads * key_heads_;
  query_ = child("query", linear(width, projection(options, 0.5)));
  key_ = child("key", linear(keys, projection(options, 0.5)));
  value_ = child("value", linear(keys, projection(options, 0.5)));
  LinearOptions last = projection(options, 1);
  last.weight_init = options.output_init   ? options.output_init
                     : options.weight_init ? options.weight_init
                                           : std::nullopt;
  output_ = child("output", linear(width, last));
}

Tensor MultiHeadAttention::forward(const Tensor& query, const Tensor& context, const Tensor& mask) const {
  const std::string layer = "multi_head_attention(" + std::to_string(width_) + ")";
  const auto check = [&](const Tensor& x) {
    detail::require(x, layer.c_str());
    if (x.rank() != 3) {
      detail::fail(layer + ": the input " + detail::describe(x) + " must be [batch, length, width]");
    }
  };
  const Tensor& keys = context ? context : query;
  check(query);
  check(keys);
  const auto heads_of = [&](const Tensor& x, std::uint64_t heads) {
    return reshape(x, {x.dims()[0], x.dims()[1], heads, width_ / heads_});
  };
  Tensor q = heads_of(query_(query), heads_);
  Tensor k = heads_of(key_(keys), key_heads_);
  if (rotary_) {
    q = rotary(q);
    k = rotary(k);
  }
  const bool is_for_all = mask && mask.rank() == 3 && mask.dims()[1] == 1;  // the same for all queries
  const Tensor whole_mask =
      is_for_all ? broadcast_to(mask, {mask.dims()[0], query.dims()[1], mask.dims()[2]}) : mask;
  AttentionOptions options{.causal = causal_, .mask = whole_mask};
  if (dropout_) {
    options.dropout = dropout_;
  }
  const Tensor y = attention(q, k, heads_of(value_(keys), key_heads_), options);
  return output_(reshape(y, {y.dims()[0], y.dims()[1], width_}));
}

Handle<MultiHeadAttention> multi_head_attention(std::uint64_t width, std::uint64_t heads,
                                                const MultiHeadAttentionOptions& options) {
  return make<MultiHeadAttention>(width, heads, options);
}

Tensor padding_mask(const Tensor& lengths, std::uint64_t length) {
  detail::require(lengths, "padding_mask");
  if (lengths.rank() != 1 || program::is_float(lengths.type())) {
    detail::fail("padding_mask: the lengths " + detail::describe(lengths) + " must be integers [batch]");
  }
  const Dims dims{lengths.dims()[0], 1, length};
  return iota(dims, 2) < broadcast_to(reshape(cast(lengths, Type::kI64), {dims[0], 1, 1}), dims);
}

Module learned_positions(std::uint64_t max_length, double deviation, Type type) {
  return make<LearnedPositions>(max_length, deviation, type);
}
Module add_sinusoidal_positions() {
  return function([](const Tensor& x) {
    detail::require(x, "add_sinusoidal_positions");
    if (x.rank() != 3) {
      detail::fail("add_sinusoidal_positions: the input " + detail::describe(x) +
                   " must be [batch, length, width]");
    }
    return x + sinusoidal_positions(x.dims()[1], x.dims()[2], x.type());
  });
}

EncoderBlock::EncoderBlock(std::uint64_t width, std::uint64_t heads, const BlockOptions& options)
    : norm_first_(options.norm_first),
      norm1_(child("norm1", norm_of(options))),
      attention_(child("attention", multi_head_attention(width, heads, options.attention))),
      norm2_(child("norm2", norm_of(options))),
      feed_forward_(child("feed_forward", feed_forward(width, options))),
      dropout_(dropout(options.dropout)) {}

Tensor EncoderBlock::forward(const Tensor& x, const Tensor& mask) const {
  const Tensor attended = with_norm(x, norm1_, norm_first_,
                                    [&](const Tensor& h) { return dropout_(attention_(h, Tensor(), mask)); });
  return with_norm(attended, norm2_, norm_first_,
                   [&](const Tensor& h) { return dropout_(feed_forward_(h)); });
}

Handle<EncoderBlock> encoder_block(std::uint64_t width, std::uint64_t heads, const BlockOptions& options) {
  return make<EncoderBlock>(width, heads, options);
}

DecoderBlock::DecoderBlock(std::uint64_t width, std::uint64_t heads, BlockOptions options)
    : norm_first_(options.norm_first), norm1_(child("norm1", norm_of(options))) {
  MultiHeadAttentionOptions cross = options.attention;
  cross.causal = cross.rotary = false;
  options.attention.causal = true;
  attention_ = child("attention", multi_head_attention(width, heads, options.attention));
  norm2_ = child("norm2", norm_of(options));
  cross_attention_ = child("cross_attention", multi_head_attention(width, heads, cross));
  norm3_ = child("norm3", norm_of(options));
  feed_forward_ = child("feed_forward", feed_forward(width, options));
  dropout_ = dropout(options.dropout);
}

Tensor DecoderBlock::forward(const Tensor& x, const Tensor& memory, const Tensor& memory_mask) const {
  // Attention without a context would be self-attention.
  detail::require(memory, "decoder_block: memory");
  const Tensor own =
      with_norm(x, norm1_, norm_first_, [&](const Tensor& h) { return dropout_(attention_(h)); });
  const Tensor seen = with_norm(own, norm2_, norm_first_, [&](const Tensor& h) {
    return dropout_(cross_attention_(h, memory, memory_mask));
  });
  return with_norm(seen, norm3_, norm_first_, [&](const Tensor& h) { return dropout_(feed_forward_(h)); });
}

Handle<DecoderBlock> decoder_block(std::uint64_t width, std::uint64_t heads, const BlockOptions& options) {
  return make<DecoderBlock>(width, heads, options);
}

}  // namespace yoke::nn
