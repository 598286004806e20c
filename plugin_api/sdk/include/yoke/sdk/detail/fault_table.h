// SPDX-License-Identifier: Apache-2.0
// plugin_api/sdk/include/yoke/sdk/detail/fault_table.h: implements
// "yoke.fault/1" with the classes of plugin.h.
#pragma once

#include <yoke/ext/fault.h>
#include <yoke/sdk/detail/guarded.h>

#include <cstdint>
#include <string>

namespace yoke::sdk::detail {

inline std::int32_t fault_arm(yoke_device* device, std::int32_t kind, std::uint64_t nth,
                              std::uint64_t delay_ns, yoke_error* error) noexcept {
  if (device == nullptr) {
    return YOKE_STATUS_INVALID_ARGUMENT;
  }
  return guarded(device->plugin, error, [&] {
    if (!device->object->can_fail(kind)) {
      throw Failure(YOKE_STATUS_UNIMPLEMENTED, "the backend cannot produce faults of kind " +
                                                   std::to_string(kind) +
                                                   (kind == YOKE_FAULT_EVENT_LATE ? " (late events)" : ""));
    }
    device->faults.arm(kind, nth, delay_ns);
  });
}

inline std::int32_t fault_clear(yoke_device* device, yoke_error* error) noexcept {
  if (device == nullptr) {
    return YOKE_STATUS_INVALID_ARGUMENT;
  }
  return guarded(device->plugin, error, [&] { device->faults.clear(); });
}

inline constexpr yoke_fault_api kFaultTable = {
    .struct_size = sizeof(yoke_fault_api),
    .fault_arm = fault_arm,
    .fault_clear = fault_clear,
};

}  // namespace yoke::sdk::detail
