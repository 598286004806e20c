// SPDX-License-Identifier: Apache-2.0
// tests/mutant/fault.cpp: counts calls and makes the armed one fail.
#include "fault.h"

#include <string>

#include "bug.h"

namespace yoke::mutant {

void Faults::arm(std::int32_t kind, std::uint64_t nth, std::uint64_t delay_ns) {
  if (kind < YOKE_FAULT_ALLOCATION || kind > YOKE_FAULT_DEVICE_LOST) {
    throw sdk::Failure(YOKE_STATUS_UNIMPLEMENTED, "unknown fault kind " + std::to_string(kind));
  }
  if (nth == 0) {
    throw sdk::Failure(YOKE_STATUS_INVALID_ARGUMENT, "nth is 0, but calls are counted from 1");
  }
  const std::lock_guard lock(mutex_);
  armed_[static_cast<std::size_t>(kind)] = {nth, delay_ns};
}

void Faults::clear() {
  const std::lock_guard lock(mutex_);
  armed_ = {};
}

std::optional<std::uint64_t> Faults::next(std::int32_t kind) {
  const std::lock_guard lock(mutex_);
  Armed& armed = armed_[static_cast<std::size_t>(kind)];
  if (armed.left == 0 || --armed.left != 0) {
    return std::nullopt;
  }
  if (on<"fault_stays_armed">()) {
    armed.left = 1;
  }
  return armed.delay_ns;
}

void DeviceState::check_not_lost() const {
  if (lost.load() || (on<"loss_affects_every_handle">() && hub.any_lost.load())) {
    throw sdk::Failure(YOKE_STATUS_DEVICE_LOST, "the mutant device is lost; close it and open it again");
  }
}

Trouble DeviceState::next(std::int32_t kind) {
  const bool fails = faults.next(kind).has_value();
  if (faults.next(YOKE_FAULT_DEVICE_LOST)) {
    return Trouble::kLost;
  }
  return fails ? Trouble::kUnavailable : Trouble::kNone;
}

void DeviceState::suffer(Trouble trouble) {
  if (trouble == Trouble::kUnavailable) {
    if (on<"fault_loses_text">()) {
      throw sdk::Failure(YOKE_STATUS_UNAVAILABLE, "");
    }
    throw sdk::Failure(on<"fault_changes_code">() ? YOKE_STATUS_INTERNAL : YOKE_STATUS_UNAVAILABLE,
                       "this call on the mutant device fails because a fault was armed");
  }
  if (trouble == Trouble::kLost) {
    if (!on<"device_lost_is_forgotten">()) {
      const std::lock_guard lock(hub.mutex);
      lost.store(true);
      hub.any_lost.store(true);
      hub.changed.notify_all();
    }
    throw sdk::Failure(YOKE_STATUS_DEVICE_LOST, "the mutant device was lost because a fault was armed");
  }
}

}  // namespace yoke::mutant
