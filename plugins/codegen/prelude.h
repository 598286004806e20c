// SPDX-License-Identifier: Apache-2.0
// plugins/codegen/prelude.h: the text before the kernels. It defines what differs between compilers, and the
// functions that kernels call.
#pragma once

#include <string_view>

#include "codegen.h"

namespace yoke::codegen {

// Defines YK_KERNEL(threads), YK_DEVICE, YK_SHARED, YK_SYNC(), YK_SHUFFLE_XOR(value, mask),
// YK_SHUFFLE_DOWN(value, delta), YK_BITS(type, value), and functions named yk_*. Kernels use no other names
// except threadIdx, blockIdx, blockDim, gridDim and C's mathematical functions.
//
// Where YOKE_FAKE_GPU is defined, the text has no assembly and no builtins of a vendor.
std::string_view prelude(Dialect dialect);

}  // namespace yoke::codegen
