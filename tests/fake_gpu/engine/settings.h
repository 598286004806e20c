// SPDX-License-Identifier: Apache-2.0
// tests/fake_gpu/engine/settings.h: the environment variables of the fake, and the report of misuse.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace fake_gpu {

// Read once, by the first call of the library. README.md describes the variables.
struct Settings {
  std::vector<int> devices;  // physical numbers of the visible devices
  std::size_t memory = std::size_t{1} << 30;
  bool peers = true;
  std::uint64_t seed = 0;
  std::vector<std::string> architectures;  // "sm_90" or "gfx90a", by physical number; the last is repeated
  int driver_version = 0;
  int blas_version = 0;
  int dnn_version = 0;
  int comm_version = 0;
  int comm_ranks = 0;  // the most members of a group
};
const Settings& settings();
// Of a visible device.
const std::string& architecture_of(int device);
unsigned warp_size_of(const std::string& architecture);

// Reports misuse of the driver, or a wrong kernel: one line on stderr and in the file FAKE_GPU_REPORT. If
// no report file is set and the process then exits normally, its status is 99.
void complain(const std::string& sentence);

// Counts a call and returns the error that FAKE_GPU_FAIL injects into it, or 0. `name` is the member of
// driver.def, or "kernel", "copy" or "fill" for work on a stream.
int count_call(const char* name);
// Waits while fake_gpu_hold holds this call.
void wait_if_held(const char* name);

// A number from 0 to bound - 1 that depends on FAKE_GPU_SEED and on the numbers drawn before; 0 without a
// seed.
std::uint64_t chance(std::uint64_t bound);
// Sleeps for a random time if there is a seed.
void delay();

}  // namespace fake_gpu

// Returns how often the library complained, and clears the count if `clear` is not 0.
extern "C" __attribute__((visibility("default"))) int fake_gpu_report(int clear);
// Calls of this function of driver.def wait until another one, or null, is held.
extern "C" __attribute__((visibility("default"))) void fake_gpu_hold(const char* call);
// The number of calls that wait.
extern "C" __attribute__((visibility("default"))) int fake_gpu_held();
