// SPDX-License-Identifier: Apache-2.0
// runtime/layers/handles.cpp: one table for the whole process, to recognize handles of other plugins.
#include "layers/handles.h"

namespace yoke::layers {

Handles& Handles::instance() {
  static Handles* const only = new Handles;  // never destroyed: handles may be used at exit
  return *only;
}

std::shared_ptr<Object> Handles::insert(std::shared_ptr<Object> object) {
  const std::lock_guard lock(mutex_);
  all_[{object->kind, object->word}].swap(object);
  return object;
}

std::shared_ptr<Object> Handles::find(Kind kind, std::uint64_t word, bool may_wait) {
  std::unique_lock lock(mutex_, std::defer_lock);
  if (may_wait) {
    lock.lock();
  } else if (!lock.try_lock()) {
    return nullptr;
  }
  const auto found = all_.find({kind, word});
  return found == all_.end() ? nullptr : found->second;
}

std::shared_ptr<Object> Handles::find_alive(std::uint64_t word) {
  const std::lock_guard lock(mutex_);
  for (auto kind = Kind::kDevice; kind != Kind::kCollectives;
       kind = static_cast<Kind>(static_cast<std::uint8_t>(kind) + 1)) {
    const auto found = all_.find({kind, word});
    if (found != all_.end() && found->second->is_alive) {
      return found->second;
    }
  }
  return nullptr;
}

void Handles::retire(const std::shared_ptr<Object>& object) {
  constexpr std::size_t kMostDead = 8192;
  std::shared_ptr<Object> oldest;  // freed after the lock is released
  const std::lock_guard lock(mutex_);
  dead_.push_back(object);
  if (dead_.size() > kMostDead) {
    oldest = std::move(dead_.front());
    dead_.pop_front();
    const auto found = all_.find({oldest->kind, oldest->word});
    if (found != all_.end() && found->second == oldest) {
      all_.erase(found);
    }
  }
}

}  // namespace yoke::layers
