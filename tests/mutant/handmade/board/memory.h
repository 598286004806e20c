// SPDX-License-Identifier: Apache-2.0
// tests/mutant/handmade/board/memory.h: the memory of a device, which the host cannot address, and copies to it.
#pragma once

#include <array>
#include <cstddef>
#include <map>
#include <span>
#include <utility>

#include "queue.h"

namespace yoke::board {

// Hands out blocks of one device's memory, and keeps freed ones for buffers of the same size.
class Pool {
 public:
  static constexpr std::uint64_t kCapacity = std::uint64_t{1} << 30;
  ~Pool() { trim(); }
  std::byte* take(std::uint64_t byte_count);  // throws OUT_OF_DEVICE_MEMORY
  void give_back(std::byte* block, std::uint64_t byte_count);

 private:
  static std::uint64_t block_size(std::uint64_t byte_count);
  void trim();
  std::mutex mutex_;
  std::uint64_t held_ = 0;      // in use or free
  std::byte* empty_ = nullptr;  // the block of all buffers of 0 bytes; with the bug empty_shared
  std::map<std::uint64_t, std::vector<std::byte*>> free_;
};

// A ring that holds the sources of small copies until the copies have run.
class Staging {
 public:
  struct Span {
    std::byte* data;
    std::uint64_t end;
    bool is_free;
  };
  Span* take(std::uint64_t byte_count);  // null: the ring is full
  void give_back(Span* span);

 private:
  static constexpr std::uint64_t kSize = 64 * 1024;
  std::mutex mutex_;
  std::vector<std::byte> bytes_ = std::vector<std::byte>(kSize);
  std::deque<Span> spans_;
  std::uint64_t head_ = 0;  // both only grow; the place in the ring is the rest of the division by kSize
  std::uint64_t tail_ = 0;
};

// What the handles of a device share.
struct Engine {
  explicit Engine(std::shared_ptr<Hub> hub) : workers(std::move(hub)) {}
  Pool pool;
  Staging staging;
  std::array<std::byte, 64 * 1024> bounce;  // with the bug shared_bounce
  Workers workers;
};

class Buffer final : public sdk::Buffer {
 public:
  Buffer(std::shared_ptr<Engine> engine, std::uint64_t byte_count, std::int32_t kind)
      : engine_(std::move(engine)),
        byte_count_(byte_count),
        kind_(kind),
        data_(engine_->pool.take(byte_count)) {}
  Buffer(std::shared_ptr<Engine> engine, const sdk::Import& memory)
      : engine_(std::move(engine)), kind_(memory.kind), data_(reinterpret_cast<std::byte*>(memory.address)) {
    is_imported_ = true;
  }
  ~Buffer() override;

  std::byte* at(std::uint64_t offset) const { return data_ + offset; }
  void* host_address() noexcept override { return kind_ == YOKE_MEMORY_DEVICE ? nullptr : data_; }
  std::uint64_t device_address() override { return reinterpret_cast<std::uintptr_t>(data_); }
  std::int32_t from_host(sdk::Stream* stream, std::uint64_t offset, const void* source,
                         std::uint64_t byte_count) override;
  void to_host(sdk::Stream* stream, std::uint64_t offset, void* target, std::uint64_t byte_count) override;
  void copy_from(sdk::Stream* stream, std::uint64_t offset, sdk::Buffer& source, std::uint64_t source_offset,
                 std::uint64_t byte_count) override;
  void fill(sdk::Stream* stream, std::uint64_t offset, std::uint64_t byte_count,
            std::span<const std::byte> pattern) override;

 private:
  std::shared_ptr<Engine> engine_;
  void read_on_thread(std::uint64_t offset, void* target, std::uint64_t byte_count);

  std::uint64_t byte_count_ = 0;
  std::int32_t kind_;
  std::byte* data_;
  bool is_imported_ = false;
  std::array<std::byte, 8> pattern_{};  // of the last fill; with the bug fill_pattern_kept
  std::mutex reader_mutex_;
  std::thread reader_;  // copies to the host; with the bug reader_thread
};

}  // namespace yoke::board
