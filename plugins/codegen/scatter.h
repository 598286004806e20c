// SPDX-License-Identifier: Apache-2.0
// plugins/codegen/scatter.h: kernels for scatters.
#pragma once

#include <cstddef>

#include "builder.h"

namespace yoke::codegen {

// Plans a scatter: each element has one owner, which applies all updates of the element in loop order, so
// that results equal those of the reference executor bit for bit. Returns false if the statement is not a
// scatter, or runs faster in the general form. With Target::atomics, sums of 4 and 8 bytes are added atomically
// instead, one thread for each update: faster if many updates share elements, but in any order.
bool plan_scatter(Builder& builder, std::size_t statement);

}  // namespace yoke::codegen
