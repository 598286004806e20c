// SPDX-License-Identifier: Apache-2.0
// tests/bench/gpu/kernel_times.cpp: intercepts calls of the CUDA driver and times each kernel that the plugin cuda launches.
//
// YOKE_CUDA_LIBRARY=libkernel_times.so YOKE_KERNEL_TIMES=FILE yoke train --backend cuda --option graphs=off
// writes a line of JSON for each kernel and grid. Functions that are not defined here are found in libcuda.so.1, which
// this library needs. Kernels that libraries launch are not seen.
#include <dlfcn.h>

#include <array>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

namespace {

template <class... Args>
int driver(const char* name, Args... args) {
  static void* const library = ::dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
  auto* function = reinterpret_cast<int (*)(Args...)>(::dlsym(library, name));
  return function == nullptr ? 500 : function(args...);  // CUDA_ERROR_NOT_FOUND
}

struct Total {
  std::uint64_t launches = 0;
  double sum_us = 0;
  double least_us = 1e30;
  unsigned threads = 0;
  unsigned dynamic_bytes = 0;
};

struct Kernel {
  std::string name;
  int registers = -1;
  int local_bytes = -1;  // of a thread: spilled registers
  int shared_bytes = -1;
};

using Key = std::pair<std::size_t, std::array<unsigned, 3>>;  // index of the kernel, grid

struct Pending {
  Key key;
  void* start;
  void* stop;
};

struct Times {
  std::mutex mutex;
  std::vector<Kernel> kernels;             // those of unloaded modules too
  std::map<void*, std::size_t> functions;  // index into `kernels`; handles may be reused
  std::map<Key, Total> totals;
  std::vector<Pending> pending;
};

Times& times() {
  static auto* const all = new Times;  // never destroyed: threads may launch until the process ends
  return *all;
}

void add_pending(Times& all) {
  for (const Pending& one : all.pending) {
    float milliseconds = 0;
    if (driver("cuEventSynchronize", one.stop) == 0 &&
        driver("cuEventElapsedTime", &milliseconds, one.start, one.stop) == 0) {
      Total& total = all.totals[one.key];
      ++total.launches;
      total.sum_us += milliseconds * 1e3;
      total.least_us = total.least_us < milliseconds * 1e3 ? total.least_us : milliseconds * 1e3;
    }
    (void)driver("cuEventDestroy_v2", one.start);
    (void)driver("cuEventDestroy_v2", one.stop);
  }
  all.pending.clear();
}

int attribute(void* function, int number) {
  int value = -1;
  (void)driver("cuFuncGetAttribute", &value, number, function);
  return value;
}

void write(Times& all) {
  const char* path = std::getenv("YOKE_KERNEL_TIMES");
  std::FILE* file = path == nullptr ? nullptr : std::fopen(path, "w");
  if (file == nullptr) {
    return;
  }
  for (const auto& [key, total] : all.totals) {
    const auto& [index, grid] = key;
    const Kernel& kernel = all.kernels[index];
    std::fprintf(
        file,
        "{\"kernel\": \"%s\", \"launches\": %llu, \"total_us\": %.1f, \"mean_us\": %.2f, \"least_us\": %.2f, "
        "\"grid\": [%u, %u, %u], \"threads\": %u, \"registers\": %d, \"local_bytes\": %d, "
        "\"shared_bytes\": %d, \"dynamic_bytes\": %u}\n",
        kernel.name.c_str(), static_cast<unsigned long long>(total.launches), total.sum_us,
        total.sum_us / static_cast<double>(total.launches), total.least_us, grid[0], grid[1], grid[2],
        total.threads, kernel.registers, kernel.local_bytes, kernel.shared_bytes, total.dynamic_bytes);
  }
  std::fclose(file);
}

}  // namespace

// The driver's functions, by their C names. NOLINTBEGIN(readability-identifier-naming)
#pragma GCC visibility push(default)
extern "C" {

int cuModuleGetFunction(void** function, void* module, const char* name) {
  const int code = driver("cuModuleGetFunction", function, module, name);
  if (code == 0) {
    constexpr int kShared = 1;
    constexpr int kLocal = 3;
    constexpr int kRegisters = 4;
    Times& all = times();
    const std::scoped_lock lock(all.mutex);
    all.functions[*function] = all.kernels.size();
    all.kernels.push_back({name, attribute(*function, kRegisters), attribute(*function, kLocal),
                           attribute(*function, kShared)});
  }
  return code;
}

int cuLaunchKernel(void* function, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x,
                   unsigned block_y, unsigned block_z, unsigned shared_bytes, void* stream, void** parameters,
                   void** extra) {
  constexpr std::size_t kMostPending = 4096;
  Times& all = times();
  const std::scoped_lock lock(all.mutex);
  if (all.pending.size() >= kMostPending) {
    add_pending(all);
  }
  Pending one = {{all.functions[function], {grid_x, grid_y, grid_z}}, nullptr, nullptr};
  (void)driver("cuEventCreate", &one.start, 0U);
  (void)driver("cuEventCreate", &one.stop, 0U);
  (void)driver("cuEventRecord", one.start, stream);
  const int code = driver("cuLaunchKernel", function, grid_x, grid_y, grid_z, block_x, block_y, block_z,
                          shared_bytes, stream, parameters, extra);
  (void)driver("cuEventRecord", one.stop, stream);
  Total& total = all.totals[one.key];
  total.threads = block_x * block_y * block_z;
  total.dynamic_bytes = shared_bytes;
  all.pending.push_back(one);
  return code;
}

// A program unloads its modules at its end, after the last launch.
int cuModuleUnload(void* module) {
  const std::scoped_lock lock(times().mutex);
  add_pending(times());
  write(times());
  return driver("cuModuleUnload", module);
}

}  // extern "C"
#pragma GCC visibility pop
// NOLINTEND(readability-identifier-naming)
