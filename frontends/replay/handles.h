// SPDX-License-Identifier: Apache-2.0
// frontends/replay/handles.h: the backend's functions, and the objects that a replay has created.
#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>

#include "replay/trace.h"

namespace yoke::replay {

using abi::Function;

// The tables of a plugin.
class Functions {
 public:
  explicit Functions(const Backend& backend);
  bool has(Function function) const { return slots_[static_cast<std::size_t>(function)] != nullptr; }
  // Calls a function; `words` are its parameters without the status object. Precondition: has(function).
  std::int32_t call(Function function, const std::uint64_t* words, std::string* error = nullptr) const;
  yoke_plugin* plugin() const { return plugin_; }

 private:
  yoke_plugin* plugin_;
  std::array<abi::Slot, abi::kFunctionCount> slots_{};
};

// A recorded handle: its plugin and number.
using Key = std::pair<std::uint64_t, std::uint64_t>;

// The objects that the replay has created and not yet destroyed. The destructor destroys them.
class Handles {
 public:
  Handles(const Functions& functions, std::chrono::nanoseconds timeout)
      : functions_(functions), timeout_(timeout) {}
  ~Handles();
  Handles(const Handles&) = delete;
  Handles& operator=(const Handles&) = delete;

  // `parent`: the device of pinned memory.
  void add(Key key, Kind kind, std::uint64_t word, std::uint64_t parent);
  void remove(Key key);
  // Returns the backend's handle, or nothing if the replay did not create it or it has another kind.
  std::optional<std::uint64_t> find(Key key, Kind kind) const;
  // Both wait until streams are idle, and return false if the work has failed. Throw Error kDeadlineExceeded.
  bool wait(std::uint64_t stream) const;
  void wait_for_all() const;
  // If the call is a query of a stream or an event that reported the end of work, waits for it: the recorded host may
  // have left out waits between streams because of it. `object` is the backend's handle. Throws Error
  // kDeadlineExceeded.
  void wait_as_queried(Function function, const Record& call, std::uint64_t object) const;

 private:
  struct Live {
    Kind kind = Kind::kNumber;
    std::uint64_t word = 0;
    std::uint64_t parent = 0;
  };
  std::int32_t wait_for(Function wait, std::uint64_t object, std::chrono::nanoseconds timeout) const;
  // As wait_for with the replay's timeout. Throws Error kDeadlineExceeded, which names the object.
  std::int32_t wait_until_done(Function wait, std::uint64_t object, const char* what) const;
  bool is_idle_within(std::chrono::nanoseconds timeout) const;
  void call_for_each(Kind kind, Function function) const;

  const Functions& functions_;
  const std::chrono::nanoseconds timeout_;
  std::map<Key, Live> live_;
  std::set<std::uint64_t> streams_;  // the backend's handles
};

}  // namespace yoke::replay
