// SPDX-License-Identifier: Apache-2.0
// plugins/cc/tile/op_map.h: the program format's types and operations as registers and kernels.
#pragma once

#include <yoke/program/program.h>

#include "kernels.h"

namespace yoke::cc {

Reg reg_of(program::Type type);
bool is_half(program::Type type);  // f16 or bf16

MapOp map_op(program::Op op);
// Has the result no more digits than the operands, so that a 16-bit type needs no rounding?
bool is_exact(program::Op op);

}  // namespace yoke::cc
