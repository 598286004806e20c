// SPDX-License-Identifier: Apache-2.0
// frontends/tensor/src/attention.cpp: attention and position encodings.
#include <yoke/attention.h>
#include <yoke/losses.h>
#include <yoke/ops.h>

#include <cmath>
#include <limits>
#include <string>

#include "node.h"

namespace yoke {
namespace {

double lowest(Type type) {
  constexpr double kLowestF16 = -65504;
  return type == Type::kF64   ? std::numeric_limits<double>::lowest()
         : type == Type::kF16 ? kLowestF16
                              : std::numeric_limits<float>::lowest() / 2;  // also in the range of bf16
}

void check_operands(const Tensor& query, const Tensor& key, const Tensor& value) {
  for (const Tensor& operand : {query, key, value}) {
    detail::require(operand, "attention");
    if (operand.rank() != 4 || !program::is_float(operand.type()) || operand.type() != query.type()) {
      detail::fail("attention: " + detail::describe(operand) + " is " +
                   std::string(program::type_name(operand.type())) +
                   "; query, key and value must be [batch, length, heads, size] of one type of floats");
    }
  }
  const Dims& q = query.dims();
  const Dims& k = key.dims();
  const Dims& v = value.dims();
  if (k[0] != q[0] || v[0] != q[0] || k[1] != v[1] || k[2] != v[2] || q[3] != k[3] || q[2] % k[2] != 0) {
    detail::fail(
        "attention: query " + detail::describe(query) + ", key " + detail::describe(key) + " and value " +
        detail::describe(value) +
        " do not match: they need one batch size, key and value one length and number of heads, which "
        "divides that of the query, and query and key one size");
  }
}

// The mask as [batch or 1, heads or 1, queries, keys].
Tensor expanded(const Tensor& mask, const Tensor& query, const Tensor& key) {
  const Dims wanted{query.dims()[0], query.dims()[2], query.dims()[1], key.dims()[1]};
  const Tensor whole = mask.rank() == 3 ? unsqueeze(mask, 1) : mask;
  bool fits = mask.type() == Type::kBool && mask.rank() >= 2 && mask.rank() <= 4;
  for (std::size_t k = 1; fits && k <= whole.rank(); ++k) {
    const std::uint64_t size = whole.dims()[whole.rank() - k];
    fits = size == wanted[4 - k] || (k > 2 && size == 1);
  }
  if (!fits) {
    detail::fail(
        "attention: the mask " + detail::describe(mask) + " is " +
        std::string(program::type_name(mask.type())) +
        "; it must be bool [queries, keys], [batch, queries, keys] or [batch, heads, queries, keys] for "
        "the query " +
        detail::describe(query) + " and the key " + detail::describe(key));
  }
  return broadcast_to(whole, wanted);
}

Tensor causal_mask(std::uint64_t queries, std::uint64_t keys) {
  return iota({queries, keys}, 0) >= iota({queries, keys}, 1);
}

// position * base^(-2 * pair / size), in f64 for a result of f64, else in f32.
Tensor angles(const Tensor& positions, const Tensor& pair, std::uint64_t size, double base, Type type) {
  const double step = -2 * std::log(base) / static_cast<double>(size);
  const Type own = type == Type::kF64 ? type : Type::kF32;
  return cast(positions, own) * exp(cast(pair, own) * step);
}

}  // namespace

Tensor attention(const Tensor& query, const Tensor& key, const Tensor& value,
                 const AttentionOptions& options) {
  check_operands(query, key, value);
  const std::uint64_t heads = query.dims()[2];
  const std::uint64_t key_heads = key.dims()[2];
  const bool is_grouped = heads != key_heads;
  Dims grouped = query.dims();  // [batch, queries, key heads, heads of each, size]
  grouped[2] = key_heads;
  grouped.insert(grouped.begin() + 3, heads / key_heads);
  const double scale = options.scale.value_or(1 / std::sqrt(static_cast<double>(query.dims()[3])));
  Tensor scores = scale * (is_grouped ? einsum("bqhgd,bkhd->bhgqk", reshape(query, grouped), key)
                                      : einsum("bqhd,bkhd->bhqk", query, key));
  const Tensor least = detail::constant(query.type(), lowest(query.type()));
  if (options.causal) {
    scores = where(causal_mask(query.dims()[1], key.dims()[1]), scores, least);
  }
  Tensor mask = options.mask;
  if (mask) {
    mask = expanded(mask, query, key);
    if (is_grouped) {
      mask = reshape(mask, {mask.dims()[0], key_heads, heads / key_heads, mask.dims()[2], mask.dims()[3]});
    }
    scores = where(mask, scores, least);
  }
  Tensor weights = softmax(scores, -1);
  if (mask) {
    const Tensor seen =
        options.causal ? logical_and(mask, causal_mask(query.dims()[1], key.dims()[1])) : mask;
    weights = where(seen, weights, detail::constant(query.type(), 0));  // rows that see no key
  }
  weights = options.dropout ? options.dropout(weights) : weights;
  if (!is_grouped) {
    return einsum("bhqk,bkhd->bqhd", weights, value);
  }
  return reshape(einsum("bhgqk,bkhd->bqhgd", weights, value),
                 {query.dims()[0], query.dims()[1], heads, value.dims()[3]});
}

Tensor rotary(const Tensor& x, const RotaryOptions& options) {
  detail::require(x, "rotary");
  if (x.rank() != 4 || !program::is_float(x.type()) || x.dims()[3] % 2 != 0) {
    detail::fail("rotary: the input " + detail::describe(x) + " is " +
                 std::string(program::type_name(x.type())) +
                 "; it must be [batch, length, heads, size] of floats, with an even size");
  }
  const std::uint64_t length = x.dims()[1];
  const std::uint64_t size = x.dims()[3];
  const Tensor& given = options.positions;
  if (given && (given.dims() != Dims{length} || !program::is_integer(given.type()))) {
    detail::fail("rotary: the positions " + detail::describe(given) + " must be integers [" +
                 std::to_string(length) + "]");
  }
  const Tensor positions = reshape(given ? given : iota({length}, 0), {length, 1, 1});
  const Tensor element = iota({1, 1, size}, 2);
  const auto half = static_cast<std::int64_t>(size / 2);
  const Tensor angle =
      angles(positions, options.interleaved ? element / 2 : element % half, size, options.base, x.type());
  const Tensor is_first = options.interleaved ? equal(element % 2, 0) : element < half;
  // Each element's partner: the first of a pair becomes x cos - partner sin, the second x cos + partner sin.
  Tensor partner = roll(x, half, 3);
  if (options.interleaved) {
    const Dims pairs{x.dims()[0], length, x.dims()[2], size / 2, 2};
    partner = reshape(flip(reshape(x, pairs), {4}), x.dims());
  }
  const Tensor sine = where(is_first, -sin(angle), sin(angle));
  return x * cast(cos(angle), x.type()) + partner * cast(sine, x.type());
}

Tensor sinusoidal_positions(std::uint64_t length, std::uint64_t width, Type type) {
  if (length == 0 || width == 0 || width % 2 != 0 || !program::is_float(type)) {
    detail::fail("sinusoidal_positions: length " + std::to_string(length) + " and width " +
                 std::to_string(width) +
                 " must be greater than 0, the width even, and the type one of floats");
  }
  const Tensor element = iota({length, width}, 1);
  const Tensor angle = angles(iota({length, width}, 0), element / 2, width, 10000, type);
  return cast(where(equal(element % 2, 0), sin(angle), cos(angle)), type);
}

}  // namespace yoke
