// SPDX-License-Identifier: Apache-2.0
// tests/mutant/handmade/strip/memory.h: buffers cut from slabs, staging slots, copies in chunks.
#pragma once

#include <yoke/sdk/plugin.h>

#include <array>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "queue.h"

namespace yoke::strip {

// The memory of one device handle. Blocks of at most 4 KiB come from slabs of equal blocks.
class Heap {
 public:
  explicit Heap(const sdk::Host& host) : host_(host) {}
  ~Heap();
  void* allocate(std::uint64_t byte_count);
  void release(void* memory, std::uint64_t byte_count) noexcept;

 private:
  struct Slab {
    std::uint64_t block = 0;  // the size of its blocks
    std::uint64_t live = 0;
  };
  void* from_host(std::uint64_t byte_count);
  void add_slab(std::uint64_t block);
  std::map<std::byte*, Slab>::iterator slab_of(std::byte* block);

  sdk::Host host_;
  std::mutex mutex_;
  std::map<std::byte*, Slab> slabs_;                       // by address
  std::map<std::uint64_t, std::vector<std::byte*>> free_;  // by size of block
};

// Copies of the sources of small copies, so that the caller may change them at once.
class Staging {
 public:
  static constexpr std::uint64_t kSlot = 8192;
  using Slot = std::array<std::byte, kSlot>;
  Slot* take();  // null: all are in use
  void give(Slot* slot);

 private:
  static constexpr std::size_t kSlots = 32;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<std::unique_ptr<Slot>> slots_;
  std::vector<Slot*> free_;
};

// Host memory that the SDK's pinned_allocate returned.
class Pinned {
 public:
  void add(void* memory, std::uint64_t byte_count);
  void remove(void* memory);
  bool holds(const void* memory);

 private:
  std::mutex mutex_;
  std::map<const std::byte*, std::uint64_t> blocks_;
};

// What buffers share with their device.
struct Memory {
  explicit Memory(const sdk::Host& host) : heap(host) {}
  Heap heap;
  Staging staging;
  Pinned pinned;
};

class Buffer final : public sdk::Buffer {
 public:
  Buffer(std::shared_ptr<Group> group, std::shared_ptr<Memory> memory, std::uint64_t byte_count);
  Buffer(std::shared_ptr<Group> group, std::shared_ptr<Memory> memory, const sdk::Import& import);
  ~Buffer() override;
  void* host_address() noexcept override { return address_; }
  std::int32_t from_host(sdk::Stream* stream, std::uint64_t offset, const void* source,
                         std::uint64_t byte_count) override;
  void to_host(sdk::Stream* stream, std::uint64_t offset, void* target, std::uint64_t byte_count) override;
  void copy_from(sdk::Stream* stream, std::uint64_t offset, sdk::Buffer& source, std::uint64_t source_offset,
                 std::uint64_t byte_count) override;
  void fill(sdk::Stream* stream, std::uint64_t offset, std::uint64_t byte_count,
            std::span<const std::byte> pattern) override;

 private:
  bool merge_word(sdk::Stream* stream, std::uint64_t offset, const std::byte* source,
                  std::uint64_t byte_count);
  std::byte* at(std::uint64_t offset) const { return static_cast<std::byte*>(address_) + offset; }
  void upload_staged(std::uint64_t offset, const std::byte* source, std::uint64_t byte_count);

  std::shared_ptr<Group> group_;
  std::shared_ptr<Memory> memory_;
  std::uint64_t byte_count_ = 0;
  bool is_imported_ = false;
  void* address_ = nullptr;
  Pending uploads_;  // with the bug staged_dma
};

}  // namespace yoke::strip
