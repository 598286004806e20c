// SPDX-License-Identifier: Apache-2.0
// tests/mutant/handmade/buffer.h: host memory with asynchronous copies in chunks.
#pragma once

#include <yoke/sdk/plugin.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <utility>
#include <vector>

namespace yoke::handmade {

// Blocks that hold the source of a small copy until the copy has run. They are used again.
class Staging : public std::enable_shared_from_this<Staging> {
 public:
  using Block = std::array<std::byte, 4096>;
  // The block becomes free with the last owner of the pointer.
  std::shared_ptr<Block> take();
  // A block with the bytes of the source.
  std::shared_ptr<const Block> stage(const std::byte* source, std::uint64_t byte_count);

 private:
  std::mutex mutex_;
  std::vector<std::unique_ptr<Block>> free_;
  // The last call of stage(); with the bug staging_shared.
  const std::byte* last_source_ = nullptr;
  std::uint64_t last_byte_count_ = 0;
  std::weak_ptr<const Block> last_;
};

class Buffer final : public sdk::HostBuffer {
 public:
  template <class... Arguments>
  explicit Buffer(std::shared_ptr<Staging> staging, Arguments&&... arguments)
      : HostBuffer(std::forward<Arguments>(arguments)...), staging_(std::move(staging)) {}

  std::int32_t from_host(sdk::Stream* stream, std::uint64_t offset, const void* source,
                         std::uint64_t byte_count) override;
  void to_host(sdk::Stream* stream, std::uint64_t offset, void* target, std::uint64_t byte_count) override;
  void copy_from(sdk::Stream* stream, std::uint64_t offset, sdk::Buffer& source, std::uint64_t source_offset,
                 std::uint64_t byte_count) override;
  void fill(sdk::Stream* stream, std::uint64_t offset, std::uint64_t byte_count,
            std::span<const std::byte> pattern) override;

 private:
  // A staged copy that later ones may join until it runs; with the bug coalesced_copies.
  struct Upload {
    std::mutex mutex;
    std::shared_ptr<Staging::Block> block;
    std::uint64_t byte_count = 0;
    std::uint64_t end = 0;  // in the buffer
    sdk::Stream* stream = nullptr;
    bool has_started = false;
  };
  void join_or_queue(sdk::Stream* stream, std::uint64_t offset, const std::byte* source,
                     std::uint64_t byte_count);
  std::mutex mutex_;
  std::shared_ptr<Upload> upload_;  // the last one

  std::byte* at(std::uint64_t offset) { return static_cast<std::byte*>(host_address()) + offset; }
  std::shared_ptr<Staging> staging_;
};

}  // namespace yoke::handmade
