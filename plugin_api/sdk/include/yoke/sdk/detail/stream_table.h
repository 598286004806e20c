// SPDX-License-Identifier: Apache-2.0
// plugin_api/sdk/include/yoke/sdk/detail/stream_table.h: implements
// "yoke.stream/1" with the classes of plugin.h.
#pragma once

#include <yoke/sdk/detail/backend_table.h>

#include <cstddef>
#include <cstdint>

namespace yoke::sdk::detail {

inline std::int32_t stream_create(yoke_device* device, const yoke_stream_args* args, yoke_stream** out_stream,
                                  yoke_error* error) noexcept {
  if (device == nullptr) {
    return YOKE_STATUS_INVALID_ARGUMENT;
  }
  return guarded(*device, error, [&] {
    present(out_stream, "out_stream");
    *out_stream = new yoke_stream(*device, read_args(args, 0, "stream_create").priority);
  });
}

// The work must be quiescent before a wait returns, even on a lost device.
template <class Waited>
void wait_for_all(const yoke_device& device, Waited& waited, std::uint64_t timeout_ns) {
  try {
    waited.wait(timeout_ns);
  } catch (const Failure& failure) {
    if (failure.code() == YOKE_STATUS_DEADLINE_EXCEEDED || !device.faults.lost()) {
      throw;
    }
  }
  device.faults.check_alive();
}

// A lost device fails all work that has not failed already.
template <class Waited>
std::int32_t state_of_work(const yoke_device& device, Waited& waited) {
  const std::int32_t state = waited.state();
  return state == YOKE_STATE_DONE && device.faults.lost() ? YOKE_STATE_FAILED : state;
}

// The members of a group wait for each other, so aborted work aborts its communicators.
template <class IsAborted>
void abort_communicators(PluginState& plugin, const IsAborted& is_aborted) {
  for_each_used_stream(plugin, [&](yoke_communicator& communicator, std::size_t i) {
    if (is_aborted(*communicator.streams[i])) {
      communicator.object->abort();
    }
  });
}

inline void stream_destroy(yoke_stream* stream) noexcept {
  if (stream != nullptr && !stream->plugin().fork_guard.forked()) {
    for_each_used_stream(stream->plugin(), [&](yoke_communicator& communicator, std::size_t i) {
      if (communicator.streams[i] == stream) {
        communicator.streams.erase(communicator.streams.begin() + static_cast<std::ptrdiff_t>(i));
      }
    });
  }
  destroy(stream);
}

inline std::int32_t stream_query(yoke_stream* stream, std::int32_t* out_state, yoke_error* error) noexcept {
  if (stream == nullptr) {
    return YOKE_STATUS_INVALID_ARGUMENT;
  }
  return guarded(stream->plugin(), error,
                 [&] { present(out_state, "out_state") = state_of_work(stream->device(), *stream->object); });
}

inline std::int32_t stream_wait(yoke_stream* stream, std::uint64_t timeout_ns, yoke_error* error) noexcept {
  if (stream == nullptr) {
    return YOKE_STATUS_INVALID_ARGUMENT;
  }
  return guarded(stream->plugin(), error,
                 [&] { wait_for_all(stream->device(), *stream->object, timeout_ns); });
}

inline std::int32_t event_record(yoke_stream* stream, const yoke_event_args* args, yoke_event** out_event,
                                 yoke_error* error) noexcept {
  if (stream == nullptr) {
    return YOKE_STATUS_INVALID_ARGUMENT;
  }
  return guarded(stream->device(), error, [&] {
    present(out_event, "out_event");
    const yoke_event_args given = read_args(args, YOKE_EVENT_TIMING, "event_record");
    if (const std::uint64_t delay_ns = stream->device().faults.on_event(); delay_ns != 0) {
      stream->object->pause(delay_ns);
    }
    *out_event = new yoke_event(*stream, (given.flags & YOKE_EVENT_TIMING) != 0);
  });
}

inline void event_destroy(yoke_event* event) noexcept {
  destroy(event);
}

inline std::int32_t event_query(yoke_event* event, std::int32_t* out_state, yoke_error* error) noexcept {
  if (event == nullptr) {
    return YOKE_STATUS_INVALID_ARGUMENT;
  }
  return guarded(event->plugin(), error,
                 [&] { present(out_state, "out_state") = state_of_work(event->device(), *event->object); });
}

inline std::int32_t event_wait(yoke_event* event, std::uint64_t timeout_ns, yoke_error* error) noexcept {
  if (event == nullptr) {
    return YOKE_STATUS_INVALID_ARGUMENT;
  }
  return guarded(event->plugin(), error, [&] { wait_for_all(event->device(), *event->object, timeout_ns); });
}

inline std::int32_t stream_wait_event(yoke_stream* stream, yoke_event* event, yoke_error* error) noexcept {
  if (stream == nullptr) {
    return YOKE_STATUS_INVALID_ARGUMENT;
  }
  return guarded(stream->device(), error,
                 [&] { stream->object->wait_event(*present(event, "event").object); });
}

inline std::int32_t event_elapsed(yoke_event* start, yoke_event* stop, std::uint64_t* out_ns,
                                  yoke_error* error) noexcept {
  if (start == nullptr || stop == nullptr) {
    return YOKE_STATUS_INVALID_ARGUMENT;
  }
  return guarded(stop->plugin(), error, [&] {
    present(out_ns, "out_ns");
    if (!start->timing || !stop->timing || start->object->state() != YOKE_STATE_DONE ||
        stop->object->state() != YOKE_STATE_DONE) {
      throw Failure(YOKE_STATUS_FAILED_PRECONDITION,
                    "event_elapsed: both events must be done and recorded with YOKE_EVENT_TIMING");
    }
    *out_ns = stop->object->elapsed_since(*start->object);
  });
}

inline std::int32_t stream_abort(yoke_stream* stream, yoke_error* error) noexcept {
  if (stream == nullptr) {
    return YOKE_STATUS_INVALID_ARGUMENT;
  }
  return guarded(stream->plugin(), error, [&] {
    stream->object->abort();
    abort_communicators(stream->plugin(), [&](const yoke_stream& one) { return &one == stream; });
  });
}

inline std::int32_t device_abort(yoke_device* device, yoke_error* error) noexcept {
  if (device == nullptr) {
    return YOKE_STATUS_INVALID_ARGUMENT;
  }
  return guarded(device->plugin, error, [&] {
    device->object->abort();
    abort_communicators(device->plugin, [&](const yoke_stream& one) { return &one.device() == device; });
  });
}

inline std::int32_t stream_host_callback(yoke_stream* stream, yoke_host_callback_fn callback, void* user,
                                         yoke_error* error) noexcept {
  if (stream == nullptr || callback == nullptr) {
    return YOKE_STATUS_INVALID_ARGUMENT;
  }
  return guarded(stream->plugin(), error, [&] { stream->object->host_callback(callback, user); });
}

inline std::int32_t stream_debug_text(yoke_stream* stream, char* text, std::uint64_t capacity,
                                      yoke_error* error) noexcept {
  if (stream == nullptr) {
    return YOKE_STATUS_INVALID_ARGUMENT;
  }
  return guarded(stream->plugin(), error,
                 [&] { write_text(stream->object->debug_text(), text, capacity, "text"); });
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
    .stream_abort = stream_abort,
    .device_abort = device_abort,
    .stream_host_callback = stream_host_callback,
    .stream_debug_text = stream_debug_text,
};

}  // namespace yoke::sdk::detail
