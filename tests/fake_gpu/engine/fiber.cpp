// SPDX-License-Identifier: Apache-2.0
// tests/fake_gpu/engine/fiber.cpp: see fiber.h.
#undef _FORTIFY_SOURCE  // its longjmp refuses to jump to another stack
#include "fiber.h"

#include <sys/mman.h>

#include <cstdint>
#include <new>
#include <utility>

#ifdef FAKE_GPU_ASAN
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#endif
#ifdef FAKE_GPU_TSAN
#include <sanitizer/tsan_interface.h>
#endif

namespace fake_gpu {
namespace {

#ifdef FAKE_GPU_ASAN
constexpr std::size_t kStackBytes = std::size_t{256} << 10;
#else
constexpr std::size_t kStackBytes = std::size_t{64} << 10;
#endif

// makecontext passes integers.
void enter(unsigned body_low, unsigned body_high, unsigned fiber_low, unsigned fiber_high) {
  const auto join = [](unsigned low, unsigned high) {
    return static_cast<std::uintptr_t>(low) | static_cast<std::uintptr_t>(high) << 32;
  };
#ifdef FAKE_GPU_ASAN
  __sanitizer_finish_switch_fiber(nullptr, nullptr, nullptr);
#endif
  // NOLINTNEXTLINE(performance-no-int-to-ptr)
  reinterpret_cast<void (*)(Fiber&)>(join(body_low, body_high))(
      *reinterpret_cast<Fiber*>(join(fiber_low, fiber_high)));
}

}  // namespace

#if defined(FAKE_GPU_ASAN)
void switch_context(Context& from, Context& to) {
  to.started = true;
  void* fake_stack = nullptr;
  __sanitizer_start_switch_fiber(&fake_stack, to.stack, to.stack_bytes);
  swapcontext(&from.start, &to.start);
  __sanitizer_finish_switch_fiber(fake_stack, nullptr, nullptr);
}
#elif defined(FAKE_GPU_TSAN)
void switch_context(Context& from, Context& to) {
  to.started = true;
  __tsan_switch_to_fiber(to.shadow, 0);
  swapcontext(&from.start, &to.start);
}
#else
void switch_context(Context& from, Context& to) {
  if (_setjmp(from.jump) != 0) {
    return;
  }
  if (!std::exchange(to.started, true)) {
    setcontext(&to.start);
  }
  _longjmp(to.jump, 1);
}
#endif

void adopt_thread([[maybe_unused]] Context& main) {
#ifdef FAKE_GPU_ASAN
  pthread_attr_t attributes;
  void* stack = nullptr;
  pthread_getattr_np(pthread_self(), &attributes);
  pthread_attr_getstack(&attributes, &stack, &main.stack_bytes);
  pthread_attr_destroy(&attributes);
  main.stack = stack;
#endif
#ifdef FAKE_GPU_TSAN
  main.shadow = __tsan_get_current_fiber();
#endif
}

Fibers::Fibers(void (*body)(Fiber&)) : body_(body) {}

Fibers::~Fibers() {
  for (const auto& fiber : all_) {
#ifdef FAKE_GPU_TSAN
    __tsan_destroy_fiber(fiber->context.shadow);
#endif
    munmap(const_cast<void*>(fiber->context.stack), kStackBytes);
  }
}

void Fibers::prepare(Fiber& fiber) {
  Context& context = fiber.context;
#ifdef FAKE_GPU_ASAN
  __asan_unpoison_memory_region(context.stack, context.stack_bytes);
#endif
#ifdef FAKE_GPU_TSAN
  if (context.shadow != nullptr) {
    __tsan_destroy_fiber(context.shadow);
  }
  context.shadow = __tsan_create_fiber(0);
#endif
  getcontext(&context.start);
  context.start.uc_stack.ss_sp = const_cast<void*>(context.stack);
  context.start.uc_stack.ss_size = context.stack_bytes;
  context.start.uc_link = nullptr;
  const auto body = reinterpret_cast<std::uintptr_t>(body_);
  const auto self = reinterpret_cast<std::uintptr_t>(&fiber);
  makecontext(&context.start, reinterpret_cast<void (*)()>(enter), 4, static_cast<unsigned>(body),
              static_cast<unsigned>(body >> 32), static_cast<unsigned>(self),
              static_cast<unsigned>(self >> 32));
  context.started = false;
}

Fiber& Fibers::at(std::size_t index) {
  while (all_.size() <= index) {
    auto fiber = std::make_unique<Fiber>();
    void* stack = mmap(nullptr, kStackBytes, PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (stack == MAP_FAILED) {
      throw std::bad_alloc();
    }
    fiber->context.stack = stack;
    fiber->context.stack_bytes = kStackBytes;
    prepare(*fiber);
    all_.push_back(std::move(fiber));
  }
  return *all_[index];
}

void Fibers::restart() {
  for (const auto& fiber : all_) {
    prepare(*fiber);
  }
}

}  // namespace fake_gpu
