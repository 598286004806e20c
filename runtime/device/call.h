// SPDX-License-Identifier: Apache-2.0
// runtime/device/call.h: calls of a plugin's functions. A failed status becomes an Error, and a success
// without a result is reported as the plugin's error.
//
//   call<&yoke_backend_api::buffer_create>(device, device.get(), &args, &raw);       // throws
//   Status status;                                                                   // does not throw:
//   code = attempt<&yoke_stream_api::stream_query>(state, status, stream, &query_state);
//   offers<&yoke_backend_api::fill>(state)                                           // an optional function
//
// Pass every argument except the last, the yoke_error*. A successful
// call builds no string and does not allocate.
#pragma once

#include <yoke/runtime/device.h>

#include <cstdint>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <vector>

#include "device/state.h"
#include "loader/status.h"
#include "loader/tables.h"

namespace yoke::detail {

template <auto Member>
bool offers(const BackendState& backend) noexcept {
  const auto function = backend.table<typename Function<Member>::Table>().*Member;
  return function != nullptr && function != &Stub<std::remove_const_t<decltype(function)>>::answer;
}

// Whether the out-handle (a T** in last place) is null.
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

// Fills `status` with a sentence about a mistake of the plugin. Returns YOKE_STATUS_INTERNAL.
std::int32_t blame(const BackendState& backend, Status& status, std::string_view what) noexcept;

// Returns the result code; on failure `status` has the plugin's text. YOKE_STATUS_OK
// with a null out-handle becomes YOKE_STATUS_INTERNAL.
template <auto Member, class... Args>
std::int32_t attempt(const BackendState& backend, Status& status, Args... args) {
  status.clear();
  const auto function = backend.table<typename Function<Member>::Table>().*Member;
  const std::int32_t code = function(args..., status.get());
  if (code == YOKE_STATUS_OK && lacks_result(args...)) [[unlikely]] {
    return blame(backend, status, "returned OK without a result");
  }
  return code;
}

// Throws an Error with `where` ("cc:0"), the name of the function, and the plugin's text.
template <auto Member, class... Args>
void call(const BackendState& backend, std::string_view where, Args... args) {
  Status status;
  const std::int32_t code = attempt<Member>(backend, status, args...);
  if (code != YOKE_STATUS_OK) [[unlikely]] {
    throw make_error(where, Function<Member>::kName, code, status);
  }
}

template <auto Member, class... Args>
void call(const Device& device, Args... args) {
  call<Member>(device.backend()->state(), std::string_view(device.name()), args...);
}

// For functions without a result. Does nothing for null.
template <auto Member, class Handle>
void destroy(const BackendState& backend, Handle* handle) noexcept {
  if (handle != nullptr) {
    (backend.table<typename Function<Member>::Table>().*Member)(handle);
  }
}

// Returns all rows of a list function (..., capacity, stride, rows, out_count). `capacity` is the expected
// number; if there are more, the function is called again.
template <auto Member, class Row, class... Args>
std::vector<Row> list(const BackendState& backend, std::string_view where, std::uint32_t capacity,
                      Args... args) {
  constexpr std::uint32_t kMostRows = 1U << 20U;  // more is an invalid count
  std::vector<Row> rows;
  for (int round = 0; round < 2; ++round) {
    rows.assign(capacity, Row{});
    std::uint32_t count = 0;
    call<Member>(backend, where, args..., capacity, std::uint64_t{sizeof(Row)}, rows.data(), &count);
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
  const std::int32_t code = blame(backend, status, "reported more rows than fit, or than it reported before");
  throw make_error(where, Function<Member>::kName, code, status);
}

}  // namespace yoke::detail
