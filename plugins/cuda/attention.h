// SPDX-License-Identifier: Apache-2.0
// plugins/cuda/attention.h: attention by cuDNN's graph API.
#pragma once

#include <cstdint>
#include <memory>

#include "driver.h"

namespace yoke::cuda {

// Where a plan runs: on the device of a handle, or, for tests, on a device that a finalized descriptor of its
// properties describes. The other one is null.
struct PlanTarget {
  void* handle = nullptr;
  void* properties = nullptr;
};

// The oldest release that this code was tried with. Releases before 9.16 need workarounds for some lengths.
inline constexpr int kOldestForAttention = 91900;

// Like gpu::Vendor::plan_attention.
std::unique_ptr<gpu::AttentionPlan> plan_attention(const gpu::Dnn& dnn, const PlanTarget& target,
                                                   std::uint32_t capability,
                                                   const codegen::LibraryAttention& attention,
                                                   gpu::DnnFault& fault);

}  // namespace yoke::cuda
