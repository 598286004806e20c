// SPDX-License-Identifier: Apache-2.0
// tests/bench/cc_bench.h: runs a program on cc and compares its time with a peer's.
#pragma once

#include <benchmark/benchmark.h>
#include <sys/mman.h>
#include <yoke/program/text.h>
#include <yoke/runtime/passes.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdlib>
#include <functional>
#include <memory>
#include <new>
#include <string>
#include <utility>
#include <vector>

#include "routine.h"

namespace yoke::bench {

// Allocates huge pages where they fit, like cc's buffers.
template <class T>
struct Pages {
  using value_type = T;
  Pages() = default;
  template <class U>
  Pages(const Pages<U>&) {}  // NOLINT(google-explicit-constructor): allocators convert
  T* allocate(std::size_t count) {
    void* const memory =
        ::mmap(nullptr, count * sizeof(T), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) {
      throw std::bad_alloc();
    }
    static_cast<void>(::madvise(memory, count * sizeof(T), MADV_HUGEPAGE));
    return static_cast<T*>(memory);
  }
  void deallocate(T* memory, std::size_t count) { ::munmap(memory, count * sizeof(T)); }
  bool operator==(const Pages&) const { return true; }
};

using Values = std::vector<float, Pages<float>>;

inline Values values(std::size_t count, float seed) {
  Values result(count);
  for (std::size_t i = 0; i < count; ++i) {
    result[i] = std::sin(seed + static_cast<float>(i) * 0.7F);
  }
  return result;
}

// A program on cc, bound to its arguments and to its own workspace.
class OnCc {
 public:
  OnCc(const std::string& body, std::vector<Values*> arguments, int thread_count = 1) {
    static const cc::DnnlEngine engine;
    auto module = program::parse_and_verify("yoke.program 1\nprogram p() {\n" + body + "}\n");
    auto program = passes::optimize(std::move(module.programs[0])).program;
    auto compiled = std::make_shared<const cc::CompiledProgram>(
        cc::compile_program(std::move(program), {&engine, &cc::best_kernels(), thread_count}));
    workspace_.resize(compiled->workspace_byte_count + 64);
    std::vector<std::byte*> pointers;
    for (Values* argument : arguments) {
      pointers.push_back(reinterpret_cast<std::byte*>(argument->data()));
    }
    bound_ = std::make_unique<cc::BoundProgram>(std::move(compiled), pointers, workspace_.data());
  }
  void run() { bound_->launch({}); }

 private:
  std::vector<std::byte, Pages<std::byte>> workspace_;
  std::unique_ptr<cc::BoundProgram> bound_;
};

// The best time of `work` in microseconds. The measured intervals are short, so that the best one is
// comparable even on a machine with other load.
inline double best_of(const std::function<void()>& work) {
  using Clock = std::chrono::steady_clock;
  double best = 1e30;
  int repeats = 1;
  const auto end = Clock::now() + std::chrono::milliseconds(200);
  for (int batch = 0; batch < 5 || (batch < 100 && Clock::now() < end); ++batch) {
    const auto start = Clock::now();
    for (int i = 0; i < repeats; ++i) {
      work();
    }
    best = std::min(best, std::chrono::duration<double, std::micro>(Clock::now() - start).count() / repeats);
    repeats = best < 20 ? 10 : 1;
  }
  return best;
}

// Times `cc` against `peer`. `is_right` checks the results of one call of each.
inline void compare(
    benchmark::State& state, const std::function<void()>& cc, const std::function<void()>& peer,
    const std::function<bool()>& is_right = [] { return true; }) {
  cc();
  peer();
  if (!is_right()) {
    state.SkipWithError("wrong result");
    return;
  }
  double cc_time = 1e30;
  double peer_time = 1e30;
  for (int round = 0; round < 3; ++round) {
    cc_time = std::min(cc_time, best_of(cc));
    peer_time = std::min(peer_time, best_of(peer));
  }
  for (auto _ : state) {
    cc();
  }
  state.counters["cc_us"] = cc_time;
  state.counters["peer_us"] = peer_time;
  state.counters["ratio"] = cc_time / peer_time;
}

inline bool close(const Values& x, const Values& y, float tolerance) {
  for (std::size_t i = 0; i < x.size(); ++i) {
    if (!(std::fabs(x[i] - y[i]) <= tolerance)) {
      return false;
    }
  }
  return true;
}

}  // namespace yoke::bench
