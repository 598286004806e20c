// SPDX-License-Identifier: Apache-2.0
// plugin_api/sdk/include/yoke/sdk/detail/memory_table.h: implements
// "yoke.memory/1" with the classes of plugin.h.
#pragma once

#include <yoke/ext/memory.h>
#include <yoke/sdk/detail/guarded.h>

#include <cstdint>
#include <string>

namespace yoke::sdk::detail {

inline std::int32_t pinned_allocate(yoke_device* device, const yoke_pinned_args* args, void** out_memory,
                                    yoke_error* error) noexcept {
  if (device == nullptr) {
    return YOKE_STATUS_INVALID_ARGUMENT;
  }
  return guarded(*device, error, [&] {
    present(out_memory, "out_memory");
    const yoke_pinned_args given = read_args(args, 0, "pinned_allocate");
    void* memory = device->object->pinned_allocate(given.byte_count);
    if (memory == nullptr) {
      throw Failure(
          YOKE_STATUS_RESOURCE_EXHAUSTED,
          "the machine is out of memory to pin: " + std::to_string(given.byte_count) + " bytes requested");
    }
    device->live[kPinned].fetch_add(1, std::memory_order_relaxed);
    *out_memory = memory;
  });
}

inline void pinned_free(yoke_device* device, void* memory) noexcept {
  if (device != nullptr && memory != nullptr && !device->plugin.fork_guard.forked()) {
    device->object->pinned_free(memory);
    device->live[kPinned].fetch_sub(1, std::memory_order_release);
  }
}

inline std::int32_t buffer_device_address(yoke_buffer* buffer, std::uint64_t* out_address,
                                          yoke_error* error) noexcept {
  if (buffer == nullptr) {
    return YOKE_STATUS_INVALID_ARGUMENT;
  }
  return guarded(buffer->plugin(), error,
                 [&] { present(out_address, "out_address") = buffer->object->device_address(); });
}

inline std::int32_t buffer_import(yoke_device* device, const yoke_import_args* args, yoke_buffer** out_buffer,
                                  yoke_error* error) noexcept {
  if (device == nullptr) {
    return YOKE_STATUS_INVALID_ARGUMENT;
  }
  return guarded(*device, error, [&] {
    present(out_buffer, "out_buffer");
    const yoke_import_args given = read_args(args, 0, "buffer_import");
    if (given.address == 0 && given.byte_count != 0) {
      throw Failure(YOKE_STATUS_INVALID_ARGUMENT, "buffer_import: the address is 0");
    }
    if (given.kind < YOKE_MEMORY_DEVICE || given.kind > YOKE_MEMORY_HOST) {
      throw Failure(YOKE_STATUS_UNIMPLEMENTED, "unknown kind of memory: " + std::to_string(given.kind));
    }
    *out_buffer = new yoke_buffer(*device, given);
  });
}

inline void write_native(const Native& from, yoke_native_info* info) {
  yoke_native_info to{};
  set_text(to.api, from.api);
  to.handle = from.handle;
  to.context = from.context;
  write_sized(to, &present(info, "info"));
}

inline std::int32_t device_native(yoke_device* device, yoke_native_info* info, yoke_error* error) noexcept {
  if (device == nullptr) {
    return YOKE_STATUS_INVALID_ARGUMENT;
  }
  return guarded(device->plugin, error, [&] { write_native(device->object->native(), info); });
}

inline std::int32_t stream_native(yoke_stream* stream, yoke_native_info* info, yoke_error* error) noexcept {
  if (stream == nullptr) {
    return YOKE_STATUS_INVALID_ARGUMENT;
  }
  return guarded(stream->plugin(), error, [&] { write_native(stream->object->native(), info); });
}

inline constexpr yoke_memory_api kMemoryTable = {
    .struct_size = sizeof(yoke_memory_api),
    .pinned_allocate = pinned_allocate,
    .pinned_free = pinned_free,
    .buffer_device_address = buffer_device_address,
    .buffer_import = buffer_import,
    .device_native = device_native,
    .stream_native = stream_native,
};

}  // namespace yoke::sdk::detail
