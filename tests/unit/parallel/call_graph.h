// SPDX-License-Identifier: Apache-2.0
// tests/unit/parallel/call_graph.h: the calls that a plugin with streams receives, and which of them the
// order of streams and the waits for events force to run before which others.
#pragma once

#include <yoke/backend.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "fake_backend.h"

namespace yoke::test {

// Records while the object lives. At most one in a process. Create it before the backend is registered; queue
// recorded work on one thread, while the device is blocked, because a wait for finished work may be left out.
class CallGraph {
 public:
  struct Range {
    const yoke_buffer* buffer = nullptr;
    std::uint64_t begin = 0;
    std::uint64_t end = 0;
  };
  struct Access : Range {
    bool writes = false;
    bool reads = true;
  };
  struct Call {
    std::string name;
    yoke_stream* stream = nullptr;
    std::vector<Access> accesses;
    std::optional<std::size_t> before;  // of the same stream
    bool is_wait = false;               // for an event
    // The latest call before that event on its stream.
    std::optional<std::size_t> awaited;
  };
  using Pair = std::pair<std::size_t, std::size_t>;  // of calls

  explicit CallGraph(Control& control);
  ~CallGraph();
  CallGraph(const CallGraph&) = delete;
  CallGraph& operator=(const CallGraph&) = delete;

  // Forgets all calls.
  void clear();
  const std::vector<Call>& calls() const { return calls_; }
  // "12: copy on stream 1, writes 0 to 256 of buffer 3, ...".
  std::string text(std::size_t call) const;

  struct Wait {
    std::size_t call = 0;
    std::size_t awaited = 0;
    std::size_t user = 0;  // the call that it holds up, after other waits
  };
  // The waits for events without which their users may run earlier.
  std::vector<Wait> needed_waits() const;
  // Whether two calls use the same bytes, and at least one of them writes.
  bool share_memory(std::size_t a, std::size_t b) const;
  // Two calls that share memory and may run in either order.
  // `without`: as if this wait did not exist.
  std::optional<Pair> conflict(std::optional<std::size_t> without = {}) const;

  // From clear() on, does not queue the wait of call `user` for `awaited`, and holds up `awaited` until `user`
  // has run. Both numbers leave out waits, whose order differs from run to run.
  void break_wait(std::size_t user, std::size_t awaited) {
    user_ = user;
    awaited_ = awaited;
  }
  std::size_t number_without_waits(std::size_t call) const;
  // The wait that was not queued.
  std::optional<std::size_t> missing_wait() const { return missing_; }

 private:
  struct Hooks;
  using Set = std::vector<bool>;
  std::vector<Set> ancestors(std::optional<std::size_t> without) const;
  Call& add(yoke_stream* stream, std::string name, bool is_wait = false);

  Control& control_;
  yoke_backend_api backend_;
  yoke_stream_api stream_;
  yoke_program_api program_;
  std::vector<Call> calls_;
  std::map<const yoke_stream*, std::size_t> latest_;                  // call of a stream
  std::map<const yoke_event*, std::optional<std::size_t>> recorded_;  // the call before an event
  std::map<const yoke_routine*, std::vector<Access>> routines_;
  std::map<const yoke_routine*, std::string> names_;
  std::optional<std::size_t> user_;
  std::optional<std::size_t> awaited_;
  std::optional<std::size_t> missing_;
  const std::shared_ptr<std::atomic<bool>> user_done_ = std::make_shared<std::atomic<bool>>(false);
};

}  // namespace yoke::test
