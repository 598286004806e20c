// SPDX-License-Identifier: Apache-2.0
// frontends/tensor/include/yoke/attention.h: attention and position encodings.
//
// Invalid shapes and types are an Error kInvalidArgument that names the function and the tensors.
#pragma once

#include <yoke/tensor.h>

#include <cstdint>
#include <functional>
#include <optional>

namespace yoke {

struct AttentionOptions {
  bool causal = false;  // query t sees keys 0 to t
  // bool, true where a query sees a key: [queries, keys], [batch, queries, keys] or [batch, heads, queries, keys].
  // Empty: no mask. The result for a query that sees no key is 0.
  Tensor mask = {};
  std::optional<double> scale = std::nullopt;  // default 1 / sqrt(head size)
  std::function<Tensor(const Tensor& weights)> dropout =
      {};  // applied to the softmax, such as nn::dropout(0.1); empty: no dropout
};
// softmax(query * transpose(key) * scale) * value for each head, as jax.nn.dot_product_attention.
//   query [batch, queries, heads, size], key [batch, keys, key heads, size], value [batch, keys, key heads, size']
//   -> [batch, queries, heads, size']
// The number of heads must be a multiple of the number of key heads: head h reads key head h / (heads / key heads).
Tensor attention(const Tensor& query, const Tensor& key, const Tensor& value,
                 const AttentionOptions& options = {});

struct RotaryOptions {
  double base = 10000;
  // Which elements of a head form pair i. False: i and i + size / 2, as in Hugging Face's models. True: 2i and 2i + 1,
  // as in the paper.
  bool interleaved = false;
  Tensor positions = {};  // [length], integers; empty: 0, 1, ...
};
// Rotary position embedding (Su et al., arXiv 2104.09864): rotates pair i of each head by position * base^(-2i / size).
// x: [batch, length, heads, size], size even.
Tensor rotary(const Tensor& x, const RotaryOptions& options = {});

// [length, width], width even (Vaswani et al., arXiv 1706.03762): element 2i of a row is
// sin(position / 10000^(2i / width)), and element 2i + 1 the cosine.
Tensor sinusoidal_positions(std::uint64_t length, std::uint64_t width, Type type = Type::kF32);

}  // namespace yoke
