// SPDX-License-Identifier: Apache-2.0
// tests/conformance/mutant/plant_device.cpp: bugs of describing, opening, closing, allocating and counting.
#include <yoke/sdk/detail/backend_table.h>

#include <atomic>
#include <chrono>
#include <cstring>
#include <thread>
#include <vector>

#include "bug.h"
#include "tables.h"

namespace yoke::mutant {
namespace {

namespace detail = sdk::detail;

constexpr std::uint64_t kNoteSize = 64;

// A row of options without those that the schema does not have.
std::vector<yoke_option> known_options(yoke_plugin* plugin, const yoke_option* options, std::uint32_t count) {
  std::vector<yoke_option> known;
  for (std::uint32_t i = 0; i < count; ++i) {
    yoke_option option{};
    sdk::read_sized(option, sdk::row_of(options, i));
    for (const sdk::OptionSpec& spec : detail::state_of(plugin).option_specs) {
      if (option.name != nullptr && spec.name == option.name) {
        known.push_back(option);
        known.back().struct_size = sizeof(yoke_option);
      }
    }
  }
  return known;
}

std::int32_t open_known(yoke_plugin* plugin, std::uint32_t ordinal, const yoke_option* options,
                        std::uint32_t count, yoke_device** out_device, yoke_error* error) {
  const std::vector<yoke_option> known = known_options(plugin, options, count);
  return detail::device_open(plugin, ordinal, known.data(), static_cast<std::uint32_t>(known.size()),
                             out_device, error);
}

// As the SDK's, but the guard against forks is not armed.
std::int32_t open_unguarded(yoke_plugin* plugin, std::uint32_t ordinal, const yoke_option* options,
                            std::uint32_t count, yoke_device** out_device, yoke_error* error) {
  detail::PluginState& state = detail::state_of(plugin);
  return detail::guarded(state, error, [&] {
    detail::present(out_device, "out_device");
    detail::check_ordinal(state, ordinal);
    const sdk::Options values(state.option_specs, options, count);
    *out_device = new yoke_device(state, ordinal, state.backend->open_device(ordinal, values));
  });
}

void plant_in_opening(yoke_backend_api& table) {
  if (on<"fork_guard_is_off">()) {
    table.device_open = open_unguarded;
  }
  if (on<"unknown_option_is_accepted">()) {
    table.device_open = open_known;
  }
  if (on<"open_changes_out_on_failure">()) {
    table.device_open = [](yoke_plugin* plugin, std::uint32_t ordinal, const yoke_option* options,
                           std::uint32_t count, yoke_device** out_device, yoke_error* error) {
      if (out_device != nullptr) {
        *out_device = nullptr;
      }
      return detail::device_open(plugin, ordinal, options, count, out_device, error);
    };
  }
  if (on<"open_takes_any_ordinal">()) {
    table.device_open = [](yoke_plugin* plugin, std::uint32_t ordinal, const yoke_option* options,
                           std::uint32_t count, yoke_device** out_device, yoke_error* error) {
      return detail::device_open(plugin, ordinal % 2, options, count, out_device, error);
    };
  }
  if (on<"close_forgets_children">()) {
    table.device_close = [](yoke_device* device, yoke_error* error) {
      const std::int32_t code = detail::device_close(device, nullptr);
      (void)error;
      return code == YOKE_FAILED_PRECONDITION ? YOKE_OK : code;  // it stays, with its children
    };
  }
  if (on<"close_refuses_without_text">()) {
    table.device_close = [](yoke_device* device, yoke_error*) {
      return detail::device_close(device, nullptr);
    };
  }
  if (on<"close_crashes_on_null">()) {
    table.device_close = [](yoke_device* device, yoke_error* error) {
      const volatile std::uint32_t ordinal = device->ordinal;
      (void)ordinal;
      return detail::device_close(device, error);
    };
  }
}

}  // namespace

void plant_in_device(yoke_backend_api& table) {
  plant_in_opening(table);
  if (on<"describe_ignores_struct_size">()) {
    table.device_describe = [](yoke_plugin* plugin, std::uint32_t ordinal, yoke_device_info* info,
                               yoke_error* error) {
      yoke_device_info whole{};
      whole.struct_size = sizeof whole;
      const std::int32_t code = detail::device_describe(plugin, ordinal, &whole, error);
      if (code == YOKE_OK) {
        std::memcpy(info, &whole, sizeof whole);
      }
      return code;
    };
  }
  if (on<"option_specs_ignores_capacity">()) {
    table.option_specs = [](yoke_plugin* plugin, std::uint32_t capacity, yoke_option_spec* specs,
                            std::uint32_t* out_count, yoke_error* error) {
      const auto all = static_cast<std::uint32_t>(detail::state_of(plugin).option_specs.size());
      return detail::option_specs(plugin, capacity == 0 ? 0 : all, specs, out_count, error);
    };
  }
  if (on<"option_range_is_off_by_one">()) {
    table.option_specs = [](yoke_plugin* plugin, std::uint32_t capacity, yoke_option_spec* specs,
                            std::uint32_t* out_count, yoke_error* error) {
      const std::int32_t code = detail::option_specs(plugin, capacity, specs, out_count, error);
      for (std::uint32_t i = 0; code == YOKE_OK && i < capacity && i < *out_count; ++i) {
        yoke_option_spec* const row = sdk::row_of(specs, i);
        row->integer_max -= std::strcmp(row->name, "priority_levels") == 0 ? 1 : 0;
      }
      return code;
    };
  }
  if (on<"memory_is_never_given_back">()) {
    table.device_memory = [](yoke_device* device, yoke_memory_info* info, yoke_error* error) {
      const std::int32_t code = detail::device_memory(device, info, error);
      if (code == YOKE_OK) {
        info->used_bytes = info->peak_bytes;
      }
      return code;
    };
  }
  if (on<"required_function_is_missing">()) {
    table.device_memory = nullptr;
  }
}

void plant_in_buffer(yoke_backend_api& table) {
  if (on<"create_answers_ok_with_null">()) {
    table.buffer_create = [](yoke_device*, std::uint64_t, std::int32_t, yoke_buffer**, yoke_error*) {
      return std::int32_t{YOKE_OK};
    };
  }
  if (on<"create_changes_out_on_failure">()) {
    table.buffer_create = [](yoke_device* device, std::uint64_t byte_count, std::int32_t kind,
                             yoke_buffer** out_buffer, yoke_error* error) {
      *out_buffer = nullptr;
      return detail::buffer_create(device, byte_count, kind, out_buffer, error);
    };
  }
  if (on<"create_refuses_empty_buffers">()) {
    table.buffer_create = [](yoke_device* device, std::uint64_t byte_count, std::int32_t kind,
                             yoke_buffer** out_buffer, yoke_error* error) {
      if (byte_count == 0) {
        return device->plugin.host.report(error, YOKE_INVALID_ARGUMENT, "a buffer has at least one byte");
      }
      return detail::buffer_create(device, byte_count, kind, out_buffer, error);
    };
  }
  if (on<"create_takes_any_kind">()) {
    table.buffer_create = [](yoke_device* device, std::uint64_t byte_count, std::int32_t,
                             yoke_buffer** out_buffer, yoke_error* error) {
      return detail::buffer_create(device, byte_count, YOKE_MEMORY_DEVICE, out_buffer, error);
    };
  }
  if (on<"buffer_size_is_rounded_up">()) {
    table.buffer_describe = [](yoke_buffer* buffer, yoke_buffer_info* info, yoke_error* error) {
      const std::int32_t code = detail::buffer_describe(buffer, info, error);
      if (code == YOKE_OK) {
        info->byte_count = (info->byte_count + 63) / 64 * 64;
      }
      return code;
    };
  }
  if (on<"buffers_are_leaked">()) {
    table.buffer_destroy = [](yoke_buffer*) {};
  }
  if (on<"buffer_destroy_crashes_on_null">()) {
    table.buffer_destroy = [](yoke_buffer* buffer) {
      const volatile std::int32_t kind = buffer->kind;
      (void)kind;
      detail::buffer_destroy(buffer);
    };
  }
  if (on<"error_is_set_on_another_thread">()) {
    table.buffer_create = [](yoke_device* device, std::uint64_t byte_count, std::int32_t kind,
                             yoke_buffer** out_buffer, yoke_error* error) {
      std::int32_t code = YOKE_OK;
      std::thread([&] { code = detail::buffer_create(device, byte_count, kind, out_buffer, error); }).join();
      return code;
    };
  }
}

namespace {

// Between a read and a write: until another thread comes here too, a millisecond at most. Not for ever: what
// is lost in the first calls is enough.
void linger() {
  static std::atomic<std::uint64_t> entered{0};
  constexpr std::uint64_t kEnough = 500;
  const std::uint64_t mine = ++entered;
  const auto end = std::chrono::steady_clock::now() + std::chrono::milliseconds(1);
  while (mine < kEnough && entered == mine && std::chrono::steady_clock::now() < end) {
    std::this_thread::yield();
  }
}

}  // namespace

// Notes that are taken in host memory when a buffer is made.
void plant_in_host_memory(yoke_backend_api& table) {
  if (on<"host_memory_is_leaked">()) {
    table.buffer_create = [](yoke_device* device, std::uint64_t byte_count, std::int32_t kind,
                             yoke_buffer** out_buffer, yoke_error* error) {
      device->plugin.host.allocate(kNoteSize, kNoteSize);
      return detail::buffer_create(device, byte_count, kind, out_buffer, error);
    };
  }
  if (on<"host_memory_is_not_checked">()) {
    table.buffer_create = [](yoke_device* device, std::uint64_t byte_count, std::int32_t kind,
                             yoke_buffer** out_buffer, yoke_error* error) {
      void* const note = device->plugin.host.allocate(kNoteSize, kNoteSize);
      std::memcpy(note, &byte_count, sizeof byte_count);
      device->plugin.host.deallocate(note);
      return detail::buffer_create(device, byte_count, kind, out_buffer, error);
    };
  }
  if (on<"host_memory_is_freed_twice">()) {
    table.buffer_create = [](yoke_device* device, std::uint64_t byte_count, std::int32_t kind,
                             yoke_buffer** out_buffer, yoke_error* error) {
      void* const note = device->plugin.host.allocate(kNoteSize, kNoteSize);
      device->plugin.host.deallocate(note);
      device->plugin.host.deallocate(note);
      return detail::buffer_create(device, byte_count, kind, out_buffer, error);
    };
  }
}

void plant_in_counts(yoke_backend_api& table) {
  if (on<"failed_create_is_counted">()) {
    static std::atomic<std::uint64_t> failures{0};
    table.buffer_create = [](yoke_device* device, std::uint64_t byte_count, std::int32_t kind,
                             yoke_buffer** out_buffer, yoke_error* error) {
      const std::int32_t code = detail::buffer_create(device, byte_count, kind, out_buffer, error);
      failures += code == YOKE_OK ? 0U : 1U;
      return code;
    };
    table.live_counts = [](yoke_plugin* plugin, yoke_live_counts* counts, yoke_error* error) {
      const std::int32_t code = detail::live_counts(plugin, counts, error);
      if (code == YOKE_OK) {
        counts->buffers += failures;
      }
      return code;
    };
  }
  if (on<"buffers_are_counted_twice">()) {
    table.live_counts = [](yoke_plugin* plugin, yoke_live_counts* counts, yoke_error* error) {
      const std::int32_t code = detail::live_counts(plugin, counts, error);
      if (code == YOKE_OK) {
        counts->buffers *= 2;
      }
      return code;
    };
  }
  if (on<"events_are_not_counted">()) {
    table.live_counts = [](yoke_plugin* plugin, yoke_live_counts* counts, yoke_error* error) {
      const std::int32_t code = detail::live_counts(plugin, counts, error);
      if (code == YOKE_OK) {
        counts->events = 0;
      }
      return code;
    };
  }
  if (on<"counters_are_not_atomic">()) {
    static std::atomic<std::uint64_t> created{0};  // but read and written in two steps
    static std::atomic<std::uint64_t> destroyed{0};
    table.buffer_create = [](yoke_device* device, std::uint64_t byte_count, std::int32_t kind,
                             yoke_buffer** out_buffer, yoke_error* error) {
      const std::int32_t code = detail::buffer_create(device, byte_count, kind, out_buffer, error);
      if (code == YOKE_OK) {
        const std::uint64_t before = created;
        linger();
        created = before + 1;
      }
      return code;
    };
    table.buffer_destroy = [](yoke_buffer* buffer) {
      destroyed += buffer == nullptr ? 0U : 1U;
      detail::buffer_destroy(buffer);
    };
    table.live_counts = [](yoke_plugin* plugin, yoke_live_counts* counts, yoke_error* error) {
      const std::int32_t code = detail::live_counts(plugin, counts, error);
      if (code == YOKE_OK) {
        counts->buffers = created - destroyed;
      }
      return code;
    };
  }
}

}  // namespace yoke::mutant
