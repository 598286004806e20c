// SPDX-License-Identifier: Apache-2.0
// tests/mutant/stream.h: streams, each with a worker thread, and their events.
#pragma once

#include <yoke/sdk/plugin.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <thread>

#include "fault.h"

namespace yoke::mutant {

using Clock = std::chrono::steady_clock;

// The commands of one stream, counted from 1. Shared with the stream's events, which
// may outlive it. Guarded by the hub's mutex.
struct Timeline {
  explicit Timeline(std::shared_ptr<DeviceState> of) : device(std::move(of)) {}

  std::shared_ptr<DeviceState> device;
  struct Command {
    std::function<void()> work;
    bool always;  // also runs on a failed stream
  };
  std::deque<Command> work;
  std::uint64_t posted = 0;
  std::uint64_t finished = 0;
  std::uint64_t demanded = 0;  // waits and queries have asked for so many commands
  std::optional<sdk::Failure> failure;
  std::uint64_t failed_from = 0;  // the command that failed
  std::uint64_t succeeded = 0;    // the last command that ran before a failure or an abort
  bool closing = false;
  bool aborted = false;                                 // this stream alone
  std::chrono::steady_clock::time_point last_deadline;  // for the bug waits_share_the_last_deadline
  int waiting = 0;                                      // threads; for the bug at_most_64_threads_wait

  static constexpr std::uint64_t kAll = UINT64_MAX;
  void check(std::uint64_t ticket);  // throws the error of the commands up to `ticket`, if any
  std::int32_t status();             // of all commands
  // The next two are for the commands up to `ticket`, and with kAll for the stream.
  std::int32_t state(std::uint64_t ticket);
  // Returns when the commands have ended, even if they failed or were
  // aborted: only then is their memory unused.
  void wait(std::uint64_t ticket, std::uint64_t timeout_ns);
  bool is_over(std::uint64_t ticket, bool is_query) const;
  // Returns the last command up to `ticket`.
  std::uint64_t demand(std::uint64_t ticket) {
    demanded = std::max(demanded, std::min(ticket, posted));
    device->hub.changed.notify_all();
    return std::min(ticket, posted);
  }
  bool may_start() const {
    return !work.empty() && (!device->starts_on_demand || finished < demanded || gives_up());
  }
  bool gives_up() const { return closing || aborted || device->aborted.load() || device->lost.load(); }
};

// The position of an event.
struct Mark {
  std::shared_ptr<Timeline> timeline;
  std::uint64_t ticket = 0;
  Clock::time_point reached;
};

class Event final : public sdk::Event {
 public:
  explicit Event(std::shared_ptr<Mark> mark) : mark_(std::move(mark)) {}
  std::int32_t state() override;
  void wait(std::uint64_t timeout_ns) override;
  std::uint64_t elapsed_since(sdk::Event& start) override;
  std::uint64_t time_ns() override;
  const std::shared_ptr<Mark>& mark() const { return mark_; }

 private:
  std::shared_ptr<Mark> mark_;
  Clock::time_point recorded_ = Clock::now();
};

class Stream final : public sdk::Stream {
 public:
  explicit Stream(std::shared_ptr<DeviceState> device);
  ~Stream() override;
  void post(std::function<void()> work, bool always = false);
  std::int32_t state() override;
  void wait(std::uint64_t timeout_ns) override;
  std::unique_ptr<sdk::Event> record(bool timing) override;
  void wait_event(sdk::Event& event) override;
  void abort() override;
  void host_callback(yoke_host_callback_fn callback, void* user) override;
  sdk::Native native() override { return {.api = "host"}; }
  std::string debug_text() override;

 private:
  std::uint64_t last() const;
  static void run(Timeline& timeline);
  static void run_one(Timeline& timeline, std::unique_lock<std::mutex>& lock);

  std::shared_ptr<Timeline> timeline_;
  std::thread thread_;
};

}  // namespace yoke::mutant
