// SPDX-License-Identifier: Apache-2.0
// tests/unit/abi/recording_backend.h: a backend that records what the SDK passes to it.
#pragma once

#include <yoke/sdk/entry.h>
#include <yoke/sdk/worker_stream.h>

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace yoke::test {

// What the SDK passed last. Set `entries` before code is compiled.
struct Recorded {
  std::vector<sdk::Entry> entries;
  std::string text;  // of the code
  std::uint32_t entry = 77;
  std::vector<sdk::Binding> bindings;
  sdk::Binding workspace;
  std::vector<std::int64_t> symbol_values;
  sdk::GroupId joined{};
  std::uint32_t rank = 77;
  std::uint32_t size = 77;
  std::int32_t member_state = YOKE_STATE_DONE;
  std::vector<sdk::Collective> rows;
  std::int32_t priority = 77;
};

class RecordingRoutine final : public sdk::Routine {
 public:
  explicit RecordingRoutine(Recorded& recorded) : recorded_(recorded) {}
  void launch(sdk::Stream*, std::span<const std::int64_t> values) override {
    recorded_.symbol_values.assign(values.begin(), values.end());
  }

 private:
  Recorded& recorded_;
};

class RecordingCode final : public sdk::Code {
 public:
  explicit RecordingCode(Recorded& recorded) : recorded_(recorded) {}
  std::span<const sdk::Entry> entries() const override { return recorded_.entries; }
  std::unique_ptr<sdk::Routine> link(std::uint32_t entry, std::span<const sdk::Binding> bindings,
                                     const sdk::Binding& workspace) override {
    recorded_.entry = entry;
    recorded_.bindings.assign(bindings.begin(), bindings.end());
    recorded_.workspace = workspace;
    return std::make_unique<RecordingRoutine>(recorded_);
  }

 private:
  Recorded& recorded_;
};

class RecordingCommunicator final : public sdk::Communicator {
 public:
  explicit RecordingCommunicator(Recorded& recorded) : recorded_(recorded) {}
  std::int32_t state() override { return recorded_.member_state; }
  void wait(std::uint64_t timeout_ns) override {
    if (recorded_.member_state == YOKE_STATE_PENDING) {
      throw sdk::Failure(YOKE_STATUS_DEADLINE_EXCEEDED, std::to_string(timeout_ns) + " ns");
    }
    if (recorded_.member_state == YOKE_STATE_FAILED) {
      throw sdk::Failure(YOKE_STATUS_ABORTED, "the group has failed");
    }
  }
  void abort() override { recorded_.member_state = YOKE_STATE_FAILED; }

 private:
  Recorded& recorded_;
};

// Sums floats, and orders integers. Its group ids count from 1. Fails on purpose in every way.
class RecordingDevice final : public sdk::Device {
 public:
  explicit RecordingDevice(Recorded& recorded) : recorded_(recorded) {}
  std::unique_ptr<sdk::Buffer> create_buffer(std::uint64_t byte_count, std::int32_t) override {
    return std::make_unique<sdk::WorkerBuffer>(byte_count, host());
  }
  std::unique_ptr<sdk::Code> compile(std::string_view text) override {
    recorded_.text = text;
    return std::make_unique<RecordingCode>(recorded_);
  }
  std::unique_ptr<sdk::Stream> create_stream(std::int32_t priority) override {
    recorded_.priority = priority;
    return std::make_unique<sdk::WorkerStream>(group_);
  }
  void abort() override { group_->abort(); }
  sdk::Native native() override { return {.api = "recording", .handle = 5, .context = 6}; }
  bool can_fail(std::int32_t) override { return true; }
  sdk::CollectivesInfo collectives() override {
    return {.sum_types = {YOKE_TYPE_F64, YOKE_TYPE_F32},
            .order_types = {YOKE_TYPE_I32},
            .sum_order = YOKE_SUM_ORDER_RANKS,
            .features = YOKE_COLLECTIVES_PROCESSES,
            .member_limit = 9};
  }
  sdk::GroupId create_group_id() override {
    sdk::GroupId id;
    for (std::size_t i = 0; i < id.size(); ++i) {
      id[i] = static_cast<std::uint8_t>(i + 1);
    }
    return id;
  }
  std::unique_ptr<sdk::Communicator> join_group(const sdk::GroupId& id, std::uint32_t rank,
                                                std::uint32_t size) override {
    recorded_.joined = id;
    recorded_.rank = rank;
    recorded_.size = size;
    return std::make_unique<RecordingCommunicator>(recorded_);
  }

 private:
  Recorded& recorded_;
  std::shared_ptr<sdk::WorkerGroup> group_ = std::make_shared<sdk::WorkerGroup>();
};

class RecordingBackend final : public sdk::Backend {
 public:
  sdk::Provides provides() const override {
    return {.streams = true,
            .programs = true,
            .peers = true,
            .memory = true,
            .faults = true,
            .collectives = true,
            .profile = true};
  }
  std::uint32_t device_count() override { return 2; }
  sdk::DeviceInfo describe(std::uint32_t) override { return {}; }
  std::unique_ptr<sdk::Device> open_device(std::uint32_t, const sdk::Options&) override {
    return std::make_unique<RecordingDevice>(recorded());
  }
  void queue_collectives(std::span<const sdk::Collective> rows) override {
    recorded().rows.assign(rows.begin(), rows.end());
  }

  // Shared by all plugins of the process.
  static Recorded& recorded() {
    static Recorded recorded;
    return recorded;
  }
};

// The entry of the plugin; forgets what was recorded.
inline std::int32_t recording_entry(const yoke_entry_args* args, yoke_plugin** out_plugin,
                                    yoke_error* error) {
  RecordingBackend::recorded() = {};
  return sdk::enter(args, out_plugin, error, {"recording", "1", "tests"},
                    [] { return std::make_unique<RecordingBackend>(); });
}

}  // namespace yoke::test
