// SPDX-License-Identifier: Apache-2.0
// runtime/layers/contents.cpp: elements one by one; a trace's contents are small beside the work on them.
#include "layers/contents.h"

#include <yoke/program/execute.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <iterator>

namespace yoke::layers {
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

void Types::add(std::uint64_t begin, std::uint64_t byte_count, Type type) {
  const std::uint64_t end = begin + std::min(byte_count, ~begin);
  if (begin == end) {
    return;
  }
  std::uint64_t first = begin;
  std::uint64_t last = end;
  std::uint64_t at = begin;
  auto next = known_.upper_bound(begin);
  if (next != known_.begin() && std::prev(next)->second >= begin) {
    --next;
  }
  // Each stretch that is met becomes part of this one, so it is met once.
  for (; next != known_.end() && next->first <= end; next = known_.erase(next)) {
    if (at < next->first) {
      pieces_.try_emplace(at, Piece{next->first, begin, type});
    }
    at = std::max(at, next->second);
    first = std::min(first, next->first);
    last = std::max(last, next->second);
  }
  if (at < end) {
    pieces_.try_emplace(at, Piece{end, begin, type});
  }
  known_.emplace(first, last);
}

Type Types::at(std::uint64_t at, std::uint64_t end) const {
  const auto after = pieces_.upper_bound(at);
  if (after == pieces_.begin()) {
    return Type::kU8;
  }
  const Piece& piece = std::prev(after)->second;
  const std::uint64_t size = program::byte_size(piece.type);
  const bool fits = at < piece.end && (at - piece.origin) % size == 0 && end - at >= size;
  return fits ? piece.type : Type::kU8;
}

void make_up(std::span<std::byte> bytes, std::uint64_t offset, const Types& types, std::uint64_t seed) {
  for (std::uint64_t i = 0; i < bytes.size();) {
    const Type type = types.at(offset + i, offset + bytes.size());
    store_element(bytes.data() + i, type, mix(seed ^ mix(i)));
    i += program::byte_size(type);
  }
}

Comparison compare(std::span<const std::byte> got, std::span<const std::byte> wanted, std::uint64_t offset,
                   const Types& types, double tolerance) {
  if (got.size() != wanted.size()) {
    return {.text = std::to_string(got.size()) + " bytes, and " + std::to_string(wanted.size()) +
                    " were recorded"};
  }
  if (got.empty() || std::memcmp(got.data(), wanted.data(), got.size()) == 0) {
    return {.is_equal = true, .is_close = true};
  }
  for (std::uint64_t i = 0; i < got.size();) {
    const Type type = types.at(offset + i, offset + got.size());
    const std::uint64_t size = program::byte_size(type);
    if (std::memcmp(got.data() + i, wanted.data() + i, size) != 0) {
      const bool is_number = program::is_float(type);
      const double a = is_number ? float_at(got.data() + i, type) : 0;
      const double b = is_number ? float_at(wanted.data() + i, type) : 0;
      const bool is_close = is_number && ((std::isnan(a) && std::isnan(b)) ||
                                          std::abs(a - b) <= tolerance * std::max(1.0, std::abs(b)));
      if (!is_close) {
        const std::string at = "byte " + std::to_string(i) + " of " + std::to_string(got.size());
        return {.text = is_number ? at + " begins " + std::to_string(a) + ", and " + std::to_string(b) +
                                        " was recorded"
                                  : at + " differs"};
      }
    }
    i += size;
  }
  return {.is_close = true};
}

}  // namespace yoke::layers
