// SPDX-License-Identifier: Apache-2.0
// plugins/cc/tile/op_map.h: maps the program format's types and values to those of registers.
#pragma once

#include <yoke/program/program.h>

#include <cstdint>

#include "kernels.h"

namespace yoke::cc {

Reg reg_of(program::Type type);
bool is_half(program::Type type);  // f16 or bf16
// The bytes of a tensor's element that holds this value.
std::uint64_t stored_bytes(program::Type type, const program::Literal& literal);

static_assert(static_cast<int>(program::Op::kConst) == static_cast<int>(MapOp::kConst) &&
              program::kOpCount == static_cast<std::size_t>(MapOp::kCopy));

}  // namespace yoke::cc
