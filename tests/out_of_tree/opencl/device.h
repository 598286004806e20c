// SPDX-License-Identifier: Apache-2.0
// device.h: an opened device and its memory.
#pragma once

#include <yoke/sdk/plugin.h>

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "hardware.h"
#include "stream.h"

namespace ocl {

struct DeviceOptions {
  std::uint64_t memory_limit = 0;  // bytes; 0: the machine's
  std::string build_options;       // added to those of every program
  std::uint32_t statements_per_kernel = 1;
  std::uint64_t optimize_from = 0;  // iterations of a statement
  bool tiles = true;                // for matrix products
};

class Device final : public yoke::sdk::Device {
 public:
  Device(std::shared_ptr<Context> context, DeviceOptions options, const yoke::sdk::Host& host);

  std::uint64_t memory_limit() override { return options_.memory_limit; }
  std::unique_ptr<yoke::sdk::Buffer> create_buffer(std::uint64_t byte_count, std::int32_t kind) override;
  // Every handle onto the same device shares its context. Other devices' memory is never used in place.
  bool peer_access(yoke::sdk::Device& other) override {
    return static_cast<Device&>(other).context_ == context_;
  }
  std::unique_ptr<yoke::sdk::Code> compile(std::string_view text) override;
  std::vector<yoke::sdk::Verdict> can_compile(std::string_view text) override;
  std::unique_ptr<yoke::sdk::Stream> create_stream(std::int32_t priority) override;
  void abort() override { hub_->abort(); }
  bool can_fail(std::int32_t) override { return true; }

  // On the stream, or done on return where there is none.
  void submit(yoke::sdk::Stream* stream, const Label& label, const Enqueue& work);

  const Hardware& hardware() const noexcept { return context_->hardware; }
  const std::shared_ptr<Context>& context() const noexcept { return context_; }
  const std::shared_ptr<Hub>& hub() const noexcept { return hub_; }
  const DeviceOptions& options() const noexcept { return options_; }
  const yoke::sdk::Host& host() const noexcept { return host_; }

 private:
  std::shared_ptr<Context> context_;
  std::shared_ptr<Hub> hub_;
  DeviceOptions options_;
  yoke::sdk::Host host_;
  Immediate immediate_;
};

class Buffer final : public yoke::sdk::Buffer {
 public:
  Buffer(Device& device, std::uint64_t byte_count);

  std::int32_t from_host(yoke::sdk::Stream* stream, std::uint64_t offset, const void* source,
                         std::uint64_t byte_count) override;
  void to_host(yoke::sdk::Stream* stream, std::uint64_t offset, void* target,
               std::uint64_t byte_count) override;
  void copy_from(yoke::sdk::Stream* stream, std::uint64_t offset, yoke::sdk::Buffer& source,
                 std::uint64_t source_offset, std::uint64_t byte_count) override;
  void fill(yoke::sdk::Stream* stream, std::uint64_t offset, std::uint64_t byte_count,
            std::span<const std::byte> pattern) override;

  cl_mem memory() const noexcept { return memory_.get(); }

 private:
  void copy_through_host(yoke::sdk::Stream* stream, std::uint64_t offset, Buffer& source,
                         std::uint64_t source_offset, std::uint64_t byte_count);

  Device& device_;
  OwnedMemory memory_;
};

}  // namespace ocl
