// SPDX-License-Identifier: Apache-2.0
// tests/fake_gpu/engine/kernel_abi.h: what a shared object of kernels and the engine share. The compiler puts
// this text before each kernel, so it includes nothing.
#pragma once

struct fgpu_uint3 {
  unsigned x, y, z;
};

struct fgpu_kernel {
  const char* name;
  void (*run)(void** arguments);  // one thread
  unsigned max_threads;           // of __launch_bounds__; 0: none
  unsigned argument_count;
  const unsigned* argument_sizes;
  const unsigned char* is_pointer;
};

// The engine sets this before it runs a thread, and again whenever the thread continues.
struct fgpu_state {
  fgpu_uint3 thread, block, block_dim, grid_dim;
  unsigned warp_size;
  unsigned char* dynamic_shared;
  void (*barrier)(int line);
  // Waits for the lanes of `mask` (0: of the whole warp), each of which gives a value. Returns the values by
  // lane; *lanes receives the lanes that gave one.
  const unsigned long long* (*exchange)(unsigned long long value, unsigned long long mask,
                                        unsigned long long* lanes, int line);
  void (*fail)(const char* sentence);
};

struct fgpu_module {
  unsigned kernel_count;
  const fgpu_kernel* kernels;
  fgpu_state* state;
  char* zeroed_begin;  // shared memory is somewhere in this range
  char* zeroed_end;
};
