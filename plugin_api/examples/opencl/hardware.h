// SPDX-License-Identifier: Apache-2.0
// hardware.h: the devices of all OpenCL platforms, with the properties that code generation needs.
#pragma once

#include <yoke/sdk/plugin.h>

#include <cstdint>
#include <string>
#include <vector>

#include "opencl_api.h"

namespace ocl {

struct Hardware {
  cl_platform_id platform = nullptr;
  cl_device_id id = nullptr;
  yoke::sdk::DeviceInfo info;
  std::string driver;            // names and versions of platform, device and driver; part of fingerprints
  bool has_f64 = false;          // cl_khr_fp64
  bool divides_exactly = false;  // f32 division and square root can be correctly rounded
  bool is_cpu = false;
  std::uint64_t max_buffer_bytes = 0;
  std::uint64_t max_argument_bytes = 0;  // total size of a kernel's arguments
  std::uint64_t work_group_size = 1;     // work-items per group
  std::uint64_t vector_bytes = 0;        // size of a vector register
};

struct Machine {
  std::vector<Hardware> devices;  // in the order of platforms and their devices, the same in every process
  std::string why_none;           // why `devices` is empty
};

// Enumerates the devices at the first call; later calls return the same object. Restores signal handlers and
// environment variables that a driver changes. Thread-safe.
const Machine& machine();

}  // namespace ocl
