// SPDX-License-Identifier: Apache-2.0
// runtime/loader/tables.h: the names of all functions of plugin tables, and stubs for functions that a plugin
// lacks. Generated from the X-macro lists in yoke/backend.h and yoke/ext/.
#pragma once

#include <yoke/backend.h>
#include <yoke/ext/collectives.h>
#include <yoke/ext/memory.h>
#include <yoke/ext/peer.h>

#include <cstdint>
#include <tuple>
#include <type_traits>

#include "loader/status.h"

namespace yoke::detail {

// Name and table of a function: Function<&yoke_backend_api::fill>::kName.
template <auto Member>
struct Function;
#define YOKE_DETAIL_FUNCTION(table, member, need) \
  template <>                                     \
  struct Function<&table::member> {               \
    using Table = table;                          \
    static constexpr const char* kName = #member; \
  };
YOKE_BACKEND_API_FUNCTIONS(YOKE_DETAIL_FUNCTION)
YOKE_STREAM_API_FUNCTIONS(YOKE_DETAIL_FUNCTION)
YOKE_PROGRAM_API_FUNCTIONS(YOKE_DETAIL_FUNCTION)
YOKE_PEER_API_FUNCTIONS(YOKE_DETAIL_FUNCTION)
YOKE_MEMORY_API_FUNCTIONS(YOKE_DETAIL_FUNCTION)
YOKE_COLLECTIVES_API_FUNCTIONS(YOKE_DETAIL_FUNCTION)
#undef YOKE_DETAIL_FUNCTION

// Fills an optional slot that the plugin left empty: the function fails with YOKE_STATUS_UNIMPLEMENTED.
template <class Pointer>
struct Stub;
template <class... Args>
struct Stub<std::int32_t (*)(Args...)> {
  static std::int32_t answer(Args... args) noexcept {
    error_set(std::get<sizeof...(Args) - 1>(std::tie(args...)), YOKE_STATUS_UNIMPLEMENTED, 0,
              "the backend does not offer it", 29);
    return YOKE_STATUS_UNIMPLEMENTED;
  }
};
template <class... Args>
struct Stub<void (*)(Args...)> {
  static void answer(Args...) noexcept {}
};

}  // namespace yoke::detail
