// SPDX-License-Identifier: Apache-2.0
// tests/unit/gpu/header_functions.h: compares functions of driver.def with those of a vendor's header.
#pragma once

#include <type_traits>

namespace yoke::gpu {

// Whether the functions have the same number of parameters, of the same sizes, passed in the same registers. With
// `may_widen`, ours may be 8 bytes where the header's have 4.
template <class... P, class Result, class... Q>
constexpr bool are_alike(int (*)(P...), Result (*)(Q...), bool may_widen = false) {
  if constexpr (sizeof...(P) == sizeof...(Q)) {
    return (((sizeof(P) == sizeof(Q) || (may_widen && sizeof(P) == 8 && sizeof(Q) == 4)) &&
             std::is_pointer_v<Q> >= std::is_pointer_v<P> &&
             std::is_floating_point_v<P> == std::is_floating_point_v<Q>)&&...);
  }
  return false;
}

}  // namespace yoke::gpu
