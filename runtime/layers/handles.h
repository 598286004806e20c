// SPDX-License-Identifier: Apache-2.0
// runtime/layers/handles.h: the handles of all plugins. The host has the plugins' own handles, so that tables
// which the layers do not know can be passed through.
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

// What a handle stands for.
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
  // Streams: how many pieces of work were queued, and how many of them the host knows to have ended. `mutex`
  // guards both, and what layers keep for the stream.
  std::mutex mutex;
  std::uint64_t issued = 0;
  std::uint64_t completed = 0;
  // Events: recorded after this work of this stream.
  std::shared_ptr<Object> stream;
  std::uint64_t ticket = 0;
  bool has_timing = false;

  std::shared_ptr<Checked> checked;  // what validation keeps; null without it
};

// The objects of the process by kind and handle. A dead object is found until its handle is reused, or
// several thousand others have died.
class Handles {
 public:
  static Handles& instance();

  // Returns the object that had the handle before: it is alive if the plugin returned a handle twice.
  std::shared_ptr<Object> insert(std::shared_ptr<Object> object);
  // Null: no object has or had the handle; also when the lock is taken and `may_wait` is false.
  std::shared_ptr<Object> find(Kind kind, std::uint64_t word, bool may_wait = true);
  // A live object of any kind with the handle.
  std::shared_ptr<Object> find_alive(std::uint64_t word);
  void retire(const std::shared_ptr<Object>& object);

 private:
  using Key = std::pair<Kind, std::uint64_t>;
  std::mutex mutex_;
  std::map<Key, std::shared_ptr<Object>> all_;
  std::deque<std::shared_ptr<Object>> dead_;  // oldest first
};

}  // namespace yoke::layers
