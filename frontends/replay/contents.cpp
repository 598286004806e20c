// SPDX-License-Identifier: Apache-2.0
// frontends/replay/contents.cpp: generates and compares contents element by element.
#include "replay/contents.h"

#include <yoke/program/execute.h>
#include <yoke/runtime/counted.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <iterator>

namespace yoke::replay {
namespace {

using program::Type;

std::uint64_t mix(std::uint64_t x) {  // splitmix64
  x += 0x9e3779b97f4a7c15U;
  x = (x ^ (x >> 30U)) * 0xbf58476d1ce4e5b9U;
  x = (x ^ (x >> 27U)) * 0x94d049bb133111ebU;
  return x ^ (x >> 31U);
}

template <class T>
T load(const std::byte* at) {
  T value{};
  std::memcpy(&value, at, sizeof(value));
  return value;
}
template <class T>
void store(std::byte* at, T value) {
  std::memcpy(at, &value, sizeof(value));
}

void store_element(std::byte* at, Type type, std::uint64_t random) {
  const double unit = static_cast<double>(random >> 11U) * 0x1p-52 - 1.0;
  const std::uint64_t bit = random >> 63U;
  switch (type) {
    case Type::kF64:
      return store(at, unit);
    case Type::kF32:
      return store(at, static_cast<float>(unit));
    case Type::kF16:
      return store(at, program::f32_to_f16(static_cast<float>(unit)));
    case Type::kBF16:
      return store(at, program::f32_to_bf16(static_cast<float>(unit)));
    case Type::kI64:
      return store(at, bit);
    case Type::kI32:
    case Type::kU32:
      return store(at, static_cast<std::uint32_t>(bit));
    case Type::kU8:
    case Type::kBool:
      return store(at, static_cast<std::uint8_t>(bit));
  }
}

double float_at(const std::byte* at, Type type) {
  switch (type) {
    case Type::kF64:
      return load<double>(at);
    case Type::kF32:
      return static_cast<double>(load<float>(at));
    case Type::kF16:
      return static_cast<double>(program::f16_to_f32(load<std::uint16_t>(at)));
    default:
      return static_cast<double>(program::bf16_to_f32(load<std::uint16_t>(at)));
  }
}

}  // namespace

Type Types::at(std::uint64_t offset, std::uint64_t end) const {
  const auto after = ranges_.upper_bound(offset);
  if (after == ranges_.begin()) {
    return Type::kU8;
  }
  const auto& [begin, range] = *std::prev(after);
  const std::uint64_t size = program::byte_size(range.type);
  const std::uint64_t distance = offset - begin;
  const bool fits = distance < range.byte_count && distance % size == 0 && end - offset >= size;
  return fits ? range.type : Type::kU8;
}

void make_up(std::span<std::byte> bytes, std::uint64_t offset, const Types& types, std::uint64_t seed) {
  for (std::uint64_t i = 0; i < bytes.size();) {
    const Type type = types.at(offset + i, offset + bytes.size());
    store_element(bytes.data() + i, type, mix(seed ^ mix(i)));
    i += program::byte_size(type);
  }
}

Comparison compare(std::span<const std::byte> actual, std::span<const std::byte> expected,
                   std::uint64_t offset, const Types& types, double tolerance) {
  if (actual.size() != expected.size()) {
    return {.text =
                detail::counted(actual.size(), "byte") + " instead of " + std::to_string(expected.size())};
  }
  if (actual.empty() || std::memcmp(actual.data(), expected.data(), actual.size()) == 0) {
    return {.is_equal = true, .is_close = true};
  }
  for (std::uint64_t i = 0; i < actual.size();) {
    const Type type = types.at(offset + i, offset + actual.size());
    const std::uint64_t size = program::byte_size(type);
    const std::byte* const left = actual.data() + i;
    const std::byte* const right = expected.data() + i;
    const bool is_number = program::is_float(type);
    const double a = is_number ? float_at(left, type) : 0;
    const double b = is_number ? float_at(right, type) : 0;
    const bool is_close = is_number && ((std::isnan(a) && std::isnan(b)) ||
                                        std::abs(a - b) <= tolerance * std::max(1.0, std::abs(b)));
    if (!is_close && std::memcmp(left, right, size) != 0) {
      const std::string at = "byte " + std::to_string(i) + " of " + std::to_string(actual.size());
      return {.text = is_number ? at + ": " + std::to_string(a) + " instead of " + std::to_string(b)
                                : at + " differs"};
    }
    i += size;
  }
  return {.is_close = true};
}

}  // namespace yoke::replay
