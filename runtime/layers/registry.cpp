// SPDX-License-Identifier: Apache-2.0
// runtime/layers/registry.cpp: layers by the plugin that each shows; destroyed ones stay for a while, so that
// a call after destroy is answered.
#include "layers/registry.h"

#include <deque>
#include <map>
#include <mutex>
#include <utility>

namespace yoke::layers {
namespace {

struct Registry {
  std::mutex mutex;
  std::map<const yoke_plugin*, std::shared_ptr<Layer>> layers;
  std::deque<const yoke_plugin*> destroyed;
};
constexpr std::size_t kMostDestroyed = 256;

Registry& registry() {
  static Registry* const only = new Registry;  // never destroyed: see handles.cpp
  return *only;
}

}  // namespace

std::atomic<std::int64_t> open_devices{0};
std::atomic<int> opener{0};

void register_layer(const yoke_plugin* shown, const std::shared_ptr<Layer>& layer) {
  Registry& all = registry();
  const std::lock_guard lock(all.mutex);
  all.layers[shown] = layer;
}

std::shared_ptr<Layer> layer_of(const yoke_plugin* shown, bool may_wait) {
  Registry& all = registry();
  std::unique_lock lock(all.mutex, std::defer_lock);
  if (may_wait) {
    lock.lock();
  } else if (!lock.try_lock()) {
    return nullptr;
  }
  const auto found = all.layers.find(shown);
  return found == all.layers.end() ? nullptr : found->second;
}

void retire_layer(const yoke_plugin* shown) noexcept {
  std::shared_ptr<Layer> oldest;  // freed without the lock
  Registry& all = registry();
  const std::lock_guard lock(all.mutex);
  all.destroyed.push_back(shown);
  if (all.destroyed.size() > kMostDestroyed) {
    const auto found = all.layers.find(all.destroyed.front());
    all.destroyed.pop_front();
    if (found != all.layers.end()) {
      oldest = std::move(found->second);
      all.layers.erase(found);
    }
  }
}

}  // namespace yoke::layers
