// SPDX-License-Identifier: Apache-2.0
// tests/mutant/fault.h: the armed faults and the shared state of an open device.
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

// One lock for all streams, because they wait for each other. Held only briefly.
struct Hub {
  std::mutex mutex;
  std::condition_variable changed;
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

  void check_not_lost() const;
  // Counts a copy or a launch and returns its fault.
  Trouble next(std::int32_t kind);
  void suffer(Trouble trouble);
};

}  // namespace yoke::mutant
