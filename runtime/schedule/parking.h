// SPDX-License-Identifier: Apache-2.0
// runtime/schedule/parking.h: how a thread waits for another: a short spin, then sleep with a deadline.
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

// Timeouts of any size, negative and the largest included.
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

// Where threads sleep until a condition over atomics holds. notify() costs one load when nobody sleeps. The condition's atomics are
// stored (before notify) and loaded sequentially consistent: either the sleeper sees the store, or the notifier sees the sleeper.
class Parking {
 public:
  void notify() noexcept {
    if (sleepers_.load() != 0) {
      { const std::lock_guard lock(mutex_); }
      wake_.notify_all();
    }
  }

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

// Spins before sleeping, as long as spinning has paid of late: 3 to 50 us. After the first 2 us it gives its core away at
// every turn, so more spinning threads than cores do not keep the others from running.
class Spin {
 public:
  template <class Ready>
  bool operator()(const Ready& ready) {
    for (int turn = 0; turn < 40; ++turn) {
      if (ready()) {
        return true;
      }
      pause_cpu();
    }
    const Clock::time_point end = Clock::now() + budget_;
    while (Clock::now() < end) {
      if (ready()) {
        budget_ = std::min<std::chrono::nanoseconds>(budget_ * 2, kLongest);
        return true;
      }
      std::this_thread::yield();
    }
    budget_ = std::max<std::chrono::nanoseconds>(budget_ / 2, kShortest);
    return ready();
  }

  // The sleep that followed was short: a longer spin would have spared it.
  void slept(std::chrono::nanoseconds time) {
    if (time < kLongest) {
      budget_ = kLongest;
    }
  }

 private:
  static constexpr std::chrono::nanoseconds kShortest = std::chrono::microseconds(3);
  static constexpr std::chrono::nanoseconds kLongest = std::chrono::microseconds(50);
  std::chrono::nanoseconds budget_ = kLongest;
};

}  // namespace yoke::detail
