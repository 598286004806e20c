// SPDX-License-Identifier: Apache-2.0
// tests/mutant/reduce.cpp: sums, maxima and minima of elements.
#include <yoke/program/execute.h>

#include <cstring>
#include <type_traits>

#include "collective.h"

namespace yoke::mutant {
namespace {

template <class T>
T combined(std::int32_t reduction, T a, T b) {
  if (reduction != YOKE_REDUCTION_SUM) {
    return (reduction == YOKE_REDUCTION_MAX) == (a < b) ? b : a;
  }
  if constexpr (std::is_integral_v<T>) {  // integers wrap
    return static_cast<T>(static_cast<std::uint64_t>(a) + static_cast<std::uint64_t>(b));
  } else {
    return a + b;
  }
}

template <class T>
struct Plain {
  using Stored = T;
  static T load(T value) { return value; }
  static T store(T value) { return value; }
};
struct Half {
  using Stored = std::uint16_t;
  static float load(Stored bits) { return program::f16_to_f32(bits); }
  static Stored store(float value) { return program::f32_to_f16(value); }
};
struct Brain {
  using Stored = std::uint16_t;
  static float load(Stored bits) { return program::bf16_to_f32(bits); }
  static Stored store(float value) { return program::f32_to_bf16(value); }
};

template <class Format>
void reduce_as(std::int32_t reduction, std::byte* to, const std::byte* from, std::uint64_t count) {
  using Stored = typename Format::Stored;
  for (std::uint64_t i = 0; i < count; ++i) {
    Stored a;
    Stored b;
    std::memcpy(&a, to + i * sizeof a, sizeof a);
    std::memcpy(&b, from + i * sizeof b, sizeof b);
    a = Format::store(combined(reduction, Format::load(a), Format::load(b)));
    std::memcpy(to + i * sizeof a, &a, sizeof a);
  }
}

}  // namespace

void reduce(std::int32_t type, std::int32_t reduction, std::byte* to, const std::byte* from,
            std::uint64_t count) {
  switch (type) {
    case YOKE_TYPE_F64:
      return reduce_as<Plain<double>>(reduction, to, from, count);
    case YOKE_TYPE_F32:
      return reduce_as<Plain<float>>(reduction, to, from, count);
    case YOKE_TYPE_F16:
      return reduce_as<Half>(reduction, to, from, count);
    case YOKE_TYPE_BF16:
      return reduce_as<Brain>(reduction, to, from, count);
    case YOKE_TYPE_I64:
      return reduce_as<Plain<std::int64_t>>(reduction, to, from, count);
    case YOKE_TYPE_I32:
      return reduce_as<Plain<std::int32_t>>(reduction, to, from, count);
    case YOKE_TYPE_U32:
      return reduce_as<Plain<std::uint32_t>>(reduction, to, from, count);
    default:
      return reduce_as<Plain<std::uint8_t>>(reduction, to, from, count);
  }
}

}  // namespace yoke::mutant
