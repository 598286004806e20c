// SPDX-License-Identifier: Apache-2.0
// runtime/layers/handles.h: the handles that layers give out. They are numbers, not addresses: whatever a
// host hands in, also a dead handle or garbage, is looked up and never followed.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>

#include "layers/functions.h"

namespace yoke::layers {

class Layer;

// What stands behind one handle. Layers add to it by deriving.
struct Object {
  Object(Kind what, std::shared_ptr<Layer> owner) : kind(what), layer(std::move(owner)) {}
  virtual ~Object() = default;
  Object(const Object&) = delete;
  Object& operator=(const Object&) = delete;

  bool is_alive() const noexcept { return alive.load(std::memory_order_acquire); }
  std::string name() const { return std::string(kind_name(kind)) + " " + std::to_string(number); }

  const Kind kind;
  const std::shared_ptr<Layer> layer;
  std::uint64_t word = 0;          // the handle, as the host has it
  std::uint64_t inner = 0;         // the handle, as the plugin gave it
  std::uint64_t number = 0;        // the n-th handle of its layer, from 1
  std::shared_ptr<Object> device;  // of all but devices
  std::atomic<bool> alive{true};

  std::uint32_t ordinal = 0;     // devices
  std::uint64_t byte_count = 0;  // buffers
  // Streams: how many pieces of work were queued, and how many the host may know to be done. Guarded by
  // `mutex`, as what a layer keeps for them.
  std::mutex mutex;
  std::uint64_t issued = 0;
  std::uint64_t completed = 0;
  // Events: behind which work of which stream.
  std::shared_ptr<Object> stream;
  std::uint64_t ticket = 0;
};

// A handle for `object`, which must not have one.
std::uint64_t insert_handle(const std::shared_ptr<Object>& object);

// The object of a handle, alive or dead; null: garbage, a plugin's own pointer, or dead for so long that the
// number was given out again; or it would have to wait, and `may_wait` is false.
std::shared_ptr<Object> find_object(std::uint64_t word, bool may_wait = true);

// The number may be given out again, after several thousand others.
void retire_handle(Object& object);

}  // namespace yoke::layers
