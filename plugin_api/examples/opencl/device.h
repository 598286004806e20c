// SPDX-License-Identifier: Apache-2.0
// device.h: an open device and its memory.
#pragma once

#include <yoke/sdk/plugin.h>

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "hardware.h"
#include "stream.h"

namespace ocl {

struct DeviceOptions {
  std::uint64_t memory_limit = 0;  // bytes; 0: no limit
  std::string build_options;       // in addition to the default options
  std::uint32_t statements_per_kernel = 1;
  std::uint64_t optimize_from = 0;  // optimize statements with at least this many iterations
  bool tiles = true;                // use tiles for sums of products
};

class Device final : public yoke::sdk::Device {
 public:
  Device(std::shared_ptr<Context> context, DeviceOptions options);

  std::uint64_t memory_limit() override { return options_.memory_limit; }
  std::unique_ptr<yoke::sdk::Buffer> create_buffer(std::uint64_t byte_count, std::int32_t kind) override;
  // Handles of the same device share its context. Memory of other devices cannot be used in place.
  bool peer_access(yoke::sdk::Device& other) override {
    return static_cast<Device&>(other).context_ == context_;
  }
  std::unique_ptr<yoke::sdk::Code> compile(std::string_view text) override;
  std::vector<yoke::sdk::Verdict> can_compile(std::string_view text) override;
  std::unique_ptr<yoke::sdk::Stream> create_stream(std::int32_t priority) override;
  void abort() override { hub_->abort(); }
  // "yoke.memory/1". Memory can be imported only on CPUs, which work in host memory.
  void* pinned_allocate(std::uint64_t byte_count) override;
  void pinned_free(void* memory) noexcept override;
  std::unique_ptr<yoke::sdk::Buffer> import_buffer(const yoke::sdk::Import& memory) override;
  yoke::sdk::Native native() override;
  bool can_fail(std::int32_t) override { return true; }

  // Queues work on the stream. Without a stream, the work is done on
  // return. `keep` is as for Stream::enqueue.
  void submit(yoke::sdk::Stream* stream, const Label& label, const Enqueue& work,
              std::shared_ptr<void> keep = nullptr);

  const Hardware& hardware() const noexcept { return context_->hardware; }
  const std::shared_ptr<Context>& context() const noexcept { return context_; }
  const DeviceOptions& options() const noexcept { return options_; }

 private:
  // Memory of the driver that stays mapped.
  struct Pinned {
    OwnedMemory memory;
    void* mapped;
  };

  std::shared_ptr<Context> context_;
  std::shared_ptr<Hub> hub_;
  DeviceOptions options_;
  Immediate immediate_;
  OwnedQueue mapping_;  // maps and unmaps pinned memory
  std::mutex mutex_;
  std::map<void*, Pinned> pinned_;  // by the address that pinned_allocate returned
};

class Buffer final : public yoke::sdk::Buffer {
 public:
  Buffer(Device& device, std::uint64_t byte_count);
  // Memory of another library, used in place.
  Buffer(Device& device, const yoke::sdk::Import& memory);

  void* host_address() noexcept override { return host_address_; }
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
  void write(yoke::sdk::Stream* stream, std::uint64_t offset, const void* from, std::uint64_t byte_count,
             std::shared_ptr<void> keep = nullptr);
  void read(yoke::sdk::Stream* stream, std::uint64_t offset, void* to, std::uint64_t byte_count,
            std::shared_ptr<void> keep = nullptr);

  Device& device_;
  OwnedMemory memory_;
  void* host_address_ = nullptr;  // of imported memory
};

}  // namespace ocl
