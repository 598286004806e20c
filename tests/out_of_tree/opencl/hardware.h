// SPDX-License-Identifier: Apache-2.0
// hardware.h: the devices of all OpenCL platforms, and what generated code must know of each.
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
  std::string driver;            // name and version of platform, device and driver: part of fingerprints
  bool has_f64 = false;          // cl_khr_fp64
  bool divides_exactly = false;  // f32 division and square roots can be correctly rounded
  bool is_cpu = false;
  std::uint64_t max_buffer_bytes = 0;
  std::uint64_t max_argument_bytes = 0;  // of one kernel, all together
  std::uint64_t work_group_size = 1;     // how many work-items a kernel's groups have
  std::uint64_t vector_bytes = 0;        // of a register
};

struct Machine {
  std::vector<Hardware> devices;  // in the order of platforms and their devices; the same in every process
  std::string why_none;           // when there are none
};

// Asks OpenCL once; later calls give the same. Signal handlers and variables that a driver sets are put
// back. Threads: any.
const Machine& machine();

}  // namespace ocl
