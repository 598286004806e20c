// SPDX-License-Identifier: Apache-2.0
// tests/mutant/device.h: two devices in host memory, each with streams, programs and faults.
#pragma once

#include <yoke/sdk/plugin.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "collective.h"
#include "fault.h"
#include "stream.h"

namespace yoke::mutant {

// Runs `work` at once, or queues it on the stream. `kind` is the fault that can
// hit it: YOKE_FAULT_COPY or YOKE_FAULT_LAUNCH.
void perform(sdk::Stream* stream, const std::shared_ptr<DeviceState>& device, std::int32_t kind,
             std::function<void()> work);

class Buffer final : public sdk::HostBuffer {
 public:
  Buffer(std::uint64_t byte_count, const sdk::Host& host, std::shared_ptr<DeviceState> device);
  Buffer(const sdk::Import& memory, std::shared_ptr<DeviceState> device)
      : HostBuffer(memory), device_(std::move(device)) {}
  ~Buffer() override;
  void* host_address() noexcept override;
  std::int32_t from_host(sdk::Stream* stream, std::uint64_t offset, const void* source,
                         std::uint64_t byte_count) override;
  void to_host(sdk::Stream* stream, std::uint64_t offset, void* target, std::uint64_t byte_count) override;
  void copy_from(sdk::Stream* stream, std::uint64_t offset, sdk::Buffer& source, std::uint64_t source_offset,
                 std::uint64_t byte_count) override;
  void fill(sdk::Stream* stream, std::uint64_t offset, std::uint64_t byte_count,
            std::span<const std::byte> pattern) override;

 private:
  std::byte* at(std::uint64_t offset) { return static_cast<std::byte*>(host_address()) + offset; }

  std::shared_ptr<DeviceState> device_;
  std::size_t row_ = 0;  // for the bug buffers_are_in_a_table_of_2048
};

class Device final : public sdk::Device {
 public:
  Device(std::shared_ptr<Hub> hub, const sdk::Options& options);
  ~Device() override;
  std::uint64_t memory_limit() override;
  std::unique_ptr<sdk::Buffer> create_buffer(std::uint64_t byte_count, std::int32_t kind) override;
  std::unique_ptr<sdk::Code> compile(std::string_view text) override;
  std::vector<sdk::Verdict> can_compile(std::string_view text) override;
  std::unique_ptr<sdk::Stream> create_stream(std::int32_t priority) override;
  // All devices use host memory.
  bool peer_access(sdk::Device&) override { return true; }
  void abort() override;
  void* pinned_allocate(std::uint64_t byte_count) override;
  void pinned_free(void* memory) noexcept override;
  std::unique_ptr<sdk::Buffer> import_buffer(const sdk::Import& memory) override;
  sdk::Native native() override;
  sdk::CollectivesInfo collectives() override { return collectives_info(); }
  sdk::GroupId create_group_id() override { return mutant::create_group_id(); }
  std::unique_ptr<sdk::Communicator> join_group(const sdk::GroupId& id, std::uint32_t rank,
                                                std::uint32_t size) override {
    return mutant::join_group(id, rank, size);
  }

  DeviceState& state() { return *state_; }

 private:
  std::shared_ptr<DeviceState> state_;
  std::uint64_t memory_limit_;
  bool elementwise_only_;
};

class Backend final : public sdk::Backend {
 public:
  sdk::Provides provides() const override {
    return {.streams = true,
            .programs = true,
            .peers = true,
            .memory = true,
            .collectives = true,
            .profile = true};
  }
  void configure(const sdk::Options& options) override;
  std::uint32_t device_count() override;
  std::string why_no_device() override;
  sdk::DeviceInfo describe(std::uint32_t ordinal) override;
  std::vector<sdk::OptionSpec> option_specs() override;
  std::unique_ptr<sdk::Device> open_device(std::uint32_t ordinal, const sdk::Options& options) override;
  void queue_collectives(std::span<const sdk::Collective> rows) override { mutant::queue_collectives(rows); }

 private:
  std::shared_ptr<Hub> hub_ = std::make_shared<Hub>();
  std::uint32_t device_count_ = 0;
};

}  // namespace yoke::mutant
