// SPDX-License-Identifier: Apache-2.0
// tests/conformance/mutant/fault.h: faults that are armed on a device, and what an opened device is made of.
#pragma once

#include <yoke/ext/fault.h>
#include <yoke/sdk/failure.h>

#include <array>
#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <utility>

namespace yoke::mutant {

// The faults of one handle of a device; "yoke.fault/1" arms them.
class Faults {
 public:
  void arm(std::int32_t kind, std::uint64_t nth, std::uint64_t delay_ns);
  void clear();
  // Counts one call of the kind; the delay that was armed when it is the one that fails.
  std::optional<std::uint64_t> next(std::int32_t kind);

 private:
  struct Armed {
    std::uint64_t left = 0;  // 0: nothing is armed
    std::uint64_t delay_ns = 0;
  };
  std::mutex mutex_;
  std::array<Armed, YOKE_FAULT_DEVICE_LOST + 1> armed_;
};

// One lock for all streams of a handle's backend, as they wait for one another; held for moments only.
struct Hub {
  std::mutex mutex;
  std::condition_variable changed;
};

// What happens to one command where its work runs.
enum class Trouble : std::uint8_t { kNone, kUnavailable, kLost };

// Shared by a device, its streams and its events.
struct DeviceState {
  explicit DeviceState(std::shared_ptr<Hub> shared) : owned(std::move(shared)), hub(*owned) {}

  std::shared_ptr<Hub> owned;
  Hub& hub;
  Faults faults;
  std::atomic<bool> aborted{false};
  std::atomic<bool> lost{false};

  void check_not_lost() const;
  // Counts a copy or a launch.
  Trouble next(std::int32_t kind);
  void suffer(Trouble trouble);
};

}  // namespace yoke::mutant
