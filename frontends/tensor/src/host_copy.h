// SPDX-License-Identifier: Apache-2.0
// frontends/tensor/src/host_copy.h: copies to and from host memory, which is kept as long as they use it.
#pragma once

#include <yoke/runtime/collective.h>
#include <yoke/runtime/keep_until_done.h>

#include <cstddef>
#include <cstring>
#include <memory>
#include <new>
#include <string_view>
#include <utility>
#include <vector>

namespace yoke::detail {

// Keeps memory alive until the copies on the stream that use it have finished.
inline void keep_for_copy(Stream& stream, const std::shared_ptr<const void>& memory) noexcept {
  try {
    stream.host_callback(KeepUntilDone{memory});
  } catch (...) {  // leaked, because it is in use
    (void)new (std::nothrow) std::shared_ptr<const void>(memory);
  }
}

// Waits for a copy that uses `memory`. After an Error, such as a missed deadline, the copy may still be
// queued: then the stream keeps the memory until the copy has ended, and later copies can succeed.
inline void wait_for_copy(Stream& stream, const std::shared_ptr<std::vector<std::byte>>& memory) {
  try {
    stream.wait();
  } catch (const Error& error) {
    if (error.code() == ErrorCode::kDeadlineExceeded) {
      keep_for_copy(stream, memory);
    }
    throw;
  }
}

inline std::vector<std::byte> read_now(const Context& context, std::string_view name) {
  auto memory = std::make_shared<std::vector<std::byte>>(context.tensor(name).view.byte_count);
  context.to_host(name, *memory);
  wait_for_copy(*context.stream(), memory);
  return std::move(*memory);
}

inline std::vector<std::byte> read_now(Stream& stream, const CollectiveTensor& from) {
  const BufferView& view = from.resolve(stream).view;
  auto memory = std::make_shared<std::vector<std::byte>>(view.byte_count);
  stream.to_host(memory->data(), view);
  wait_for_copy(stream, memory);
  return std::move(*memory);
}

// Reads a scalar.
template <class T>
T read_scalar(const Context& context, std::string_view name) {
  T value;
  std::memcpy(&value, read_now(context, name).data(), sizeof(T));
  return value;
}

inline void write_now(const Context& context, std::string_view name,
                      const std::shared_ptr<std::vector<std::byte>>& memory) {
  context.from_host(name, *memory);
  wait_for_copy(*context.stream(), memory);
}

inline void write_now(const Context& context, std::string_view name, std::vector<std::byte> bytes) {
  write_now(context, name, std::make_shared<std::vector<std::byte>>(std::move(bytes)));
}

}  // namespace yoke::detail
