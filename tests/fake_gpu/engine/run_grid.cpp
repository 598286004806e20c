// SPDX-License-Identifier: Apache-2.0
// tests/fake_gpu/engine/run_grid.cpp: runs the blocks of a kernel one after the other. The threads of a block
// run in turn on one fiber; only a thread that waits at a barrier or in a shuffle keeps its fiber, and the
// next thread gets another.
#include <algorithm>
#include <cstdlib>
#include <iterator>
#include <utility>

#include "fiber.h"
#include "module.h"
#include "settings.h"
#include "stream.h"

namespace fake_gpu {

// One exchange of values between lanes; two in turn, because a fast lane may begin the next one.
struct Exchange {
  unsigned long long mask = 0;  // as the kernel gave it
  unsigned long long arrived = 0;
  int line = 0;
  unsigned turn = 0;
  std::array<std::array<unsigned long long, 64>, 2> values = {};
  std::array<unsigned long long, 2> given = {};
};

struct Warp {
  unsigned long long live = 0;
  std::vector<Exchange> exchanges;
};

enum class ThreadStatus : unsigned char { kNotStarted, kRunning, kAtBarrier, kExchanging, kFinished };

class Runner {
 public:
  Runner(Module& module, const fgpu_kernel& kernel, const Shape& shape, void** arguments, Fibers& fibers);

  void run();
  // The body of a fiber: runs threads until none is left, then sleeps.
  [[noreturn]] void live(Fiber& fiber);

  void barrier(int line);
  const unsigned long long* exchange(unsigned long long value, unsigned long long mask,
                                     unsigned long long* lanes, int line);
  void fail(std::string sentence);

  static thread_local Runner* active;

 private:
  void run_block(fgpu_uint3 block);
  void resume(Fiber& fiber);
  void sleep();
  void place(unsigned thread);
  void complete(Warp& warp, unsigned warp_index, Exchange& exchange);
  void finish(unsigned thread);
  [[nodiscard]] std::string stuck() const;
  [[nodiscard]] std::string where() const;

  Module& module_;
  const fgpu_kernel& kernel_;
  const Shape& shape_;
  void** arguments_;
  Fibers& fibers_;
  fgpu_state& state_;
  const unsigned count_;
  const bool reversed_;
  Context main_;
  Fiber* current_ = nullptr;
  unsigned started_ = 0;
  unsigned finished_ = 0;
  unsigned at_barrier_ = 0;
  int barrier_line_ = 0;
  std::size_t fiber_count_ = 0;
  std::vector<Fiber*> idle_;
  std::vector<Fiber*> ready_;
  std::size_t next_ready_ = 0;
  std::vector<Fiber*> fiber_of_;
  std::vector<ThreadStatus> status_;
  std::vector<Warp> warps_;
  std::string fault_;
};

thread_local Runner* Runner::active = nullptr;

namespace {

[[noreturn]] void live_on(Fiber& fiber) {
  fiber.runner->live(fiber);
}

void hook_barrier(int line) {
  Runner::active->barrier(line);
}

const unsigned long long* hook_exchange(unsigned long long value, unsigned long long mask,
                                        unsigned long long* lanes, int line) {
  return Runner::active->exchange(value, mask, lanes, line);
}

void hook_fail(const char* sentence) {
  Runner::active->fail(sentence);
}

// Fibers that no kernel uses now.
struct FiberStore {
  std::mutex mutex;
  std::vector<std::unique_ptr<Fibers>> all;

  std::unique_ptr<Fibers> take() {
    const std::scoped_lock lock(mutex);
    if (all.empty()) {
      return std::make_unique<Fibers>([](Fiber& fiber) { live_on(fiber); });
    }
    auto fibers = std::move(all.back());
    all.pop_back();
    return fibers;
  }
  void give(std::unique_ptr<Fibers> fibers) {
    const std::scoped_lock lock(mutex);
    all.push_back(std::move(fibers));
  }
};

FiberStore& fiber_store() {
  static FiberStore store;
  return store;
}

}  // namespace

Runner::Runner(Module& module, const fgpu_kernel& kernel, const Shape& shape, void** arguments,
               Fibers& fibers)
    : module_(module),
      kernel_(kernel),
      shape_(shape),
      arguments_(arguments),
      fibers_(fibers),
      state_(*module.table->state),
      count_(shape.block[0] * shape.block[1] * shape.block[2]),
      reversed_(chance(2) == 1),
      fiber_of_(count_),
      status_(count_),
      warps_((count_ + state_.warp_size - 1) / state_.warp_size) {}

void Runner::run() {
  adopt_thread(main_);
  active = this;
  const auto& grid = shape_.grid;
  const std::uint64_t blocks = std::uint64_t{grid[0]} * grid[1] * grid[2];
  for (std::uint64_t i = 0; i < blocks; ++i) {
    const std::uint64_t block = reversed_ ? blocks - 1 - i : i;
    run_block({static_cast<unsigned>(block % grid[0]), static_cast<unsigned>(block / grid[0] % grid[1]),
               static_cast<unsigned>(block / grid[0] / grid[1])});
  }
  active = nullptr;
}

void Runner::run_block(fgpu_uint3 block) {
  state_.block = block;
  started_ = finished_ = at_barrier_ = 0;
  std::fill(status_.begin(), status_.end(), ThreadStatus::kNotStarted);
  for (unsigned warp = 0; warp < warps_.size(); ++warp) {
    const unsigned lanes = std::min(state_.warp_size, count_ - warp * state_.warp_size);
    warps_[warp].live = lanes == 64 ? ~0ULL : (1ULL << lanes) - 1;
    warps_[warp].exchanges.clear();
  }
  while (finished_ < count_) {
    if (next_ready_ < ready_.size()) {
      Fiber* const fiber = ready_[next_ready_++];
      if (next_ready_ == ready_.size()) {
        ready_.clear();
        next_ready_ = 0;
      }
      place(fiber->thread);
      resume(*fiber);
    } else if (started_ < count_) {
      if (idle_.empty()) {
        idle_.push_back(&fibers_.at(fiber_count_++));
      }
      Fiber* const fiber = idle_.back();
      idle_.pop_back();
      resume(*fiber);
    } else {
      fault_ = stuck();
    }
    if (!fault_.empty()) {
      fibers_.restart();
      active = nullptr;
      throw KernelFault{where() + fault_};
    }
  }
}

void Runner::resume(Fiber& fiber) {
  fiber.runner = this;
  current_ = &fiber;
  switch_context(main_, fiber.context);
}

void Runner::sleep() {
  switch_context(current_->context, main_);
}

void Runner::live(Fiber& fiber) {
  for (;;) {
    Runner& runner = *fiber.runner;  // another kernel may have woken the fiber
    while (runner.started_ < runner.count_) {
      const unsigned thread = runner.reversed_ ? runner.count_ - 1 - runner.started_ : runner.started_;
      ++runner.started_;
      fiber.thread = thread;
      runner.fiber_of_[thread] = &fiber;
      runner.status_[thread] = ThreadStatus::kRunning;
      runner.place(thread);
      runner.kernel_.run(runner.arguments_);
      runner.finish(thread);
    }
    runner.idle_.push_back(&fiber);
    runner.sleep();
  }
}

void Runner::place(unsigned thread) {
  const auto& block = shape_.block;
  state_.thread = {thread % block[0], thread / block[0] % block[1], thread / block[0] / block[1]};
}

void Runner::finish(unsigned thread) {
  status_[thread] = ThreadStatus::kFinished;
  ++finished_;
  Warp& warp = warps_[thread / state_.warp_size];
  warp.live &= ~(1ULL << thread % state_.warp_size);
  for (Exchange& exchange : warp.exchanges) {
    complete(warp, thread / state_.warp_size, exchange);
  }
}

void Runner::barrier(int line) {
  const unsigned thread = current_->thread;
  if (at_barrier_ > 0 && line != barrier_line_) {
    fail("threads of one block wait at different barriers, of lines " + std::to_string(barrier_line_) +
         " and " + std::to_string(line));
  }
  barrier_line_ = line;
  if (++at_barrier_ < count_) {
    status_[thread] = ThreadStatus::kAtBarrier;
    sleep();
    return;
  }
  at_barrier_ = 0;
  for (unsigned i = 0; i < count_; ++i) {
    const unsigned other = reversed_ ? count_ - 1 - i : i;
    if (other != thread) {
      status_[other] = ThreadStatus::kRunning;
      ready_.push_back(fiber_of_[other]);
    }
  }
}

const unsigned long long* Runner::exchange(unsigned long long value, unsigned long long mask,
                                           unsigned long long* lanes, int line) {
  const unsigned thread = current_->thread;
  const unsigned lane = thread % state_.warp_size;
  Warp& warp = warps_[thread / state_.warp_size];
  if (mask != 0 && (mask >> lane & 1) == 0) {
    fail("a lane calls a warp function of line " + std::to_string(line) + " whose mask does not name it");
  }
  auto at = std::find_if(warp.exchanges.begin(), warp.exchanges.end(),
                         [&](const Exchange& other) { return other.mask == mask; });
  if (at == warp.exchanges.end()) {
    warp.exchanges.reserve(64);  // a mask per lane; waiting lanes keep references
    warp.exchanges.push_back({.mask = mask});
    at = std::prev(warp.exchanges.end());
  }
  Exchange& exchange = *at;
  if (exchange.arrived != 0 && exchange.line != line) {
    fail("lanes of one warp call different warp functions, of lines " + std::to_string(exchange.line) +
         " and " + std::to_string(line));
  }
  const unsigned turn = exchange.turn;
  exchange.line = line;
  exchange.arrived |= 1ULL << lane;
  exchange.values[turn][lane] = value;
  status_[thread] = ThreadStatus::kExchanging;
  complete(warp, thread / state_.warp_size, exchange);
  if (status_[thread] == ThreadStatus::kExchanging) {
    sleep();
  }
  *lanes = exchange.given[turn];
  return exchange.values[turn].data();
}

// Lets the lanes continue if all that are alive have arrived.
void Runner::complete(Warp& warp, unsigned warp_index, Exchange& exchange) {
  const unsigned long long awaited = exchange.mask == 0 ? warp.live : exchange.mask & warp.live;
  if (exchange.arrived == 0 || exchange.arrived != awaited) {
    return;
  }
  exchange.given[exchange.turn] = exchange.arrived;
  for (unsigned lane = 0; lane < state_.warp_size; ++lane) {
    if ((exchange.arrived >> lane & 1) != 0) {
      const unsigned thread = warp_index * state_.warp_size + lane;
      status_[thread] = ThreadStatus::kRunning;
      if (fiber_of_[thread] != current_) {
        ready_.push_back(fiber_of_[thread]);
      }
    }
  }
  exchange.arrived = 0;
  exchange.turn ^= 1;
}

void Runner::fail(std::string sentence) {
  fault_ = std::move(sentence);
  sleep();  // forever
}

std::string Runner::stuck() const {
  const auto count = [&](ThreadStatus status) {
    return std::to_string(std::count(status_.begin(), status_.end(), status));
  };
  return count(ThreadStatus::kAtBarrier) + " threads wait at a barrier (line " +
         std::to_string(barrier_line_) + "), " + count(ThreadStatus::kExchanging) +
         " wait for other lanes of their warp and " + count(ThreadStatus::kFinished) + " of " +
         std::to_string(count_) + " have returned";
}

std::string Runner::where() const {
  const auto& block = state_.block;
  return std::string("kernel ") + kernel_.name + ", block (" + std::to_string(block.x) + ", " +
         std::to_string(block.y) + ", " + std::to_string(block.z) + "): ";
}

void run_grid(Module& module, const fgpu_kernel& kernel, const Shape& shape, void** arguments) {
  const std::scoped_lock lock(module.runs);
  fgpu_state& state = *module.table->state;
  state.block_dim = {shape.block[0], shape.block[1], shape.block[2]};
  state.grid_dim = {shape.grid[0], shape.grid[1], shape.grid[2]};
  state.warp_size = warp_size_of(architecture_of(module.device));
  state.barrier = hook_barrier;
  state.exchange = hook_exchange;
  state.fail = hook_fail;
  const std::unique_ptr<unsigned char, void (*)(void*)> shared(
      static_cast<unsigned char*>(std::aligned_alloc(1024, (shape.shared_bytes + 2047) / 1024 * 1024)),
      std::free);
  std::fill_n(shared.get(), shape.shared_bytes, static_cast<unsigned char>(0xcd));
  state.dynamic_shared = shared.get();
  auto fibers = fiber_store().take();
  try {
    Runner(module, kernel, shape, arguments, *fibers).run();
  } catch (const KernelFault&) {
    fiber_store().give(std::move(fibers));
    throw;
  }
  fiber_store().give(std::move(fibers));
}

}  // namespace fake_gpu
