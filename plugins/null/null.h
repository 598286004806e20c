// SPDX-License-Identifier: Apache-2.0
// plugins/null/null.h: a backend with every tier that computes nothing: the template of a new backend.
#pragma once

#include <yoke/sdk/plugin.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace yoke::null {

using Clock = std::chrono::steady_clock;

// A place in a stream: when the work before it is done, and how it failed. All work is done when it is
// queued, but for the faults that a test asks for.
struct Point {
  void check() const;
  bool done() const;
  void wait(std::uint64_t timeout_ns) const;
  void join(const Point& other);  // behind both

  std::shared_ptr<const std::atomic<bool>> aborted;
  Clock::time_point ready;
  std::optional<sdk::Failure> failure;
};

class Stream final : public sdk::Stream {
 public:
  explicit Stream(std::shared_ptr<const std::atomic<bool>> aborted)
      : end_{std::move(aborted), Clock::now(), {}} {}
  bool done() override;
  void wait(std::uint64_t timeout_ns) override;
  std::unique_ptr<sdk::Event> record() override;
  void wait_event(sdk::Event& event) override;
  std::string debug_text() override { return "null stream: idle, or late on purpose"; }
  void poison(const sdk::Failure& failure) override;
  void pause(std::uint64_t delay_ns) override;

 private:
  Point end() const;

  mutable std::mutex mutex_;
  Point end_;
};

class Event final : public sdk::Event {
 public:
  explicit Event(Point point) : point_(std::move(point)) {
    point_.ready = std::max(point_.ready, Clock::now());
  }
  bool done() override { return point_.done(); }
  void wait(std::uint64_t timeout_ns) override { point_.wait(timeout_ns); }
  std::uint64_t elapsed_since(sdk::Event& start) override;
  const Point& point() const { return point_; }

 private:
  Point point_;
};

class Routine final : public sdk::Routine {
 public:
  void launch(sdk::Stream*, std::span<const std::int64_t>) override {}
};

class Code final : public sdk::Code {
 public:
  explicit Code(std::string_view text);
  std::span<const sdk::Entry> entries() const override { return entries_; }
  std::unique_ptr<sdk::Routine> link(std::uint32_t entry, std::span<const sdk::Binding> bindings,
                                     const sdk::Binding& workspace) override;

 private:
  std::vector<sdk::Entry> entries_;
};

// Buffers and copies are the SDK's: real host memory.
class Device final : public sdk::Device {
 public:
  explicit Device(std::uint64_t memory_limit) : memory_limit_(memory_limit) {}
  std::uint64_t memory_limit() override { return memory_limit_; }
  std::unique_ptr<sdk::Code> compile(std::string_view text) override;
  std::vector<sdk::Verdict> can_compile(std::string_view text) override;
  std::unique_ptr<sdk::Stream> create_stream(std::int32_t priority) override;
  // Every handle is the same host memory.
  bool peer_access(sdk::Device&) override { return true; }
  void abort() override { aborted_->store(true); }
  bool can_fail(std::int32_t) override { return true; }

 private:
  std::uint64_t memory_limit_;
  std::shared_ptr<std::atomic<bool>> aborted_ = std::make_shared<std::atomic<bool>>(false);
};

class Backend final : public sdk::Backend {
 public:
  sdk::Provides provides() const override {
    return {.streams = true, .programs = true, .peers = true, .faults = true};
  }
  std::uint32_t device_count() override { return 1; }
  sdk::DeviceInfo describe(std::uint32_t ordinal) override;
  std::vector<sdk::OptionSpec> option_specs() override;
  std::unique_ptr<sdk::Device> open_device(std::uint32_t ordinal, const sdk::Options& options) override;
};

}  // namespace yoke::null
