// SPDX-License-Identifier: Apache-2.0
// tests/fake_gpu/engine/fiber.h: contexts with their own stacks, one for each thread of a block that waits.
#pragma once

#include <setjmp.h>
#include <ucontext.h>

#include <cstddef>
#include <memory>
#include <vector>

#include "vendor.h"

namespace fake_gpu {

// Where an execution stopped. swapcontext enters a context for the first time; later switches are jumps,
// which cost no system call. Sanitizers are told about each switch and see no jumps.
struct Context {
  ucontext_t start = {};
  jmp_buf jump = {};
  bool started = true;
  const void* stack = nullptr;
  std::size_t stack_bytes = 0;
  void* shadow = nullptr;  // of the sanitizer
};

class Runner;

struct Fiber {
  Context context;
  Runner* runner = nullptr;
  unsigned thread = 0;  // the thread of the block that it runs
};

// Stops `from` and continues `to`; returns when something switches back to `from`.
void switch_context(Context& from, Context& to);
// Makes `main` the context of the calling thread.
void adopt_thread(Context& main);

// Fibers that call `body(fiber)` once; it must not return.
class Fibers {
 public:
  explicit Fibers(void (*body)(Fiber&));
  Fibers(const Fibers&) = delete;
  Fibers& operator=(const Fibers&) = delete;
  ~Fibers();

  Fiber& at(std::size_t index);
  // Forgets what the fibers did: each starts again from the beginning.
  void restart();

 private:
  void prepare(Fiber& fiber);

  void (*body_)(Fiber&);
  std::vector<std::unique_ptr<Fiber>> all_;
};

}  // namespace fake_gpu
