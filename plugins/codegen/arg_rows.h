// SPDX-License-Identifier: Apache-2.0
// plugins/codegen/arg_rows.h: kernels for argmax and argmin over rows.
#pragma once

#include <cstddef>

#include "builder.h"

namespace yoke::codegen {

// Plans an argmax or argmin as one launch: the lanes of a warp, or a block, share a row. Returns false if the
// statement is something else, or runs faster in the general form.
bool plan_arg_rows(Builder& builder, std::size_t statement);

}  // namespace yoke::codegen
