// SPDX-License-Identifier: Apache-2.0
// runtime/device/native_handle.h: converts a driver's handle for the application.
#pragma once

#include <yoke/ext/memory.h>
#include <yoke/runtime/device.h>

#include <cstring>

namespace yoke::detail {

inline NativeHandle to_native_handle(const yoke_native_info& info) {
  return {{info.api, strnlen(info.api, sizeof(info.api))}, info.handle, info.context};
}

}  // namespace yoke::detail
