// SPDX-License-Identifier: Apache-2.0
// tests/fake_gpu/tests/contexts.h: contexts of plugins/gpu on the fake drivers.
#pragma once

#include <cuda/vendor.h>
#include <gpu/context.h>
#include <yoke/plugin.h>

#include <cstdint>
#include <cstdlib>
#include <memory>
#include <utility>

namespace yoke::gpu {

inline std::shared_ptr<Machine> machine(const char* devices, const char* failure = "",
                                        std::unique_ptr<Vendor> vendor = std::make_unique<cuda::Vendor>()) {
  ::setenv("YOKE_CUDA_LIBRARY", FAKE_GPU_FOLDER "/cuda/libcuda.so.1", 1);
  ::setenv("YOKE_HIP_LIBRARY", FAKE_GPU_FOLDER "/hip/libamdhip64.so.5", 1);
  ::setenv("FAKE_GPU_DEVICES", devices, 1);
  ::setenv("FAKE_GPU_FAIL", failure, 1);
  ::unsetenv("CUDA_VISIBLE_DEVICES");
  return std::make_shared<Machine>(std::move(vendor), sdk::Host());
}

template <class Body>
std::int32_t code_of(const Body& body) {
  try {
    body();
  } catch (const sdk::Failure& failure) {
    return failure.code();
  }
  return YOKE_STATUS_OK;
}

inline Address allocate(Context& context) {
  const Current current = context.enter();
  return context.pool().allocate(512);
}

}  // namespace yoke::gpu
