// SPDX-License-Identifier: Apache-2.0
// frontends/tensor/src/host_copy.h: copies to and from host memory that lives no longer than the call.
#pragma once

#include <yoke/runtime/context.h>

#include <cstddef>
#include <span>
#include <string_view>

namespace yoke::detail {

// A wait that fails leaves no copy behind that still uses the caller's memory: the stream is aborted first.
inline void wait_or_abort(Stream& stream) {
  try {
    stream.wait();
  } catch (const Error&) {
    stream.abort();
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
