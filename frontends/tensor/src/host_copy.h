// SPDX-License-Identifier: Apache-2.0
// frontends/tensor/src/host_copy.h: blocking copies to and from host memory of the caller.
#pragma once

#include <yoke/runtime/context.h>

#include <cstddef>
#include <span>
#include <string_view>

namespace yoke::detail {

// Waits for copies from or to the caller's memory. Aborts work that does not finish in time and waits again,
// so that the work does not use the memory after the call.
inline void wait_or_abort(Stream& stream) {
  try {
    stream.wait();
  } catch (const Error& error) {
    if (error.code() == ErrorCode::kDeadlineExceeded) {
      stream.abort();
      stream.wait();
    }
    throw;
  }
}

inline void read_now(const Context& context, std::string_view name, std::span<std::byte> bytes) {
  context.to_host(name, bytes);
  wait_or_abort(*context.stream());
}

inline void write_now(const Context& context, std::string_view name, std::span<const std::byte> bytes) {
  context.from_host(name, bytes);
  wait_or_abort(*context.stream());
}

}  // namespace yoke::detail
