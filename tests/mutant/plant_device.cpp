// SPDX-License-Identifier: Apache-2.0
// tests/mutant/plant_device.cpp: bugs in describing, opening, closing, allocating and counting.
#include <yoke/sdk/detail/backend_table.h>

#include <atomic>
#include <chrono>
#include <cstring>
#include <thread>
#include <vector>

#include "tables.h"

namespace yoke::mutant {
namespace {

namespace detail = sdk::detail;

constexpr std::uint64_t kNoteSize = 64;

bool is_unknown(const sdk::OptionSpec* spec) {
  return spec == nullptr;
}
bool is_of_plugin(const sdk::OptionSpec* spec) {
  return spec != nullptr && spec->scope == YOKE_OPTION_SCOPE_PLUGIN;
}

// Opens without the options that kDropped selects. kDropped gets an option's row of the schema, NULL if unknown.
template <bool (*kDropped)(const sdk::OptionSpec*)>
std::int32_t open_without(yoke_plugin* plugin, const yoke_device_args* args, yoke_device** out_device,
                          yoke_error* error) {
  std::vector<yoke_option> kept;
  for (std::uint32_t i = 0; i < args->option_count; ++i) {
    const yoke_option option = sdk::read_row(args->options, args->option_stride, i);
    const sdk::OptionSpec* row = nullptr;
    for (const sdk::OptionSpec& spec : detail::state_of(plugin).option_specs) {
      row = option.name != nullptr && spec.name == option.name ? &spec : row;
    }
    if (!kDropped(row)) {
      kept.push_back(option);
    }
  }
  yoke_device_args changed = *args;
  changed.options = kept.data();
  changed.option_count = static_cast<std::uint32_t>(kept.size());
  changed.option_stride = sizeof(yoke_option);
  return detail::device_open(plugin, &changed, out_device, error);
}

// As the SDK's function, without the guard against forks.
std::int32_t open_unguarded(yoke_plugin* plugin, const yoke_device_args* args, yoke_device** out_device,
                            yoke_error* error) {
  detail::PluginState& state = detail::state_of(plugin);
  const auto open = [&] {
    detail::present(out_device, "out_device");
    const std::uint32_t count = state.backend->device_count();
    if (args->ordinal >= count) {
      throw sdk::Failure(YOKE_STATUS_OUT_OF_RANGE, "no such device");
    }
    const sdk::Options values(state.option_specs, YOKE_OPTION_SCOPE_DEVICE, args->options, args->option_count,
                              args->option_stride);
    *out_device = new yoke_device(state, args->ordinal, state.backend->open_device(args->ordinal, values));
  };
  return detail::guarded(state, error, open);
}

std::int32_t count_unguarded(yoke_plugin* plugin, std::uint32_t* out_count, char* out_reason,
                             std::uint64_t reason_capacity, yoke_error* error) {
  detail::PluginState& state = detail::state_of(plugin);
  return detail::guarded(state, error, [&] {
    detail::write_text("", out_reason, reason_capacity, "out_reason");
    *out_count = state.backend->device_count();
  });
}

void plant_in_opening(yoke_backend_api& table) {
  plant<"fork_guard_is_off">(table.device_open, open_unguarded);
  plant<"fork_guard_is_off">(table.device_count, count_unguarded);
  plant_before<"option_stride_is_ignored", detail::device_open>(
      table.device_open, [](auto& args) { args.option_stride = sizeof(yoke_option); });
  plant<"unknown_option_is_accepted">(table.device_open, open_without<is_unknown>);
  plant<"open_accepts_plugin_options">(table.device_open, open_without<is_of_plugin>);
  plant_before<"open_takes_any_ordinal", detail::device_open>(table.device_open,
                                                              [](auto& args) { args.ordinal %= 2; });
  plant<"close_ignores_live_objects">(table.device_close, [](auto* device, auto*) {
    const std::int32_t code = detail::device_close(device, nullptr);
    return code == YOKE_STATUS_FAILED_PRECONDITION ? YOKE_STATUS_OK : code;  // but keeps the device
  });
}

}  // namespace

void plant_in_device(yoke_backend_api& table) {
  plant_in_opening(table);
  plant<"reason_ignores_capacity">(
      table.device_count, [](auto* plugin, auto* out_count, auto* out_reason, auto capacity, auto* error) {
        return detail::device_count(plugin, out_count, out_reason, capacity == 0 ? 0 : YOKE_REASON_CAPACITY,
                                    error);
      });
  plant<"describe_ignores_struct_size">(
      table.device_describe, [](auto* plugin, auto ordinal, auto* info, auto* error) {
        yoke_device_info whole{};
        whole.struct_size = sizeof whole;
        const std::int32_t code = detail::device_describe(plugin, ordinal, &whole, error);
        if (code == YOKE_STATUS_OK) {
          std::memcpy(info, &whole, sizeof whole);
        }
        return code;
      });
  plant<"option_specs_ignores_capacity">(table.option_specs, [](auto* plugin, auto capacity, auto... rest) {
    const auto all = static_cast<std::uint32_t>(detail::state_of(plugin).option_specs.size());
    return detail::option_specs(plugin, capacity == 0 ? 0 : all, rest...);
  });
  plant_after<"option_range_is_off_by_one", detail::option_specs>(
      table.option_specs, [](auto*, auto capacity, auto stride, auto* specs, auto* out_count, auto*) {
        for (std::uint32_t i = 0; i < capacity && i < *out_count; ++i) {
          yoke_option_spec* const row = sdk::row_of(specs, stride, i);
          row->integer_max -= std::strcmp(row->name, "priority_levels") == 0 ? 1 : 0;
        }
      });
  plant_after<"used_bytes_never_falls", detail::device_memory>(
      table.device_memory, [](auto*, auto* info, auto*) { info->used_bytes = info->peak_bytes; });
  if (on<"required_function_is_missing">()) {
    table.device_memory = nullptr;
  }
}

void plant_in_buffer(yoke_backend_api& table) {
  plant<"create_returns_ok_with_null">(table.buffer_create,
                                       [](auto...) { return std::int32_t{YOKE_STATUS_OK}; });
  plant<"create_changes_out_on_failure">(table.buffer_create,
                                         [](auto* device, auto* args, auto** out_buffer, auto* error) {
                                           *out_buffer = nullptr;
                                           return detail::buffer_create(device, args, out_buffer, error);
                                         });
  plant<"create_refuses_empty_buffers">(
      table.buffer_create, [](auto* device, auto* args, auto** out_buffer, auto* error) {
        return args->byte_count == 0
                   ? device->plugin.host.report(error, YOKE_STATUS_INVALID_ARGUMENT, "a buffer needs a byte")
                   : detail::buffer_create(device, args, out_buffer, error);
      });
  plant_before<"create_takes_any_kind", detail::buffer_create>(
      table.buffer_create, [](auto& args) { args.kind = YOKE_MEMORY_DEVICE; });
  plant<"error_is_set_on_another_thread">(table.buffer_create, [](auto... arguments) {
    std::int32_t code = YOKE_STATUS_OK;
    std::thread([&] { code = detail::buffer_create(arguments...); }).join();
    return code;
  });
  plant_after<"buffer_size_is_rounded_up", detail::buffer_describe>(
      table.buffer_describe,
      [](auto*, auto* info, auto*) { info->byte_count = (info->byte_count + 63) / 64 * 64; });
  plant<"buffers_are_leaked">(table.buffer_destroy, [](auto*) {});
  plant<"buffer_destroy_crashes_on_null">(table.buffer_destroy, [](auto* buffer) {
    const volatile std::int32_t kind = buffer->kind;
    (void)kind;
    detail::buffer_destroy(buffer);
  });
}

// Host memory that is allocated when a buffer is created.
void plant_in_host_memory(yoke_backend_api& table) {
  plant<"host_memory_is_leaked">(table.buffer_create, [](auto* device, auto... rest) {
    device->plugin.host.allocate(kNoteSize, kNoteSize);
    return detail::buffer_create(device, rest...);
  });
  plant<"host_allocation_is_not_checked">(table.buffer_create, [](auto* device, auto... rest) {
    void* const note = device->plugin.host.allocate(kNoteSize, kNoteSize);
    std::memset(note, 1, kNoteSize);
    device->plugin.host.deallocate(note);
    return detail::buffer_create(device, rest...);
  });
  plant<"host_memory_is_freed_twice">(table.buffer_create, [](auto* device, auto... rest) {
    void* const note = device->plugin.host.allocate(kNoteSize, kNoteSize);
    device->plugin.host.deallocate(note);
    device->plugin.host.deallocate(note);
    return detail::buffer_create(device, rest...);
  });
}

namespace {

std::atomic<std::uint64_t> failed_creates{0};
std::atomic<std::uint64_t> created{0};  // atomic, but incremented in two steps
std::atomic<std::uint64_t> destroyed{0};

// Waits between the two steps until another thread calls this, for at most a millisecond. Only in the
// first calls: a few lost increments are enough.
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

void plant_in_counts(yoke_backend_api& table) {
  plant_after<"failed_create_is_counted", detail::live_counts>(
      table.live_counts, [](auto*, auto* counts, auto*) { counts->buffers += failed_creates; });
  plant<"failed_create_is_counted">(table.buffer_create, [](auto... arguments) {
    const std::int32_t code = detail::buffer_create(arguments...);
    failed_creates += code == YOKE_STATUS_OK ? 0U : 1U;
    return code;
  });
  plant_after<"buffers_are_counted_twice", detail::live_counts>(
      table.live_counts, [](auto*, auto* counts, auto*) { counts->buffers *= 2; });
  plant_after<"events_are_not_counted", detail::live_counts>(
      table.live_counts, [](auto*, auto* counts, auto*) { counts->events = 0; });
  plant_after<"live_count_is_not_atomic", detail::live_counts>(
      table.live_counts, [](auto*, auto* counts, auto*) { counts->buffers = created - destroyed; });
  plant_after<"live_count_is_not_atomic", detail::buffer_create>(table.buffer_create, [](auto...) {
    const std::uint64_t before = created;
    linger();
    created = before + 1;
  });
  plant<"live_count_is_not_atomic">(table.buffer_destroy, [](auto* buffer) {
    destroyed += buffer == nullptr ? 0U : 1U;
    detail::buffer_destroy(buffer);
  });
}

}  // namespace yoke::mutant
