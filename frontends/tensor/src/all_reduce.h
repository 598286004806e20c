// SPDX-License-Identifier: Apache-2.0
// frontends/tensor/src/all_reduce.h: how all-reduces are found in programs.
#pragma once

#include <yoke/all_reduce.h>

namespace yoke::detail {

bool has_all_reduce(const program::Program& program);

}  // namespace yoke::detail
