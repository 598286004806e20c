// SPDX-License-Identifier: Apache-2.0
// plugin_api/program/include/yoke/program/memory.h: places temporaries in one arena. It is part of this
// library and not of the runtime, because only a backend can determine which temporaries need memory. Every
// function is safe to call from any thread.
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
  std::vector<std::uint64_t> offsets;  // in bytes, one per lifetime, multiples of 64
  std::uint64_t byte_count = 0;        // size of the arena
};

// Blocks whose lifetimes do not overlap may share bytes. Deterministic: equal input gives an equal plan.
// Throws std::length_error if the blocks exceed the address space.
MemoryPlan plan_memory(std::span<const Lifetime> lifetimes);

// One lifetime per tensor, counted in statements. A tensor that is not a
// temporary, or is never used, has byte_count 0.
std::vector<Lifetime> lifetimes(const Program& program);

}  // namespace yoke::program
