// SPDX-License-Identifier: Apache-2.0
// plugins/gpu/driver.cpp: error numbers as failures.
#include "driver.h"

#include <yoke/plugin.h>

#include <algorithm>
#include <array>
#include <cstring>

namespace yoke::gpu {

bool is_sticky(int code) {
  // ECC and NVLink errors, illegal accesses and instructions, assertions, timeouts of kernels, a destroyed
  // context, a failed launch, a terminated client of MPS, an error of an external device.
  static constexpr std::array kSticky = {214, 220, 226, 700, 702, 709, 710, 714,
                                         715, 716, 717, 718, 719, 721, 810, 911};
  return std::find(kSticky.begin(), kSticky.end(), code) != kSticky.end();
}

std::string version_text(const VendorFacts& facts, int version) {
  return std::to_string(version / facts.major_unit) + "." +
         std::to_string(version % facts.major_unit / facts.minor_unit);
}

const char* bind_all(Lookup lookup, void* library, std::initializer_list<Binding> functions) {
  const char* missing = nullptr;
  for (const Binding& function : functions) {
    void* symbol = lookup(library, function.name);
    std::memcpy(function.pointer, &symbol, sizeof symbol);
    missing = symbol == nullptr && missing == nullptr ? function.name : missing;
  }
  return missing;
}

sdk::Failure failure_of(const Vendor& vendor, const char* name, int code, bool is_loss) {
  const std::int32_t status = is_loss                 ? YOKE_STATUS_DEVICE_LOST
                              : code == kOutOfMemory  ? YOKE_STATUS_OUT_OF_DEVICE_MEMORY
                              : code == kNotSupported ? YOKE_STATUS_UNIMPLEMENTED
                              : code == kInvalidValue ? YOKE_STATUS_INTERNAL
                                                      : YOKE_STATUS_UNAVAILABLE;
  std::string text = std::string(name) + " failed: " + vendor.error_text(code);
  if (status == YOKE_STATUS_DEVICE_LOST) {
    text += "; the device is lost to this process: restart the process";
  } else if (code == kDeviceUnavailable) {
    text += "; another process has the device to itself, or its compute mode forbids its use";
  }
  return {status, std::move(text), code};
}

}  // namespace yoke::gpu
