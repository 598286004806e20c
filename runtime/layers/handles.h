// SPDX-License-Identifier: Apache-2.0
// runtime/layers/handles.h: the handles of all plugins. The host receives the plugins' own handles, so that
// the layers can pass through tables that they do not know.
#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>

#include "abi/functions.h"

namespace yoke::layers {

using abi::Argument;
using abi::Function;
using abi::Kind;
using abi::Row;
using abi::Slot;

class Interposer;
struct Checked;

// The object that a handle denotes.
struct Object {
  Object(Kind what, std::uint64_t handle, Interposer& plugin) : kind(what), word(handle), owner(plugin) {}

  std::string name() const { return std::string(abi::kind_name(kind)) + " " + std::to_string(number); }

  const Kind kind;
  const std::uint64_t word;  // the handle
  Interposer& owner;
  std::uint64_t number = 0;        // counts the handles of a plugin from 1
  std::shared_ptr<Object> device;  // null for devices
  std::atomic<bool> is_alive{true};

  std::uint32_t ordinal = 0;     // of its device
  std::uint64_t byte_count = 0;  // buffers, pinned memory
  bool is_imported = false;      // buffers
  // Streams: how many pieces of work were queued, and how many of them have ended as far as the host can
  // tell. `mutex` guards both, and the layers' data of the stream.
  std::mutex mutex;
  std::uint64_t issued = 0;
  std::uint64_t completed = 0;
  // Events: recorded after this work of this stream.
  std::shared_ptr<Object> stream;
  std::uint64_t ticket = 0;
  bool has_timing = false;

  std::shared_ptr<Checked> checked;  // data of the validate layer; null if it is off
};

// The objects of the process by kind and handle. Dead objects are kept until their handle is reused or
// several thousand other objects have died.
class Handles {
 public:
  static Handles& instance();

  // Returns the previous object with this handle. It is alive if the plugin returned the handle twice.
  std::shared_ptr<Object> insert(std::shared_ptr<Object> object);
  // Returns null if no object has or had the handle, or if the lock is taken and `may_wait` is false.
  std::shared_ptr<Object> find(Kind kind, std::uint64_t word, bool may_wait = true);
  // Returns a live object of any kind with this handle, or null.
  std::shared_ptr<Object> find_alive(std::uint64_t word);
  void retire(const std::shared_ptr<Object>& object);

 private:
  using Key = std::pair<Kind, std::uint64_t>;
  std::mutex mutex_;
  std::map<Key, std::shared_ptr<Object>> all_;
  std::deque<std::shared_ptr<Object>> dead_;  // oldest first
};

}  // namespace yoke::layers
