// SPDX-License-Identifier: Apache-2.0
// plugin_api/sdk/include/yoke/sdk/detail/faults.h: the faults armed on one device handle ("yoke.fault/1"),
// and whether the device is lost.
#pragma once

#include <yoke/ext/fault.h>
#include <yoke/sdk/failure.h>

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

namespace yoke::sdk::detail {

// Every call checks this; without faults it costs one load. Thread-safe.
class Faults {
 public:
  void arm(std::int32_t kind, std::uint64_t nth, std::uint64_t delay_ns) {
    if (kind < YOKE_FAULT_ALLOCATION || kind > YOKE_FAULT_DEVICE_LOST) {
      throw Failure(YOKE_STATUS_UNIMPLEMENTED, "unknown kind of fault: " + std::to_string(kind));
    }
    if (nth == 0) {
      throw Failure(YOKE_STATUS_INVALID_ARGUMENT, "nth is 0; calls are counted from 1");
    }
    if (kind == YOKE_FAULT_EVENT_LATE) {
      delay_ns_.store(delay_ns, std::memory_order_relaxed);
    }
    left(kind).store(nth, std::memory_order_relaxed);
    watched_.store(true, std::memory_order_release);
  }

  void clear() noexcept {
    for (std::atomic<std::uint64_t>& left : left_) {
      left.store(0, std::memory_order_relaxed);
    }
    watched_.store(false, std::memory_order_release);
  }

  // A lost device stays lost: clear() does not change it.
  bool lost() const noexcept { return lost_.load(std::memory_order_acquire); }

  // Throws DEVICE_LOST on a lost device.
  void check_alive() const {
    if (lost()) [[unlikely]] {
      throw lost_failure();
    }
  }

  // Throws if this allocation is the armed one.
  void on_allocation() {
    if (watched_.load(std::memory_order_acquire) && strikes(YOKE_FAULT_ALLOCATION)) [[unlikely]] {
      throw Failure(YOKE_STATUS_OUT_OF_DEVICE_MEMORY, "this allocation fails on purpose (yoke.fault/1)");
    }
  }

  // The failure of this copy or launch, if its fault is armed. The caller throws or queues the failure.
  std::optional<Failure> on_work(std::int32_t kind) {
    if (!watched_.load(std::memory_order_acquire)) [[likely]] {
      return std::nullopt;
    }
    if (strikes(YOKE_FAULT_DEVICE_LOST)) {
      lost_.store(true, std::memory_order_release);
      return lost_failure();
    }
    if (strikes(kind)) {
      return Failure(YOKE_STATUS_UNAVAILABLE,
                     std::string(kind == YOKE_FAULT_COPY ? "this copy" : "this launch") +
                         " fails on purpose (yoke.fault/1)");
    }
    return std::nullopt;
  }

  // The delay of this event in nanoseconds; 0: none.
  std::uint64_t on_event() {
    if (watched_.load(std::memory_order_acquire) && strikes(YOKE_FAULT_EVENT_LATE)) [[unlikely]] {
      return delay_ns_.load(std::memory_order_relaxed);
    }
    return 0;
  }

 private:
  static Failure lost_failure() {
    return {YOKE_STATUS_DEVICE_LOST,
            "the device was lost on purpose (yoke.fault/1); close it and open it again"};
  }
  std::atomic<std::uint64_t>& left(std::int32_t kind) { return left_[static_cast<std::size_t>(kind)]; }

  // Counts one call of this kind. Returns whether it is the armed one.
  bool strikes(std::int32_t kind) {
    std::atomic<std::uint64_t>& counter = left(kind);
    std::uint64_t now = counter.load(std::memory_order_relaxed);
    while (now != 0 && !counter.compare_exchange_weak(now, now - 1, std::memory_order_relaxed)) {
    }
    return now == 1;
  }

  std::array<std::atomic<std::uint64_t>, YOKE_FAULT_DEVICE_LOST + 1> left_{};  // by kind; 0: not armed
  std::atomic<std::uint64_t> delay_ns_{0};
  std::atomic<bool> watched_{false};  // a fault is, or was, armed
  std::atomic<bool> lost_{false};
};

}  // namespace yoke::sdk::detail
