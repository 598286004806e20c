// SPDX-License-Identifier: Apache-2.0
// plugin_api/program/include/yoke/program/memory.h: where temporaries live, planned by liveness. Here and not
// in the runtime, because only a backend knows which temporaries of a program need memory at all.
#pragma once

#include <yoke/program/program.h>

#include <cstdint>
#include <span>
#include <vector>

namespace yoke::program {

// One block of memory that is in use from statement (or kernel) `first` to `last`, both included.
struct Lifetime {
  std::uint64_t byte_count = 0;
  std::uint64_t first = 0;
  std::uint64_t last = 0;
};

struct MemoryPlan {
  std::vector<std::uint64_t> offsets;  // one per lifetime, 64-byte aligned
  std::uint64_t byte_count = 0;        // of the arena
};

// Two blocks whose lives do not overlap may share bytes. Deterministic: the same input, the same plan.
MemoryPlan plan_memory(std::span<const Lifetime> lifetimes);

// Lifetimes of a program's temporaries, by statement; a tensor that is no temporary, or is unused, has
// byte_count 0.
std::vector<Lifetime> lifetimes(const Program& program);

}  // namespace yoke::program
