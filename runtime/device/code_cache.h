// SPDX-License-Identifier: Apache-2.0
// runtime/device/code_cache.h: shares the code of equal programs on one device while the code lives.
#pragma once

#include <yoke/runtime/device.h>

#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>

namespace yoke::detail {

// Thread-safe. A thread that needs code which another thread is compiling waits for it.
// Different programs compile concurrently.
class CodeCache {
 public:
  // `make()` compiles, and may call get() for another device. If it throws, the next caller tries again.
  template <class Make>
  std::shared_ptr<const Code> get(const Device& device, const std::string& fingerprint, const Make& make) {
    const auto slot = find(device.get(), fingerprint);
    const std::lock_guard lock(slot->mutex);
    // Live code keeps its device open, so the handle still denotes the same device.
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
    const std::pair key(device, fingerprint);
    if (const auto found = slots_.find(key); found != slots_.end()) {
      return found->second;
    }
    return slots_.emplace(key, std::make_shared<Slot>()).first->second;
  }

  // Whether no thread uses the slot and its code is gone. Precondition: mutex_ is held, so no
  // other thread can get the slot. The slot's mutex is not locked if the slot is in use: this
  // thread may hold it while it compiles for another device.
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
