// SPDX-License-Identifier: Apache-2.0
// plugins/cc/tile/op_map.cpp: maps the program format's types and values to those of registers.
#include "op_map.h"

#include <yoke/program/execute.h>

#include <cstring>
#include <type_traits>

namespace yoke::cc {

using program::Type;

Reg reg_of(Type type) {
  switch (type) {
    case Type::kF64:
      return Reg::kF64;
    case Type::kI64:
      return Reg::kI64;
    case Type::kI32:
      return Reg::kI32;
    case Type::kU32:
      return Reg::kU32;
    case Type::kU8:
    case Type::kBool:
      return Reg::kU8;
    default:
      return Reg::kF32;
  }
}

bool is_half(Type type) {
  return type == Type::kF16 || type == Type::kBF16;
}

std::uint64_t stored_bytes(Type type, const program::Literal& literal) {
  std::uint64_t bytes = 0;
  const auto put = [&](auto value) { std::memcpy(&bytes, &value, sizeof(value)); };
  const auto number = static_cast<float>(literal.number);
  if (is_half(type)) {
    put(type == Type::kF16 ? program::f32_to_f16(number) : program::f32_to_bf16(number));
  } else if (type == Type::kBool) {
    put(literal.integer != 0);
  } else {
    with_type(reg_of(type), [&](auto zero) {
      using T = decltype(zero);
      put(std::is_integral_v<T> ? static_cast<T>(literal.integer) : static_cast<T>(literal.number));
    });
  }
  return bytes;
}

}  // namespace yoke::cc
