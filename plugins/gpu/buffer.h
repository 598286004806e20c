// SPDX-License-Identifier: Apache-2.0
// plugins/gpu/buffer.h: device memory and imported memory.
#pragma once

#include <yoke/sdk/plugin.h>

#include <cstdint>
#include <memory>
#include <span>

#include "context.h"

namespace yoke::gpu {

class Buffer final : public sdk::Buffer {
 public:
  Buffer(std::shared_ptr<Context> context, std::uint64_t byte_count);
  Buffer(std::shared_ptr<Context> context, const sdk::Import& memory);
  ~Buffer() override;
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;

  void* host_address() noexcept override { return host_address_; }
  std::uint64_t device_address() override { return address_; }
  std::int32_t from_host(sdk::Stream* stream, std::uint64_t offset, const void* source,
                         std::uint64_t byte_count) override;
  void to_host(sdk::Stream* stream, std::uint64_t offset, void* target, std::uint64_t byte_count) override;
  void copy_from(sdk::Stream* stream, std::uint64_t offset, sdk::Buffer& source, std::uint64_t source_offset,
                 std::uint64_t byte_count) override;
  void fill(sdk::Stream* stream, std::uint64_t offset, std::uint64_t byte_count,
            std::span<const std::byte> pattern) override;

 private:
  void fill_by_copies(sdk::Stream* stream, Address target, std::uint64_t byte_count,
                      std::span<const std::byte> pattern);

  std::shared_ptr<Context> context_;
  Address address_ = 0;
  std::uint64_t byte_count_ = 0;
  bool is_imported_ = false;
  void* host_address_ = nullptr;  // of imported host memory
};

}  // namespace yoke::gpu
