// SPDX-License-Identifier: Apache-2.0
// runtime/schedule/parking.h: how threads wait for each other: they spin briefly, then sleep with a deadline.
#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <thread>

namespace yoke::detail {

using Clock = std::chrono::steady_clock;

// How often long waits check for deadlines, aborts, and failures that do not wake them.
constexpr std::chrono::milliseconds kSlice{20};

// Accepts any timeout, including negative ones and the maximum.
inline Clock::time_point deadline_after(std::chrono::nanoseconds timeout) {
  constexpr std::chrono::nanoseconds kLongest = std::chrono::hours(24 * 365);
  return Clock::now() + std::clamp(timeout, std::chrono::nanoseconds::zero(), kLongest);
}

inline void pause_cpu() noexcept {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#else
  std::this_thread::yield();
#endif
}

inline void raise_to(std::atomic<std::uint64_t>& value, std::uint64_t floor) noexcept {
  std::uint64_t now = value.load();
  while (now < floor && !value.compare_exchange_weak(now, floor)) {
  }
}

// Threads sleep here until a condition over atomics holds. notify() costs one load if no thread sleeps.
// Precondition: the atomics are stored (before notify) and loaded with sequential consistency, so that
// either the sleeper sees the store or the notifier sees the sleeper.
class Parking {
 public:
  void notify() noexcept {
    if (sleepers_.load() != 0) {
      { const std::lock_guard lock(mutex_); }
      wake_.notify_all();
    }
  }

  bool has_sleepers() const noexcept { return sleepers_.load(std::memory_order_relaxed) != 0; }

  template <class Ready>
  bool sleep_until(Clock::time_point deadline, const Ready& ready) {
    sleepers_.fetch_add(1);
    std::unique_lock lock(mutex_);
    const bool is_ready = wake_.wait_until(lock, deadline, ready);
    sleepers_.fetch_sub(1);
    return is_ready;
  }

 private:
  std::atomic<int> sleepers_{0};
  std::mutex mutex_;
  std::condition_variable wake_;
};

// Spins before sleeping, for 1 to 30 us: longer if spinning has succeeded recently. Every 32nd turn it
// spins for the longest time, to detect that spinning succeeds again. It does not yield: on a loaded
// machine sched_yield gives up the core for milliseconds, while a sleeping thread is woken within
// microseconds. Threads may share one object.
class Spin {
 public:
  template <class Ready>
  bool operator()(const Ready& ready) {
    constexpr std::uint32_t kTrialEvery = 32;
    const bool is_trial = turn_.fetch_add(1, std::memory_order_relaxed) % kTrialEvery == 0;
    const std::int64_t budget = is_trial ? kLongestNs : budget_ns_.load(std::memory_order_relaxed);
    const Clock::time_point end = Clock::now() + std::chrono::nanoseconds(budget);
    do {
      for (int i = 0; i < 16; ++i) {
        if (ready()) {
          budget_ns_.store(std::min(budget * 2, kLongestNs), std::memory_order_relaxed);
          return true;
        }
        pause_cpu();
      }
    } while (Clock::now() < end);
    if (!is_trial) {
      budget_ns_.store(std::max(budget / 2, kShortestNs), std::memory_order_relaxed);
    }
    return false;
  }

 private:
  static constexpr std::int64_t kShortestNs = 1000;
  static constexpr std::int64_t kLongestNs = 30000;
  std::atomic<std::int64_t> budget_ns_{kLongestNs};
  std::atomic<std::uint32_t> turn_{0};
};

}  // namespace yoke::detail
