// SPDX-License-Identifier: Apache-2.0
// runtime/device/call.h: the one way to call a plugin: a code becomes an Error, an OK without a result is the
// plugin's fault.
//
//   call<&yoke_backend_api::buffer_create>(device, device.get(), byte_count, kind, &raw);   // throws
//   Status status;                                                                          // where nothing
//   may throw if (attempt<&yoke_stream_api::stream_query>(state, status, stream, &done) != YOKE_OK) ...
//   offers<&yoke_backend_api::fill>(state)                                                  // is an optional
//   function there?
//
// Pass every argument but the closing yoke_error*. A call that succeeds builds no string and allocates
// nothing.
#pragma once

#include <yoke/runtime/device.h>

#include <cstdint>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <vector>

#include "device/state.h"
#include "device/status.h"

namespace yoke::detail {

// Name and table of a function, from the lists in backend.h.
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
#undef YOKE_DETAIL_FUNCTION

// What stands in an optional slot that the plugin left empty.
template <class Pointer>
struct Stub;
template <class... Args>
struct Stub<std::int32_t (*)(Args...)> {
  static std::int32_t answer(Args... args) noexcept {
    error_set(std::get<sizeof...(Args) - 1>(std::tie(args...)), YOKE_UNIMPLEMENTED, 0,
              "the backend does not offer it", 29);
    return YOKE_UNIMPLEMENTED;
  }
};
template <class... Args>
struct Stub<void (*)(Args...)> {
  static void answer(Args...) noexcept {}
};

template <auto Member>
bool offers(const BackendState& backend) noexcept {
  const auto function = backend.table<typename Function<Member>::Table>().*Member;
  return function != nullptr && function != &Stub<std::remove_const_t<decltype(function)>>::answer;
}

// Did a call that answered OK leave its out-handle (a T** in last place) empty?
template <class... Args>
bool lacks_result(const Args&... args) noexcept {
  if constexpr (sizeof...(Args) > 0) {
    const auto& last = std::get<sizeof...(Args) - 1>(std::tie(args...));
    using Last = std::remove_cvref_t<decltype(last)>;
    if constexpr (std::is_pointer_v<Last> && std::is_pointer_v<std::remove_pointer_t<Last>>) {
      return *last == nullptr;
    }
  }
  return false;
}

// Fills `status` with the sentence for an OK that cannot be one; gives back YOKE_INTERNAL.
std::int32_t blame(const BackendState& backend, Status& status, std::string_view what) noexcept;

// The result code; `status` has the plugin's text. Never YOKE_OK with an empty out-handle.
template <auto Member, class... Args>
std::int32_t attempt(const BackendState& backend, Status& status, Args... args) {
  status.clear();
  const auto function = backend.table<typename Function<Member>::Table>().*Member;
  const std::int32_t code = function(args..., status.get());
  if (code == YOKE_OK && lacks_result(args...)) [[unlikely]] {
    return blame(backend, status, "answered OK without a result");
  }
  return code;
}

// Throws an Error that names `where` ("cc:0"), the function, and the plugin's reason.
template <auto Member, class... Args>
void call(const BackendState& backend, std::string_view where, Args... args) {
  Status status;
  const std::int32_t code = attempt<Member>(backend, status, args...);
  if (code != YOKE_OK) [[unlikely]] {
    throw make_error(where, Function<Member>::kName, code, status);
  }
}

template <auto Member, class... Args>
void call(const Device& device, Args... args) {
  call<Member>(device.backend()->state(), std::string_view(device.name()), args...);
}

// Functions without a result: the destroy calls.
template <auto Member, class Handle>
void destroy(const BackendState& backend, Handle* handle) noexcept {
  if (handle != nullptr) {
    (backend.table<typename Function<Member>::Table>().*Member)(handle);
  }
}

// All rows of a list function (capacity, rows, out_count): asks for the number with room for one row, then
// for all of them.
template <auto Member, class Row, class... Args>
std::vector<Row> list(const BackendState& backend, std::string_view where, Args... args) {
  constexpr std::uint32_t kMostRows = 1U << 20U;  // more is a broken count, not a list
  std::vector<Row> rows;
  std::uint32_t capacity = 1;
  for (int round = 0; round < 2; ++round) {
    rows.assign(capacity, Row{});
    for (Row& row : rows) {
      row.struct_size = sizeof(Row);
    }
    std::uint32_t count = 0;
    call<Member>(backend, where, args..., capacity, rows.data(), &count);
    if (count <= capacity) {
      rows.resize(count);
      return rows;
    }
    if (count > kMostRows) {
      break;
    }
    capacity = count;
  }
  Status status;
  const std::int32_t code = blame(backend, status, "gave more rows than it has room for or than it said");
  throw make_error(where, Function<Member>::kName, code, status);
}

}  // namespace yoke::detail
