// SPDX-License-Identifier: Apache-2.0
// plugins/cc/tile/op_map.h: maps the program format's types and operations to register types and kernels.
#pragma once

#include <yoke/program/program.h>

#include "kernels.h"

namespace yoke::cc {

Reg reg_of(program::Type type);
bool is_half(program::Type type);  // f16 or bf16

MapOp map_op(program::Op op);
// True if the result has no more digits than the operands, so that 16-bit types need no rounding.
bool is_exact(program::Op op);

}  // namespace yoke::cc
