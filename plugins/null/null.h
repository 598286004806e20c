// SPDX-License-Identifier: Apache-2.0
// plugins/null/null.h: a backend with every table that computes nothing; a template for new backends.
#pragma once

#include <yoke/sdk/plugin.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace yoke::null {

// A point in a stream. Work is done when it is queued, so a point is done or failed, never pending.
class Event final : public sdk::Event {
 public:
  explicit Event(std::optional<sdk::Failure> failure) : failure_(std::move(failure)) {}
  std::int32_t state() override { return failure_ ? YOKE_STATE_FAILED : YOKE_STATE_DONE; }
  void wait(std::uint64_t timeout_ns) override;
  std::uint64_t elapsed_since(sdk::Event& start) override;
  const std::optional<sdk::Failure>& failure() const { return failure_; }

 private:
  std::optional<sdk::Failure> failure_;  // the first error of the work before the event
  std::chrono::steady_clock::time_point time_ = std::chrono::steady_clock::now();
};

class Stream final : public sdk::Stream {
 public:
  explicit Stream(std::shared_ptr<const std::atomic<bool>> device_aborted)
      : device_aborted_(std::move(device_aborted)) {}
  std::int32_t state() override { return failure() ? YOKE_STATE_FAILED : YOKE_STATE_DONE; }
  void wait(std::uint64_t timeout_ns) override;
  std::unique_ptr<sdk::Event> record(bool timing) override;
  void wait_event(sdk::Event& event) override;
  void abort() override;
  void host_callback(yoke_host_callback_fn callback, void* user) override;
  std::string debug_text() override { return "null stream: always idle"; }
  void poison(const sdk::Failure& failure) override;

 private:
  std::optional<sdk::Failure> failure() const;

  std::shared_ptr<const std::atomic<bool>> device_aborted_;
  mutable std::mutex mutex_;  // state and wait may be called from any thread
  std::optional<sdk::Failure> failure_;
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

// Uses the SDK's buffers, copies and pinned memory, which are host memory.
class Device final : public sdk::Device {
 public:
  explicit Device(std::uint64_t memory_limit) : memory_limit_(memory_limit) {}
  std::uint64_t memory_limit() override { return memory_limit_; }
  std::unique_ptr<sdk::Buffer> import_buffer(const sdk::Import& memory) override;
  sdk::Native native() override { return {.api = "host"}; }
  std::unique_ptr<sdk::Code> compile(std::string_view text) override;
  std::vector<sdk::Verdict> can_compile(std::string_view text) override;
  std::unique_ptr<sdk::Stream> create_stream(std::int32_t priority) override;
  // All devices use host memory.
  bool peer_access(sdk::Device&) override { return true; }
  void abort() override { aborted_->store(true); }

 private:
  std::uint64_t memory_limit_;
  std::shared_ptr<std::atomic<bool>> aborted_ = std::make_shared<std::atomic<bool>>(false);
};

class Backend final : public sdk::Backend {
 public:
  sdk::Provides provides() const override {
    return {.streams = true, .programs = true, .peers = true, .memory = true, .faults = true};
  }
  std::vector<sdk::OptionSpec> option_specs() override;
  void configure(const sdk::Options& options) override;
  std::uint32_t device_count() override { return device_count_; }
  std::string why_no_device() override;
  sdk::DeviceInfo describe(std::uint32_t ordinal) override;
  std::unique_ptr<sdk::Device> open_device(std::uint32_t ordinal, const sdk::Options& options) override;

 private:
  std::uint32_t device_count_ = 1;
};

}  // namespace yoke::null
