// SPDX-License-Identifier: Apache-2.0
// plugins/null/null.h: a backend with every tier that computes nothing: the template of a new backend.
#pragma once

#include <yoke/sdk/plugin.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace yoke::null {

// All work is done when it is queued, so a stream has nothing to keep but whether its device was aborted.
class Stream final : public sdk::Stream {
 public:
  explicit Stream(std::shared_ptr<const std::atomic<bool>> aborted) : aborted_(std::move(aborted)) {}
  bool done() override;
  void wait(std::uint64_t timeout_ns) override;
  std::unique_ptr<sdk::Event> record() override;
  void wait_event(sdk::Event& event) override;
  std::string debug_text() override { return "null stream: always idle"; }

 private:
  std::shared_ptr<const std::atomic<bool>> aborted_;
};

class Event final : public sdk::Event {
 public:
  explicit Event(std::shared_ptr<const std::atomic<bool>> aborted) : aborted_(std::move(aborted)) {}
  bool done() override;
  void wait(std::uint64_t timeout_ns) override;
  std::uint64_t elapsed_since(sdk::Event& start) override;

 private:
  std::shared_ptr<const std::atomic<bool>> aborted_;
  std::chrono::steady_clock::time_point recorded_ = std::chrono::steady_clock::now();
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

 private:
  std::uint64_t memory_limit_;
  std::shared_ptr<std::atomic<bool>> aborted_ = std::make_shared<std::atomic<bool>>(false);
};

class Backend final : public sdk::Backend {
 public:
  sdk::Provides provides() const override { return {.streams = true, .programs = true, .peers = true}; }
  std::uint32_t device_count() override { return 1; }
  sdk::DeviceInfo describe(std::uint32_t ordinal) override;
  std::vector<sdk::OptionSpec> option_specs() override;
  std::unique_ptr<sdk::Device> open_device(std::uint32_t ordinal, const sdk::Options& options) override;
};

}  // namespace yoke::null
