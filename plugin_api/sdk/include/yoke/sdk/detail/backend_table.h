// SPDX-License-Identifier: Apache-2.0
// plugin_api/sdk/include/yoke/sdk/detail/backend_table.h: implements
// "yoke.backend/1" and "yoke.peer/1" with the classes of plugin.h.
#pragma once

#include <yoke/ext/peer.h>
#include <yoke/sdk/detail/guarded.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <utility>

namespace yoke::sdk::detail {

// From now on the driver may have threads, so a forked child may only exec.
inline std::uint32_t count_devices(PluginState& plugin) {
  plugin.fork_guard.arm();
  return plugin.backend->device_count();
}

inline void check_ordinal(PluginState& plugin, std::uint32_t ordinal) {
  const std::uint32_t count = count_devices(plugin);
  if (ordinal >= count) {
    throw Failure(YOKE_STATUS_OUT_OF_RANGE,
                  "backend '" + std::string(plugin.name) + "' has no device " + std::to_string(ordinal) +
                      "; it has " + std::to_string(count) + (count == 1 ? " device" : " devices"));
  }
}

// Copies text to a caller's array of `capacity` bytes, with a closing zero.
inline void write_text(std::string_view text, char* out_text, std::uint64_t capacity, const char* name) {
  if (capacity != 0) {
    const std::uint64_t length = std::min<std::uint64_t>(text.size(), capacity - 1);
    std::memcpy(&present(out_text, name), text.data(), length);
    out_text[length] = '\0';
  }
}

inline std::int32_t device_count(yoke_plugin* plugin, std::uint32_t* out_count, char* out_reason,
                                 std::uint64_t reason_capacity, yoke_error* error) noexcept {
  if (plugin == nullptr) {
    return YOKE_STATUS_INVALID_ARGUMENT;
  }
  PluginState& state = state_of(plugin);
  return guarded(state, error, [&] {
    present(out_count, "out_count");
    const std::uint32_t count = count_devices(state);
    write_text(count == 0 ? state.backend->why_no_device() : std::string(), out_reason, reason_capacity,
               "out_reason");
    *out_count = count;
  });
}

inline std::int32_t device_describe(yoke_plugin* plugin, std::uint32_t ordinal, yoke_device_info* info,
                                    yoke_error* error) noexcept {
  if (plugin == nullptr) {
    return YOKE_STATUS_INVALID_ARGUMENT;
  }
  PluginState& state = state_of(plugin);
  return guarded(state, error, [&] {
    present(info, "info");
    check_ordinal(state, ordinal);
    const DeviceInfo from = state.backend->describe(ordinal);
    yoke_device_info to{};
    set_text(to.name, from.name);
    set_text(to.unique_id, from.unique_id);
    to.memory_bytes = from.memory_bytes;
    for (const std::int32_t type : from.types) {
      to.type_mask |= std::uint64_t{1} << type;
    }
    to.kind = from.kind;
    to.compute_unit_count = from.compute_unit_count;
    to.suggested_stream_count = from.suggested_stream_count;
    to.host_visible = from.host_visible ? 1 : 0;
    to.numa_node = from.numa_node;
    write_sized(to, info);
  });
}

inline std::int32_t device_open(yoke_plugin* plugin, const yoke_device_args* args, yoke_device** out_device,
                                yoke_error* error) noexcept {
  if (plugin == nullptr) {
    return YOKE_STATUS_INVALID_ARGUMENT;
  }
  PluginState& state = state_of(plugin);
  return guarded(state, error, [&] {
    present(out_device, "out_device");
    const yoke_device_args given = read_args(args, 0, "device_open");
    if (given.option_count != 0) {
      present(given.options, "options");
    }
    check_ordinal(state, given.ordinal);
    const Options values(state.option_specs, YOKE_OPTION_SCOPE_DEVICE, given.options, given.option_count,
                         given.option_stride);
    *out_device = new yoke_device(state, given.ordinal,
                                  made(state.backend->open_device(given.ordinal, values), "open_device"));
  });
}

// "2 buffers, 1 routine"; empty if no object is alive.
inline std::string live_text(const Counters& live) {
  static constexpr const char* kNames[kKindCount] = {"device", "buffer",  "stream",       "event",
                                                     "code",   "routine", "pinned block", "communicator"};
  std::string text;
  for (std::size_t kind = 0; kind < kKindCount; ++kind) {
    const std::uint64_t count = live[kind].load(std::memory_order_acquire);
    if (count != 0) {
      text +=
          (text.empty() ? "" : ", ") + std::to_string(count) + " " + kNames[kind] + (count == 1 ? "" : "s");
    }
  }
  return text;
}

inline std::int32_t device_close(yoke_device* device, yoke_error* error) noexcept {
  if (device == nullptr) {
    return YOKE_STATUS_OK;
  }
  return guarded(device->plugin, error, [&] {
    const std::string live = live_text(device->live);
    if (!live.empty()) {
      throw Failure(YOKE_STATUS_FAILED_PRECONDITION, "device " + std::to_string(device->ordinal) +
                                                         " cannot be closed: " + live +
                                                         " alive; destroy them first");
    }
    delete device;
  });
}

inline std::int32_t device_memory(yoke_device* device, yoke_memory_info* info, yoke_error* error) noexcept {
  if (device == nullptr) {
    return YOKE_STATUS_INVALID_ARGUMENT;
  }
  return guarded(device->plugin, error, [&] {
    present(info, "info");
    yoke_memory_info to{};
    to.used_bytes = device->used_bytes.load();
    to.peak_bytes = device->peak_bytes.load();
    to.limit_bytes = device->object->memory_limit();
    write_sized(to, info);
  });
}

inline std::int32_t buffer_create(yoke_device* device, const yoke_buffer_args* args, yoke_buffer** out_buffer,
                                  yoke_error* error) noexcept {
  if (device == nullptr) {
    return YOKE_STATUS_INVALID_ARGUMENT;
  }
  return guarded(*device, error, [&] {
    present(out_buffer, "out_buffer");
    const yoke_buffer_args given = read_args(args, 0, "buffer_create");
    if (given.kind != YOKE_MEMORY_DEVICE && given.kind != YOKE_MEMORY_UNIFIED) {
      throw Failure(YOKE_STATUS_UNIMPLEMENTED, "unknown kind of memory: " + std::to_string(given.kind));
    }
    device->faults.on_allocation();
    *out_buffer = new yoke_buffer(*device, given.byte_count, given.kind);
  });
}

inline void buffer_destroy(yoke_buffer* buffer) noexcept {
  destroy(buffer);
}

inline std::int32_t buffer_describe(yoke_buffer* buffer, yoke_buffer_info* info, yoke_error* error) noexcept {
  if (buffer == nullptr) {
    return YOKE_STATUS_INVALID_ARGUMENT;
  }
  return guarded(buffer->plugin(), error, [&] {
    present(info, "info");
    yoke_buffer_info to{};
    to.byte_count = buffer->byte_count;
    to.host_address = reinterpret_cast<std::uintptr_t>(buffer->object->host_address());
    to.kind = buffer->kind;
    write_sized(to, info);
  });
}

inline std::int32_t from_host(yoke_stream* stream, yoke_buffer* dst, std::uint64_t dst_offset,
                              const void* src, std::uint64_t byte_count, std::int32_t* out_source,
                              yoke_error* error) noexcept {
  if (dst == nullptr) {
    return YOKE_STATUS_INVALID_ARGUMENT;
  }
  return guarded(dst->device(), error, [&] {
    check_range("from_host", dst_offset, byte_count, dst->byte_count);
    if (byte_count != 0 && src == nullptr) {
      throw Failure(YOKE_STATUS_INVALID_ARGUMENT, "src is NULL");
    }
    Stream* queue = stream_for(stream, dst->device());
    std::int32_t source = YOKE_SOURCE_COPIED;
    if (!fault_strikes(dst->device(), queue, YOKE_FAULT_COPY)) {
      profiled(dst->device(), stream, queue, YOKE_WORK_COPY, "from_host",
               [&] { source = dst->object->from_host(queue, dst_offset, src, byte_count); });
    }
    if (out_source != nullptr) {
      *out_source = source;
    }
  });
}

inline std::int32_t to_host(yoke_stream* stream, yoke_buffer* src, std::uint64_t src_offset, void* dst,
                            std::uint64_t byte_count, yoke_error* error) noexcept {
  if (src == nullptr) {
    return YOKE_STATUS_INVALID_ARGUMENT;
  }
  return guarded(src->device(), error, [&] {
    check_range("to_host", src_offset, byte_count, src->byte_count);
    if (byte_count != 0 && dst == nullptr) {
      throw Failure(YOKE_STATUS_INVALID_ARGUMENT, "dst is NULL");
    }
    Stream* queue = stream_for(stream, src->device());
    if (!fault_strikes(src->device(), queue, YOKE_FAULT_COPY)) {
      profiled(src->device(), stream, queue, YOKE_WORK_COPY, "to_host",
               [&] { src->object->to_host(queue, src_offset, dst, byte_count); });
    }
  });
}

inline std::int32_t device_to_device(yoke_stream* stream, yoke_buffer* dst, std::uint64_t dst_offset,
                                     yoke_buffer* src, std::uint64_t src_offset, std::uint64_t byte_count,
                                     yoke_error* error) noexcept {
  if (dst == nullptr || src == nullptr) {
    return YOKE_STATUS_INVALID_ARGUMENT;
  }
  return guarded(dst->device(), error, [&] {
    check_range("device_to_device, target", dst_offset, byte_count, dst->byte_count);
    check_range("device_to_device, source", src_offset, byte_count, src->byte_count);
    if (dst == src && dst_offset < src_offset + byte_count && src_offset < dst_offset + byte_count) {
      throw Failure(YOKE_STATUS_INVALID_ARGUMENT, "device_to_device: the two ranges of one buffer overlap");
    }
    const bool of_source = stream != nullptr && stream->device().ordinal == src->device().ordinal;
    Stream* queue = stream_for(stream, of_source ? src->device() : dst->device());
    src->device().faults.check_alive();
    if (!fault_strikes(dst->device(), queue, YOKE_FAULT_COPY)) {
      profiled(dst->device(), stream, queue, YOKE_WORK_COPY, "device_to_device",
               [&] { dst->object->copy_from(queue, dst_offset, *src->object, src_offset, byte_count); });
    }
  });
}

inline std::int32_t fill(yoke_stream* stream, yoke_buffer* dst, std::uint64_t dst_offset,
                         std::uint64_t byte_count, const void* pattern, std::uint32_t pattern_byte_count,
                         yoke_error* error) noexcept {
  if (dst == nullptr) {
    return YOKE_STATUS_INVALID_ARGUMENT;
  }
  return guarded(dst->device(), error, [&] {
    check_range("fill", dst_offset, byte_count, dst->byte_count);
    const bool size_is_known = pattern_byte_count == 1 || pattern_byte_count == 2 ||
                               pattern_byte_count == 4 || pattern_byte_count == 8;
    if (pattern == nullptr || !size_is_known || byte_count % pattern_byte_count != 0) {
      throw Failure(YOKE_STATUS_INVALID_ARGUMENT,
                    "fill: the pattern must have 1, 2, 4 or 8 bytes and divide the range; it has " +
                        std::to_string(pattern_byte_count) + " bytes, the range " +
                        std::to_string(byte_count));
    }
    Stream* queue = stream_for(stream, dst->device());
    if (!fault_strikes(dst->device(), queue, YOKE_FAULT_COPY)) {
      profiled(dst->device(), stream, queue, YOKE_WORK_FILL, "fill", [&] {
        dst->object->fill(queue, dst_offset, byte_count,
                          {static_cast<const std::byte*>(pattern), pattern_byte_count});
      });
    }
  });
}

inline std::int32_t live_counts(yoke_plugin* plugin, yoke_live_counts* counts, yoke_error* error) noexcept {
  if (plugin == nullptr) {
    return YOKE_STATUS_INVALID_ARGUMENT;
  }
  PluginState& state = state_of(plugin);
  return guarded(state, error, [&] {
    present(counts, "counts");
    const auto count = [&](Kind kind) { return state.live[kind].load(std::memory_order_acquire); };
    write_sized(yoke_live_counts{sizeof(yoke_live_counts), count(kDevice), count(kBuffer), count(kStream),
                                 count(kEvent), count(kCode), count(kRoutine)},
                counts);
  });
}

inline std::int32_t option_specs(yoke_plugin* plugin, std::uint32_t capacity, std::uint64_t stride,
                                 yoke_option_spec* specs, std::uint32_t* out_count,
                                 yoke_error* error) noexcept {
  if (plugin == nullptr) {
    return YOKE_STATUS_INVALID_ARGUMENT;
  }
  PluginState& state = state_of(plugin);
  return guarded(state, error, [&] {
    write_rows(capacity, stride, specs, out_count, state.option_specs.size(), [&](std::size_t i) {
      const OptionSpec& from = state.option_specs[i];
      yoke_option_spec to{};
      to.name = from.name.c_str();
      to.help = from.help.c_str();
      to.type = from.type;
      to.scope = from.scope;
      to.integer_min = from.integer_min;
      to.integer_max = from.integer_max;
      to.integer_default = from.integer_default;
      to.number_min = from.number_min;
      to.number_max = from.number_max;
      to.number_default = from.number_default;
      to.text_default = from.text_default.c_str();
      to.text_choices = from.text_choices.empty() ? nullptr : from.text_choices.c_str();
      return to;
    });
  });
}

inline std::int32_t peer_access(yoke_device* device, yoke_device* other, std::int32_t* out_allowed,
                                yoke_error* error) noexcept {
  if (device == nullptr || other == nullptr) {
    return YOKE_STATUS_INVALID_ARGUMENT;
  }
  return guarded(device->plugin, error, [&] {
    present(out_allowed, "out_allowed");
    *out_allowed = device == other || device->object->peer_access(*other->object) ? 1 : 0;
  });
}

inline constexpr yoke_backend_api kBackendTable = {
    .struct_size = sizeof(yoke_backend_api),
    .device_count = device_count,
    .device_describe = device_describe,
    .device_open = device_open,
    .device_close = device_close,
    .device_memory = device_memory,
    .buffer_create = buffer_create,
    .buffer_destroy = buffer_destroy,
    .buffer_describe = buffer_describe,
    .from_host = from_host,
    .to_host = to_host,
    .device_to_device = device_to_device,
    .fill = fill,
    .live_counts = live_counts,
    .option_specs = option_specs,
};

inline constexpr yoke_peer_api kPeerTable = {
    .struct_size = sizeof(yoke_peer_api),
    .peer_access = peer_access,
};

}  // namespace yoke::sdk::detail
