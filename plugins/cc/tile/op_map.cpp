// SPDX-License-Identifier: Apache-2.0
// plugins/cc/tile/op_map.cpp: maps the program format's types to register types.
#include "op_map.h"

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

}  // namespace yoke::cc
