// SPDX-License-Identifier: Apache-2.0
// runtime/layers/registry.h: every layer of the process, and how a forked child is told from its parent.
#pragma once

#include <unistd.h>

#include <atomic>
#include <cstdint>
#include <memory>

#include "layers/layer.h"

namespace yoke::layers {

// From now on layer_of(shown) is `layer`.
void register_layer(const yoke_plugin* shown, const std::shared_ptr<Layer>& layer);

// Null: none; also where it would have to wait and `may_wait` is false.
std::shared_ptr<Layer> layer_of(const yoke_plugin* shown, bool may_wait = true);

// The layer was destroyed: it goes when many others were destroyed after it.
void retire_layer(const yoke_plugin* shown) noexcept;

// Devices open behind layers, and by which process. A child that is forked meanwhile has only one of its
// threads: a lock that another one held is held for good, so in the child none is waited for. Every call
// looks at both: hidden, so that they are read directly and not through the library's table of symbols.
[[gnu::visibility("hidden")]] extern std::atomic<std::int64_t> open_devices;
[[gnu::visibility("hidden")]] extern std::atomic<int> opener;
constexpr const char* kForked = "this process was forked after a device was opened; it may only exec";

inline bool is_forked_child() noexcept {
  return open_devices.load() > 0 && opener.load() != ::getpid();
}

}  // namespace yoke::layers
