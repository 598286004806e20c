// SPDX-License-Identifier: Apache-2.0
// tests/mutant/fault.h: the armed faults and the shared state of an open device.
#pragma once

#include <yoke/ext/fault.h>
#include <yoke/sdk/failure.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <utility>

namespace yoke::mutant {

// The faults of one device handle, armed through yoke.fault/1.
class Faults {
 public:
  void arm(std::int32_t kind, std::uint64_t nth, std::uint64_t delay_ns);
  void clear();
  // Counts one call of this kind. Returns the armed delay if this call must fail.
  std::optional<std::uint64_t> next(std::int32_t kind);

 private:
  struct Armed {
    std::uint64_t left = 0;  // calls until the fault; 0 if none is armed
    std::uint64_t delay_ns = 0;
  };
  std::mutex mutex_;
  std::array<Armed, YOKE_FAULT_DEVICE_LOST + 1> armed_;
};

// A condition variable whose waits recheck their condition every 100 ms: a wake-up was lost once with glibc 2.36,
// perhaps because of its bug 25847, which can occur when many threads wait on one variable.
class Changed {
 public:
  using Clock = std::chrono::steady_clock;

  void notify_all() { changed_.notify_all(); }
  // May return early.
  void wait_until(std::unique_lock<std::mutex>& lock, Clock::time_point deadline) {
    changed_.wait_until(lock, std::min(deadline, Clock::now() + std::chrono::milliseconds(100)));
  }
  template <class Predicate>
  void wait_until(std::unique_lock<std::mutex>& lock, Clock::time_point deadline, Predicate is_over) {
    while (!is_over() && Clock::now() < deadline) {
      wait_until(lock, deadline);
    }
  }
  template <class Predicate>
  void wait(std::unique_lock<std::mutex>& lock, Predicate is_over) {
    wait_until(lock, Clock::time_point::max(), std::move(is_over));
  }

 private:
  std::condition_variable changed_;
};

// One lock for all streams, because they wait for each other. Held only briefly.
struct Hub {
  std::mutex mutex;
  Changed changed;
  std::atomic<bool> any_lost{false};     // for the bug loss_affects_every_handle
  std::atomic<bool> all_aborted{false};  // for the bug abort_ends_every_device
};

// The fault that hits one command.
enum class Trouble : std::uint8_t { kNone, kUnavailable, kLost };

// Shared by a device, its streams and its events.
struct DeviceState {
  explicit DeviceState(std::shared_ptr<Hub> shared) : owned(std::move(shared)), hub(*owned) {}

  std::shared_ptr<Hub> owned;
  Hub& hub;
  Faults faults;
  std::atomic<bool> aborted{false};
  std::atomic<bool> lost{false};
  bool starts_on_demand = false;  // the option start: work starts at the first wait for it or query of it

  void check_not_lost() const;
  // Counts a copy or a launch and returns its fault.
  Trouble next(std::int32_t kind);
  void suffer(Trouble trouble);
};

}  // namespace yoke::mutant
