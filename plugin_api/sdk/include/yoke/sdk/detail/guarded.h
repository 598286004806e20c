// SPDX-License-Identifier: Apache-2.0
// plugin_api/sdk/include/yoke/sdk/detail/guarded.h: converts exceptions
// to status codes; the checks of every call.
#pragma once

#include <yoke/sdk/detail/handles.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <exception>
#include <new>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

namespace yoke::sdk::detail {

// Precondition: called inside a catch block.
inline std::int32_t caught(const Host& host, yoke_error* error) noexcept {
  try {
    throw;
  } catch (const Failure& failure) {
    // A failure must not look like success.
    const std::int32_t code = failure.code() == YOKE_STATUS_OK ? YOKE_STATUS_INTERNAL : failure.code();
    return host.report(error, code, failure.text(), failure.vendor_code());
  } catch (const std::bad_alloc&) {
    return host.report(error, YOKE_STATUS_RESOURCE_EXHAUSTED, "the plugin is out of host memory");
  } catch (const std::exception& exception) {
    return host.report(error, YOKE_STATUS_INTERNAL, exception.what());
  } catch (...) {
    return host.report(error, YOKE_STATUS_INTERNAL,
                       "the plugin threw an object that is not a std::exception");
  }
}

// Runs `body`. Returns YOKE_STATUS_OK, or the code of the exception it threw.
template <class Body>
std::int32_t guarded(const PluginState& plugin, yoke_error* error, const Body& body) noexcept {
  if (plugin.fork_guard.forked()) [[unlikely]] {
    return plugin.host.report(error, YOKE_STATUS_FAILED_PRECONDITION,
                              "this process was forked after the devices were counted; it may only exec");
  }
  try {
    body();
    return YOKE_STATUS_OK;
  } catch (...) {
    return caught(plugin.host, error);
  }
}

// As above, for calls that fail on a lost device.
template <class Body>
std::int32_t guarded(const yoke_device& device, yoke_error* error, const Body& body) noexcept {
  return guarded(device.plugin, error, [&] {
    device.faults.check_alive();
    body();
  });
}

// Destroys a handle. In a forked child nothing happens: the handle belongs to the parent.
template <class Handle>
void destroy(Handle* handle) noexcept {
  if (handle != nullptr && !handle->plugin().fork_guard.forked()) {
    delete handle;
  }
}

template <class T>
T& present(T* pointer, const char* name) {
  if (pointer == nullptr) [[unlikely]] {
    throw Failure(YOKE_STATUS_INVALID_ARGUMENT, std::string(name) + " is NULL");
  }
  return *pointer;
}

inline void check_range(const char* what, std::uint64_t offset, std::uint64_t byte_count,
                        std::uint64_t size) {
  if (offset > size || byte_count > size - offset) [[unlikely]] {
    throw Failure(YOKE_STATUS_OUT_OF_RANGE, std::string(what) + ": " + std::to_string(byte_count) +
                                                " bytes at offset " + std::to_string(offset) +
                                                " exceed the " + std::to_string(size) + "-byte buffer");
  }
}

// Returns the stream's object, or null for a null stream. Throws if
// the stream belongs to a different ordinal.
inline Stream* stream_for(yoke_stream* stream, const yoke_device& device) {
  if (stream == nullptr) {
    return nullptr;
  }
  if (stream->device().ordinal != device.ordinal) [[unlikely]] {
    throw Failure(YOKE_STATUS_INVALID_ARGUMENT, "work of device " + std::to_string(device.ordinal) +
                                                    " was queued on a stream of device " +
                                                    std::to_string(stream->device().ordinal));
  }
  return stream->object.get();
}

// Called before a copy or launch. If its fault is armed, queues the fault on `stream` in its place and
// returns true, or throws the fault if `stream` is null.
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

// Runs `work`, which queues on `queue`, the object of `stream`, and records it if the device is profiled.
template <class Work>
void profiled(yoke_device& device, yoke_stream* stream, Stream* queue, std::int32_t kind,
              std::string_view name, const Work& work) {
  Profile& profile = stream == nullptr ? device.profile : stream->device().profile;
  if (!profile.is_on()) [[likely]] {
    work();
  } else {
    Profile::Item item = Profile::begin(stream, queue, kind, name);
    work();
    profile.end(std::move(item), queue);
  }
}

// Throws for flags that are not in `known`.
inline void check_flags(std::uint64_t flags, std::uint64_t known, const char* function) {
  if ((flags & ~known) != 0) [[unlikely]] {
    throw Failure(YOKE_STATUS_UNIMPLEMENTED, std::string(function) + ": unknown flags " +
                                                 std::to_string(flags & ~known) + "; update the plugin");
  }
}

// Copies the part of the caller's arguments that both sides know.
template <class Args>
Args read_args(const Args* args, std::uint64_t known_flags, const char* function) {
  Args mine{};
  read_sized(mine, &present(args, "args"));
  check_flags(mine.flags, known_flags, function);
  return mine;
}

// Writes at most `capacity` of `count` rows, `stride` bytes apart. Always writes the full number to
// *out_count.
template <class Row, class MakeRow>
void write_rows(std::uint32_t capacity, std::uint64_t stride, Row* rows, std::uint32_t* out_count,
                std::size_t count, const MakeRow& make_row) {
  present(out_count, "out_count");
  if (capacity != 0) {
    present(rows, "the array of rows");
  }
  for (std::size_t i = 0; i < count && i < capacity; ++i) {
    const Row row = make_row(i);
    std::memcpy(row_of(rows, stride, i), &row,
                static_cast<std::size_t>(std::min<std::uint64_t>(stride, sizeof row)));
  }
  *out_count = static_cast<std::uint32_t>(count);
}

}  // namespace yoke::sdk::detail
