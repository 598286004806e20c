// SPDX-License-Identifier: Apache-2.0
// frontends/tensor/src/host_numbers.h: converts elements of any type to double.
#pragma once

#include <yoke/program/execute.h>
#include <yoke/tensor.h>

#include <bit>
#include <cstddef>
#include <cstring>
#include <span>
#include <vector>

namespace yoke::detail {

template <class Stored>
double number_at(std::span<const std::byte> bytes, std::size_t i) {
  Stored value;
  std::memcpy(&value, bytes.data() + i * sizeof(Stored), sizeof(Stored));
  return static_cast<double>(value);
}

inline double number_at(Type type, std::span<const std::byte> bytes, std::size_t i) {
  std::uint16_t half = 0;
  switch (type) {
    case Type::kF64:
      return number_at<double>(bytes, i);
    case Type::kF32:
      return number_at<float>(bytes, i);
    case Type::kF16:
      std::memcpy(&half, bytes.data() + i * 2, 2);
      return static_cast<double>(program::f16_to_f32(half));
    case Type::kBF16:
      std::memcpy(&half, bytes.data() + i * 2, 2);
      return static_cast<double>(program::bf16_to_f32(half));
    case Type::kI64:
      return number_at<std::int64_t>(bytes, i);
    case Type::kI32:
      return number_at<std::int32_t>(bytes, i);
    case Type::kU32:
      return number_at<std::uint32_t>(bytes, i);
    case Type::kU8:
    case Type::kBool:
      break;
  }
  return number_at<std::uint8_t>(bytes, i);
}

inline std::vector<double> numbers_of(Type type, std::span<const std::byte> bytes) {
  std::vector<double> numbers(bytes.size() / program::byte_size(type));
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    numbers[i] = number_at(type, bytes, i);
  }
  return numbers;
}

}  // namespace yoke::detail
