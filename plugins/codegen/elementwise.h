// SPDX-License-Identifier: Apache-2.0
// plugins/codegen/elementwise.h: kernels for statements that compute each element by itself.
#pragma once

#include <cstddef>
#include <span>

#include "builder.h"

namespace yoke::codegen {

// Plans elementwise statements of one block, in this order. Statements over the same
// loops that use each other's elements share threads; independent ones share launches. A thread computes
// several neighboring elements with accesses of up to 16 bytes.
void plan_elementwise(Builder& builder, std::span<const std::size_t> statements);

}  // namespace yoke::codegen
