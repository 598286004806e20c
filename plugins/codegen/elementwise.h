// SPDX-License-Identifier: Apache-2.0
// plugins/codegen/elementwise.h: kernels for statements that compute each element by itself.
#pragma once

#include <cstddef>

#include "builder.h"

namespace yoke::codegen {

// Plans the statements [first, last), which are elementwise and belong to one block. Statements over the same
// loops that use each other's elements share threads; independent ones share launches. A thread computes
// several neighboring elements with accesses of up to 16 bytes.
void plan_elementwise(Builder& builder, std::size_t first, std::size_t last);

}  // namespace yoke::codegen
