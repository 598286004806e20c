// SPDX-License-Identifier: Apache-2.0
// tests/unit/codegen/cpu_device.h: included before generated kernels to run them on the CPU. The threads of a
// block are fibers, blocks run one after another. Exited threads count as arrived at barriers.
#pragma once

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <ucontext.h>

#include <memory>
#include <vector>

#define __global__
#define __device__
#define __forceinline__ inline
#define __launch_bounds__(threads)
#define __shared__ static

namespace cpu_device {

struct Dim {
  unsigned x = 0;
  unsigned y = 0;
  unsigned z = 0;
};
inline Dim block_index;
inline Dim block_size;
inline Dim grid_size;

#ifndef CPU_DEVICE_WARP
#define CPU_DEVICE_WARP 32
#endif
constexpr unsigned kWarp = CPU_DEVICE_WARP;

// Threads that wait for each other.
struct Group {
  unsigned alive = 0;
  unsigned arrived = 0;
  unsigned round = 0;
  void release_if_complete() {
    if (alive != 0 && arrived == alive) {
      arrived = 0;
      ++round;
    }
  }
};

struct Fiber {
  ucontext_t context;
  std::unique_ptr<char[]> stack;
  Dim index;
  bool done = false;
  unsigned long long slot = 0;
};

struct Block {
  std::vector<Fiber> fibers;
  Group all;
  std::vector<Group> warps;
  ucontext_t scheduler;
  Fiber* current = nullptr;
  const unsigned long long* arguments = nullptr;
  void (*kernel)(const unsigned long long*) = nullptr;
  bool progress = false;
};
inline Block block;
inline Dim plain_index;  // of a thread that is not a fiber

inline Dim& thread_index() {
  return block.current != nullptr ? block.current->index : plain_index;
}

inline void wait(Group& group) {
  if (block.current == nullptr) {
    fputs("a kernel without fibers waits at a barrier\n", stderr);
    abort();
  }
  const unsigned round = group.round;
  ++group.arrived;
  block.progress = true;
  group.release_if_complete();
  while (group.round == round) {
    swapcontext(&block.current->context, &block.scheduler);
  }
}

inline void barrier() {
  wait(block.all);
}

template <class T>
T shuffled(T value, unsigned source) {
  static_assert(sizeof(T) <= sizeof(unsigned long long));
  const unsigned thread = thread_index().x;
  Group& warp = block.warps.at(thread / kWarp);
  __builtin_memcpy(&block.fibers[thread].slot, &value, sizeof value);
  wait(warp);
  T result;
  __builtin_memcpy(&result, &block.fibers.at(thread / kWarp * kWarp + source).slot, sizeof result);
  wait(warp);
  return result;
}

inline void fiber_main() {
  block.kernel(block.arguments);
  Fiber& self = *block.current;
  self.done = true;
  block.progress = true;
  Group& warp = block.warps[self.index.x / kWarp];
  --warp.alive;
  warp.release_if_complete();
  --block.all.alive;
  block.all.release_if_complete();
}

// Lets each thread of a warp run until it waits. Returns whether one of them made progress.
inline bool run_warp(unsigned first, unsigned threads) {
  block.progress = false;
  for (unsigned i = first; i < first + kWarp && i < threads; ++i) {
    Fiber& fiber = block.fibers[i];
    if (!fiber.done) {
      block.current = &fiber;
      swapcontext(&block.scheduler, &fiber.context);
      block.current = nullptr;
    }
  }
  return block.progress;
}

// A warp runs as far as it can before the next one starts, so that a missing barrier gives a wrong result.
inline void run_fibers(unsigned threads) {
  constexpr std::size_t kStack = 64 * 1024;
  block.fibers.resize(threads);
  block.all = {threads, 0, 0};
  block.warps.assign((threads + kWarp - 1) / kWarp, {});
  for (unsigned i = 0; i < threads; ++i) {
    Fiber& fiber = block.fibers[i];
    ++block.warps[i / kWarp].alive;
    fiber.index.x = i;
    fiber.done = false;
    if (fiber.stack == nullptr) {
      fiber.stack = std::make_unique<char[]>(kStack);
    }
    getcontext(&fiber.context);
    fiber.context.uc_stack.ss_sp = fiber.stack.get();
    fiber.context.uc_stack.ss_size = kStack;
    fiber.context.uc_link = &block.scheduler;
    makecontext(&fiber.context, fiber_main, 0);
  }
  while (block.all.alive != 0) {
    bool is_stuck = true;
    for (unsigned first = 0; first < threads; first += kWarp) {
      while (run_warp(first, threads)) {
        is_stuck = false;
      }
    }
    if (is_stuck) {
      fputs("the threads of a block wait for each other at different barriers\n", stderr);
      abort();
    }
  }
}

inline void run(void (*kernel)(const unsigned long long*), const unsigned* grid, unsigned threads,
                bool with_fibers, const unsigned long long* arguments) {
  grid_size = {grid[0], grid[1], grid[2]};
  block_size = {threads, 1, 1};
  block.kernel = kernel;
  block.arguments = arguments;
  for (block_index.z = 0; block_index.z < grid[2]; ++block_index.z) {
    for (block_index.y = 0; block_index.y < grid[1]; ++block_index.y) {
      for (block_index.x = 0; block_index.x < grid[0]; ++block_index.x) {
        if (with_fibers) {
          run_fibers(threads);
          continue;
        }
        for (plain_index.x = 0; plain_index.x < threads; ++plain_index.x) {
          kernel(arguments);
        }
      }
    }
  }
}

}  // namespace cpu_device

// Threads run one at a time.
template <class T>
T atomicAdd(T* element, T value) {
  const T old = *element;
  *element += value;
  return old;
}

#define threadIdx cpu_device::thread_index()
#define blockIdx cpu_device::block_index
#define blockDim cpu_device::block_size
#define gridDim cpu_device::grid_size
#define __syncthreads() cpu_device::barrier()
#define __shfl_xor_sync(lanes, value, mask) \
  cpu_device::shuffled(value, (threadIdx.x ^ (mask)) % cpu_device::kWarp)
#define __shfl_down_sync(lanes, value, delta) \
  cpu_device::shuffled(value, (threadIdx.x + (delta)) % cpu_device::kWarp)
#define __shfl_xor(value, mask) __shfl_xor_sync(0, value, mask)
#define __shfl_down(value, delta) __shfl_down_sync(0, value, delta)
#define __shfl_sync(lanes, value, lane) cpu_device::shuffled(value, (lane) % cpu_device::kWarp)
