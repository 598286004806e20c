// SPDX-License-Identifier: Apache-2.0
// tests/fake_gpu/engine/module.h: images of compiled kernels, and running them.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "image.h"
#include "kernel_abi.h"
#include "vendor.h"

namespace fake_gpu {

struct Module {
  int device = 0;
  void* library = nullptr;
  const fgpu_module* table = nullptr;
  std::mutex runs;  // its kernels share their state and their shared memory

  Module() = default;
  Module(const Module&) = delete;
  Module& operator=(const Module&) = delete;
  ~Module();
};
std::shared_ptr<Module> load_module(const void* image, int device);

struct Function {
  int device = 0;
  std::weak_ptr<Module> module;
  const fgpu_kernel* kernel = nullptr;
  unsigned shared_bytes = 0;  // dynamic, at most
};

struct Shape {
  std::array<unsigned, 3> grid = {1, 1, 1};
  std::array<unsigned, 3> block = {1, 1, 1};
  unsigned shared_bytes = 0;
};

// Runs every block, one after the other. Throws KernelFault if a GPU would hang or fail.
void run_grid(Module& module, const fgpu_kernel& kernel, const Shape& shape, void** arguments);

}  // namespace fake_gpu
