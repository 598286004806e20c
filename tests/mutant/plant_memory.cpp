// SPDX-License-Identifier: Apache-2.0
// tests/mutant/plant_memory.cpp: bugs in yoke.memory/1 and in handles of one device.
#include <yoke/sdk/entry.h>

#include <atomic>
#include <cstring>
#include <utility>

#include "tables.h"

namespace yoke::mutant {
namespace {

namespace detail = sdk::detail;

std::atomic<std::uint64_t> used_by_all{0};
std::atomic<bool> any_aborted{false};

// Destroys the buffer, which releases its imported memory, and then writes to that memory.
void destroy_and_write(yoke_buffer* buffer) {
  const bool is_imported = buffer != nullptr && buffer->kind == YOKE_MEMORY_HOST;
  void* const memory = is_imported ? buffer->object->host_address() : nullptr;
  const std::uint64_t byte_count = is_imported ? buffer->byte_count : 0;
  detail::buffer_destroy(buffer);
  if (memory != nullptr) {
    std::memset(memory, 0, byte_count);
  }
}

}  // namespace

void plant_in_memory(yoke_memory_api& table) {
  plant_after<"pinned_memory_is_not_counted", detail::pinned_allocate>(
      table.pinned_allocate, [](auto* device, auto...) { --device->live[detail::kPinned]; });
  plant<"pinned_memory_is_not_counted">(table.pinned_free, [](auto* device, auto* memory) {
    device->live[detail::kPinned] += memory == nullptr ? 0U : 1U;
    detail::pinned_free(device, memory);
  });
  plant<"device_address_is_the_handle">(table.buffer_device_address,
                                        [](auto* buffer, auto* out_address, auto*) {
                                          *out_address = reinterpret_cast<std::uintptr_t>(buffer);
                                          return std::int32_t{YOKE_STATUS_OK};
                                        });
  plant_after<"import_counts_as_used", detail::buffer_import>(
      table.buffer_import, [](auto* device, auto* args, auto...) { device->used_bytes += args->byte_count; });
  plant_after<"import_releases_at_once", detail::buffer_import>(
      table.buffer_import, [](auto*, auto*, auto** out_buffer, auto*) {
        if ((*out_buffer)->release != nullptr) {
          std::exchange((*out_buffer)->release, nullptr)((*out_buffer)->release_user);
        }
      });
  plant_after<"link_ignores_imported_addresses", detail::buffer_import>(
      table.buffer_import, [](auto*, auto*, auto** out_buffer, auto*) { (*out_buffer)->misalignment = 0; });
  plant<"failed_import_releases">(table.buffer_import, [](auto* device, auto* args, auto... rest) {
    const std::int32_t code = detail::buffer_import(device, args, rest...);
    if (code != YOKE_STATUS_OK && args->release != nullptr) {
      args->release(args->user);
    }
    return code;
  });
}

void plant_in_release(yoke_backend_api& table) {
  plant<"release_comes_before_the_last_use">(table.buffer_destroy, destroy_and_write);
  plant<"release_is_called_twice">(table.buffer_destroy, [](auto* buffer) {
    if (buffer != nullptr && buffer->release != nullptr) {
      buffer->release(buffer->release_user);
    }
    detail::buffer_destroy(buffer);
  });
}

void plant_in_handles(yoke_backend_api& table) {
  plant<"stream_refuses_buffers_of_other_handles">(table.from_host, [](auto* stream, auto* dst, auto offset,
                                                                       auto* src, auto count, auto* source,
                                                                       auto* error) {
    return stream != nullptr && &stream->device() != &dst->device()
               ? dst->plugin().host.report(error, YOKE_STATUS_INVALID_ARGUMENT, "a buffer of another handle")
               : detail::from_host(stream, dst, offset, src, count, source, error);
  });
  plant_after<"used_bytes_count_all_handles", detail::buffer_create>(
      table.buffer_create, [](auto*, auto* args, auto...) { used_by_all += args->byte_count; });
  plant<"used_bytes_count_all_handles">(table.buffer_destroy, [](auto* buffer) {
    used_by_all -= buffer == nullptr || buffer->kind == YOKE_MEMORY_HOST ? 0 : buffer->byte_count;
    detail::buffer_destroy(buffer);
  });
  plant_after<"used_bytes_count_all_handles", detail::device_memory>(
      table.device_memory, [](auto*, auto* info, auto*) { info->used_bytes = used_by_all; });
}

void plant_in_abort(yoke_stream_api& table) {
  plant<"abort_affects_every_handle">(table.device_abort, [](auto* device, auto* error) {
    any_aborted = true;
    return detail::device_abort(device, error);
  });
  plant<"abort_affects_every_handle">(table.stream_wait, [](auto* stream, auto timeout, auto* error) {
    return any_aborted ? stream->plugin().host.report(error, YOKE_STATUS_ABORTED, "the device was aborted")
                       : detail::stream_wait(stream, timeout, error);
  });
}

void plant_in_link(yoke_program_api& table) {
  plant<"link_refuses_buffers_of_other_handles">(table.routine_link, [](auto* code, auto* args,
                                                                        auto** out_routine, auto* error) {
    for (std::uint32_t i = 0; i < args->binding_count; ++i) {
      const yoke_binding row = sdk::read_row(args->bindings, args->binding_stride, i);
      const yoke_device* const home = row.buffer == nullptr ? nullptr : &row.buffer->device();
      if (home != nullptr && home != &code->device() && home->ordinal == code->device().ordinal) {
        return code->plugin().host.report(error, YOKE_STATUS_INVALID_ARGUMENT, "a buffer of another handle");
      }
    }
    return detail::routine_link(code, args, out_routine, error);
  });
}

}  // namespace yoke::mutant
