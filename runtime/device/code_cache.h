// SPDX-License-Identifier: Apache-2.0
// runtime/device/code_cache.h: equal programs on one device are compiled once, for as long as the code lives.
#pragma once

#include <yoke/runtime/device.h>

#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>

namespace yoke::detail {

// Thread-safe. Who asks for what another thread is compiling waits for it; different programs compile side by
// side.
class CodeCache {
 public:
  // `make()` compiles, and may ask for code of another device; what it throws passes through and the next
  // caller tries again.
  template <class Make>
  std::shared_ptr<const Code> get(const Device& device, const std::string& fingerprint, const Make& make) {
    const auto slot = find(device.get(), fingerprint);
    const std::lock_guard lock(slot->mutex);
    // A live code keeps its device open, so a handle's number cannot have come to mean another device.
    if (auto code = slot->code.lock()) {
      return code;
    }
    std::shared_ptr<const Code> code = make();
    slot->code = code;
    return code;
  }

 private:
  struct Slot {
    std::mutex mutex;
    std::weak_ptr<const Code> code;
  };

  std::shared_ptr<Slot> find(const yoke_device* device, const std::string& fingerprint) {
    const std::lock_guard lock(mutex_);
    std::erase_if(slots_, [](const auto& row) { return is_stale(*row.second, row.second.use_count()); });
    auto& slot = slots_[{device, fingerprint}];
    if (!slot) {
      slot = std::make_shared<Slot>();
    }
    return slot;
  }

  // Nobody holds it (none is handed out while mutex_ is held), and its code is gone. Whoever holds one may be
  // the caller, compiling for another device meanwhile: its mutex is not even tried.
  static bool is_stale(Slot& slot, long use_count) {
    if (use_count != 1) {
      return false;
    }
    const std::unique_lock lock(slot.mutex, std::try_to_lock);
    return lock.owns_lock() && slot.code.expired();
  }

  std::mutex mutex_;
  std::map<std::pair<const yoke_device*, std::string>, std::shared_ptr<Slot>> slots_;
};

}  // namespace yoke::detail
