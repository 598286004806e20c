// SPDX-License-Identifier: Apache-2.0
// tests/conformance/mutant/stream.h: native streams, each a worker thread, and their events.
#pragma once

#include <yoke/sdk/plugin.h>

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

// The commands of one stream, counted from 1. Events share it, as they may outlive their stream. Everything
// is guarded by the hub's mutex.
struct Timeline {
  explicit Timeline(std::shared_ptr<DeviceState> of) : device(std::move(of)) {}

  std::shared_ptr<DeviceState> device;
  std::deque<std::function<void()>> work;
  std::uint64_t posted = 0;
  std::uint64_t finished = 0;
  std::optional<sdk::Failure> failure;
  std::uint64_t failed_from = 0;  // the command that failed
  bool closing = false;

  void check(std::uint64_t ticket);  // throws what went wrong up to command `ticket`
  bool done(std::uint64_t ticket);
  // Ends when the commands are over, also when they failed or were given up: only then is their memory free.
  void wait(std::uint64_t ticket, std::uint64_t timeout_ns);
  bool gives_up() const { return closing || device->aborted.load() || device->lost.load(); }
};

// Where an event stands.
struct Mark {
  std::shared_ptr<Timeline> timeline;
  std::uint64_t ticket = 0;
  Clock::time_point reached;
};

class Event final : public sdk::Event {
 public:
  explicit Event(std::shared_ptr<Mark> mark) : mark_(std::move(mark)) {}
  bool done() override;
  void wait(std::uint64_t timeout_ns) override;
  std::uint64_t elapsed_since(sdk::Event& start) override;
  const std::shared_ptr<Mark>& mark() const { return mark_; }

 private:
  std::shared_ptr<Mark> mark_;
};

class Stream final : public sdk::Stream {
 public:
  explicit Stream(std::shared_ptr<DeviceState> device);
  ~Stream() override;
  void post(std::function<void()> work);
  bool done() override;
  void wait(std::uint64_t timeout_ns) override;
  std::unique_ptr<sdk::Event> record() override;
  void wait_event(sdk::Event& event) override;
  std::string debug_text() override;

 private:
  std::uint64_t last() const;
  static void run(Timeline& timeline);
  static void run_one(Timeline& timeline, std::unique_lock<std::mutex>& lock);

  std::shared_ptr<Timeline> timeline_;
  std::thread thread_;
};

}  // namespace yoke::mutant
