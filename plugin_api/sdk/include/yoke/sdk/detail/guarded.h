// SPDX-License-Identifier: Apache-2.0
// plugin_api/sdk/include/yoke/sdk/detail/guarded.h: the boundary: exceptions become codes, and what every
// call checks.
#pragma once

#include <yoke/sdk/detail/handles.h>

#include <cstdint>
#include <exception>
#include <new>
#include <optional>
#include <string>

namespace yoke::sdk::detail {

// Called inside a catch.
inline std::int32_t caught(const Host& host, yoke_error* error) noexcept {
  try {
    throw;
  } catch (const Failure& failure) {
    // A failure that says "no failure" must not look like success.
    const std::int32_t code = failure.code() == YOKE_OK ? YOKE_INTERNAL : failure.code();
    return host.report(error, code, failure.text(), failure.vendor_code());
  } catch (const std::bad_alloc&) {
    return host.report(error, YOKE_RESOURCE_EXHAUSTED, "the plugin got no host memory");
  } catch (const std::exception& exception) {
    return host.report(error, YOKE_INTERNAL, exception.what());
  } catch (...) {
    return host.report(error, YOKE_INTERNAL, "the plugin threw something that is no std::exception");
  }
}

// Runs `body` and gives back YOKE_OK, or the code of what it threw.
template <class Body>
std::int32_t guarded(const PluginState& plugin, yoke_error* error, const Body& body) noexcept {
  if (plugin.fork_guard.forked()) [[unlikely]] {
    return plugin.host.report(error, YOKE_FAILED_PRECONDITION,
                              "this process was forked after a device was opened; it may only exec");
  }
  try {
    body();
    return YOKE_OK;
  } catch (...) {
    return caught(plugin.host, error);
  }
}

// The same for a call about a device that may be lost.
template <class Body>
std::int32_t guarded(const yoke_device& device, yoke_error* error, const Body& body) noexcept {
  return guarded(device.plugin, error, [&] {
    device.faults.check_alive();
    body();
  });
}

// Destroys a handle; in a forked child it is left alone, as it belongs to the parent.
template <class Handle>
void destroy(Handle* handle) noexcept {
  if (handle != nullptr && !handle->plugin().fork_guard.forked()) {
    delete handle;
  }
}

template <class T>
T& present(T* pointer, const char* name) {
  if (pointer == nullptr) [[unlikely]] {
    throw Failure(YOKE_INVALID_ARGUMENT, std::string(name) + " is NULL");
  }
  return *pointer;
}

inline void check_range(const char* what, std::uint64_t offset, std::uint64_t byte_count,
                        std::uint64_t size) {
  if (offset > size || byte_count > size - offset) [[unlikely]] {
    throw Failure(YOKE_OUT_OF_RANGE, std::string(what) + ": " + std::to_string(byte_count) +
                                         " bytes from byte " + std::to_string(offset) +
                                         " do not fit in a buffer of " + std::to_string(size) + " bytes");
  }
}

// The stream's object; work of `device` may only be queued on a stream of that device.
inline Stream* stream_for(yoke_stream* stream, const yoke_device& device) {
  if (stream == nullptr) {
    return nullptr;
  }
  if (stream->device().ordinal != device.ordinal) [[unlikely]] {
    throw Failure(YOKE_INVALID_ARGUMENT, "a stream of device " + std::to_string(stream->device().ordinal) +
                                             " got work of device " + std::to_string(device.ordinal));
  }
  return stream->object.get();
}

// A copy or launch of `device` is about to be queued on `stream` (null: to be done). True: the fault that was
// due took its place on the stream. Throws the fault where there is no stream.
inline bool fault_strikes(yoke_device& device, Stream* stream, std::int32_t kind) {
  const std::optional<Failure> due = device.faults.on_work(kind);
  if (!due) [[likely]] {
    return false;
  }
  if (stream == nullptr) {
    throw Failure(*due);
  }
  stream->poison(*due);
  return true;
}

// Writes at most `capacity` rows of `count`, and always the full number.
template <class Row, class MakeRow>
void write_rows(std::uint32_t capacity, Row* rows, std::uint32_t* out_count, std::size_t count,
                const MakeRow& make_row) {
  present(out_count, "out_count");
  if (capacity != 0) {
    present(rows, "the array");
  }
  for (std::size_t i = 0; i < count && i < capacity; ++i) {
    write_sized(make_row(i), row_of(rows, i));
  }
  *out_count = static_cast<std::uint32_t>(count);
}

}  // namespace yoke::sdk::detail
