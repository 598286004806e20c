// SPDX-License-Identifier: Apache-2.0
// frontends/tensor/src/random.cpp: random bits, and uniform and normal numbers computed from them.
#include <yoke/ops.h>
#include <yoke/random.h>

#include <string>
#include <utility>

#include "node.h"

namespace yoke {
namespace {

Tensor bits(const Dims& dims, const RandomKey& key, int lane, int lanes, std::uint64_t order) {
  if (key.by_row && dims.empty()) {
    detail::fail("a random draw by row needs an axis, the rows");
  }
  if (const std::int64_t stream = key.stream.value_or(0);
      key.by_row && (stream < 0 || stream >= detail::kStreamsOfARow)) {
    detail::fail("the stream " + std::to_string(stream) +
                 " of a random draw by row is out of range [0, 2^34)");
  }
  auto node = detail::new_node(detail::Kind::kRandom, Type::kU32, dims);
  node->key = key;
  node->lane = lane;
  node->lanes = lanes;
  if (order != 0) {
    node->draw = order;  // all lanes of a draw share its stream
  }
  return detail::finish(std::move(node));
}

std::uint64_t draw_of(const Tensor& x) {
  return x.node()->draw;
}

// Uniform multiples of 2^-24 (f32) or 2^-53 (f64) in [0, 1), from lane `first` and, for f64, the next lane.
Tensor unit_number(const Dims& dims, const RandomKey& key, Type type, int first, int lanes,
                   std::uint64_t order) {
  const Tensor high = bits(dims, key, first, lanes, order);
  if (type == Type::kF32) {
    return cast(shift_right(high, 8), type) * detail::constant(type, 0x1p-24);
  }
  const Tensor low = bits(dims, key, first + 1, lanes, draw_of(high));
  return cast(shift_right(high, 5), type) * detail::constant(type, 0x1p-27) +
         cast(shift_right(low, 6), type) * detail::constant(type, 0x1p-53);
}

void check_type(Type type, const char* operation) {
  if (type != Type::kF32 && type != Type::kF64) {
    detail::fail(std::string(operation) + ": type " + std::string(program::type_name(type)) +
                 " is not supported; draw f32 or f64 and cast");
  }
}

}  // namespace

Tensor random_bits(const Dims& dims, RandomKey key) {
  return bits(dims, key, 0, 1, 0);
}

Tensor uniform(const Dims& dims, RandomKey key, Type type) {
  check_type(type, "uniform");
  return unit_number(dims, key, type, 0, type == Type::kF32 ? 1 : 2, 0);
}

Tensor normal(const Dims& dims, RandomKey key, Type type) {
  check_type(type, "normal");
  const int words = type == Type::kF32 ? 1 : 2;
  const std::uint64_t order = draw_of(bits(dims, key, 0, 1, 0));
  const Tensor radius = unit_number(dims, key, type, 0, 2 * words, order);
  const Tensor angle = unit_number(dims, key, type, words, 2 * words, order);
  // 1 - radius is in (0, 1], so the logarithm is finite.
  return sqrt(-2.0 * log(1.0 - radius)) * cos(angle * 6.283185307179586);
}

}  // namespace yoke
