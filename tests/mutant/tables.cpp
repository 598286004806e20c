// SPDX-License-Identifier: Apache-2.0
// tests/mutant/tables.cpp: the tables of the mutant, and yoke.fault/1.
#include "tables.h"

#include <yoke/sdk/entry.h>

#include <cstring>
#include <utility>

#include "bug.h"
#include "device.h"

namespace yoke::mutant {
namespace {

namespace detail = sdk::detail;

// Bug: the code that can_compile compiled, until its device is closed.
yoke_code* kept_code = nullptr;

yoke_backend_api backend_table() {
  yoke_backend_api table = detail::kBackendTable;
  plant_in_device(table);
  plant_in_buffer(table);
  plant_in_copy(table);
  plant_in_host_memory(table);
  plant_in_counts(table);
  plant<"can_compile_keeps_a_code">(table.device_close, [](auto* device, auto* error) {
    if (kept_code != nullptr && &kept_code->device() == device) {
      detail::code_destroy(std::exchange(kept_code, nullptr));
    }
    return detail::device_close(device, error);
  });
  plant_in_release(table);
  plant_in_handles(table);
  return table;
}

yoke_stream_api stream_table() {
  yoke_stream_api table = detail::kStreamTable;
  plant_in_stream(table);
  plant_in_abort(table);
  plant_in_aborts_of_groups(table);
  return table;
}

yoke_program_api program_table() {
  yoke_program_api table = detail::kProgramTable;
  plant_in_program(table);
  plant_in_routine(table);
  plant<"can_compile_keeps_a_code">(table.can_compile, [](auto* device, auto* args, auto... rest) {
    if (kept_code == nullptr) {
      detail::code_compile(device, args, &kept_code, nullptr);
    }
    return detail::can_compile(device, args, rest...);
  });
  plant_in_link(table);
  return table;
}

yoke_memory_api memory_table() {
  yoke_memory_api table = detail::kMemoryTable;
  plant_in_memory(table);
  return table;
}

yoke_profile_api profile_table() {
  yoke_profile_api table = detail::kProfileTable;
  plant_in_profile(table);
  return table;
}

yoke_collectives_api collectives_table() {
  yoke_collectives_api table = detail::kCollectivesTable;
  plant_in_collectives(table);
  return table;
}

std::int32_t fault_arm(yoke_device* device, std::int32_t kind, std::uint64_t nth, std::uint64_t delay_ns,
                       yoke_error* error) noexcept {
  if (device == nullptr) {
    return YOKE_STATUS_INVALID_ARGUMENT;
  }
  return detail::guarded(device->plugin, error, [&] {
    static_cast<Device&>(*device->object).state().faults.arm(kind, nth, delay_ns);
  });
}

std::int32_t fault_clear(yoke_device* device, yoke_error* error) noexcept {
  if (device == nullptr) {
    return YOKE_STATUS_INVALID_ARGUMENT;
  }
  return detail::guarded(device->plugin, error,
                         [&] { static_cast<Device&>(*device->object).state().faults.clear(); });
}

}  // namespace

const void* get_table(yoke_plugin* plugin, const char* id) noexcept {
  static const yoke_backend_api backend = backend_table();
  static const yoke_stream_api stream = stream_table();
  static const yoke_program_api program = program_table();
  static const yoke_memory_api memory = memory_table();
  static const yoke_collectives_api collectives = collectives_table();
  static const yoke_profile_api profile = profile_table();
  static constexpr yoke_fault_api kFaults = {
      .struct_size = sizeof(yoke_fault_api), .fault_arm = fault_arm, .fault_clear = fault_clear};
  static constexpr std::pair<const char*, const void*> kTables[] = {
      {YOKE_BACKEND_TABLE, &backend}, {YOKE_STREAM_TABLE, &stream},           {YOKE_PROGRAM_TABLE, &program},
      {YOKE_MEMORY_TABLE, &memory},   {YOKE_COLLECTIVES_TABLE, &collectives}, {YOKE_PROFILE_TABLE, &profile},
      {YOKE_FAULT_TABLE, &kFaults}};
  if (id == nullptr) {
    return nullptr;
  }
  for (const auto& [name, table] : kTables) {
    if (std::strcmp(id, name) == 0) {
      return table;
    }
  }
  if (on<"unknown_table_is_returned">() && std::strncmp(id, YOKE_BACKEND_TABLE, 12) == 0) {
    return &backend;  // ignores the revision
  }
  return detail::plugin_table(plugin, id);
}

}  // namespace yoke::mutant
