// SPDX-License-Identifier: Apache-2.0
// plugin_api/sdk/include/yoke/sdk/detail/stream_table.h: "yoke.stream/1" over the classes of plugin.h.
#pragma once

#include <yoke/sdk/detail/guarded.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <string>

namespace yoke::sdk::detail {

inline std::int32_t stream_create(yoke_device* device, std::int32_t priority, yoke_stream** out_stream,
                                  yoke_error* error) noexcept {
  if (device == nullptr) {
    return YOKE_INVALID_ARGUMENT;
  }
  return guarded(*device, error, [&] {
    present(out_stream, "out_stream");
    *out_stream = new yoke_stream(*device, priority);
  });
}

// On a lost device too the work has to leave the caller's memory before a wait ends.
template <class Waited>
void wait_for_all(const yoke_device& device, Waited& waited, std::uint64_t timeout_ns) {
  try {
    waited.wait(timeout_ns);
  } catch (const Failure& failure) {
    if (failure.code() == YOKE_DEADLINE_EXCEEDED || !device.faults.lost()) {
      throw;
    }
  }
  device.faults.check_alive();
}

inline void stream_destroy(yoke_stream* stream) noexcept {
  destroy(stream);
}

inline std::int32_t stream_query(yoke_stream* stream, std::int32_t* out_done, yoke_error* error) noexcept {
  if (stream == nullptr) {
    return YOKE_INVALID_ARGUMENT;
  }
  return guarded(stream->device(), error, [&] {
    present(out_done, "out_done");
    *out_done = stream->object->done() ? 1 : 0;
  });
}

inline std::int32_t stream_wait(yoke_stream* stream, std::uint64_t timeout_ns, yoke_error* error) noexcept {
  if (stream == nullptr) {
    return YOKE_INVALID_ARGUMENT;
  }
  return guarded(stream->plugin(), error,
                 [&] { wait_for_all(stream->device(), *stream->object, timeout_ns); });
}

inline std::int32_t event_record(yoke_stream* stream, yoke_event** out_event, yoke_error* error) noexcept {
  if (stream == nullptr) {
    return YOKE_INVALID_ARGUMENT;
  }
  return guarded(stream->device(), error, [&] {
    present(out_event, "out_event");
    if (const std::uint64_t delay_ns = stream->device().faults.on_event(); delay_ns != 0) {
      stream->object->pause(delay_ns);
    }
    *out_event = new yoke_event(*stream);
  });
}

inline void event_destroy(yoke_event* event) noexcept {
  destroy(event);
}

inline std::int32_t event_query(yoke_event* event, std::int32_t* out_done, yoke_error* error) noexcept {
  if (event == nullptr) {
    return YOKE_INVALID_ARGUMENT;
  }
  return guarded(event->device(), error, [&] {
    present(out_done, "out_done");
    *out_done = event->object->done() ? 1 : 0;
  });
}

inline std::int32_t event_wait(yoke_event* event, std::uint64_t timeout_ns, yoke_error* error) noexcept {
  if (event == nullptr) {
    return YOKE_INVALID_ARGUMENT;
  }
  return guarded(event->plugin(), error, [&] { wait_for_all(event->device(), *event->object, timeout_ns); });
}

inline std::int32_t stream_wait_event(yoke_stream* stream, yoke_event* event, yoke_error* error) noexcept {
  if (stream == nullptr) {
    return YOKE_INVALID_ARGUMENT;
  }
  return guarded(stream->device(), error,
                 [&] { stream->object->wait_event(*present(event, "event").object); });
}

inline std::int32_t event_elapsed(yoke_event* start, yoke_event* stop, std::uint64_t* out_ns,
                                  yoke_error* error) noexcept {
  if (start == nullptr || stop == nullptr) {
    return YOKE_INVALID_ARGUMENT;
  }
  return guarded(stop->plugin(), error, [&] {
    present(out_ns, "out_ns");
    *out_ns = stop->object->elapsed_since(*start->object);
  });
}

inline std::int32_t device_abort(yoke_device* device, yoke_error* error) noexcept {
  if (device == nullptr) {
    return YOKE_INVALID_ARGUMENT;
  }
  return guarded(device->plugin, error, [&] { device->object->abort(); });
}

inline std::int32_t stream_debug_text(yoke_stream* stream, char* text, std::uint64_t capacity,
                                      yoke_error* error) noexcept {
  if (stream == nullptr) {
    return YOKE_INVALID_ARGUMENT;
  }
  return guarded(stream->plugin(), error, [&] {
    if (capacity == 0) {
      return;
    }
    present(text, "text");
    const std::string full = stream->object->debug_text();
    const std::uint64_t length = std::min<std::uint64_t>(full.size(), capacity - 1);
    std::memcpy(text, full.data(), length);
    text[length] = '\0';
  });
}

inline constexpr yoke_stream_api kStreamTable = {
    .struct_size = sizeof(yoke_stream_api),
    .stream_create = stream_create,
    .stream_destroy = stream_destroy,
    .stream_query = stream_query,
    .stream_wait = stream_wait,
    .event_record = event_record,
    .event_destroy = event_destroy,
    .event_query = event_query,
    .event_wait = event_wait,
    .stream_wait_event = stream_wait_event,
    .event_elapsed = event_elapsed,
    .device_abort = device_abort,
    .stream_debug_text = stream_debug_text,
};

}  // namespace yoke::sdk::detail
