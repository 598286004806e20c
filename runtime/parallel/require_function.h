// SPDX-License-Identifier: Apache-2.0
// runtime/parallel/require_function.h: refuses a caller's function that is empty.
#pragma once

#include <yoke/runtime/error.h>

#include <string>

namespace yoke::detail {

// Throws Error kInvalidArgument if the function is empty.
template <class Function>
void require_function(const Function& function, const char* call) {
  if (!function) {
    throw Error(ErrorCode::kInvalidArgument, std::string(call) + ": the function is empty");
  }
}

}  // namespace yoke::detail
