// SPDX-License-Identifier: Apache-2.0
// plugins/gpu/pool.cpp: allocates, keeps and frees device memory.
#include "pool.h"

#include <yoke/plugin.h>

#include <algorithm>
#include <bit>
#include <iterator>
#include <new>
#include <string>

namespace yoke::gpu {

std::uint64_t Pool::size_class(std::uint64_t byte_count) noexcept {
  constexpr std::uint64_t kSmall = std::uint64_t{1} << 20;
  constexpr std::uint64_t kLargest = std::uint64_t{1} << 62;
  if (byte_count > kLargest) {
    return byte_count;  // the driver refuses it
  }
  const std::uint64_t unit = byte_count <= kSmall ? 512 : std::bit_floor(byte_count) / 8;
  return (std::max<std::uint64_t>(byte_count, 1) + unit - 1) / unit * unit;
}

void Pool::set_limit(std::uint64_t byte_count) noexcept {
  const std::lock_guard lock(mutex_);
  limit_ = byte_count;
  release(limit_);
}

Address Pool::allocate(std::uint64_t byte_count) {
  const std::uint64_t size = size_class(byte_count);
  const std::lock_guard lock(mutex_);
  if (const auto found = blocks_.find(size); found != blocks_.end()) {
    const Address memory = found->second;
    blocks_.erase(found);
    kept_bytes_ -= size;
    used_bytes_ += size;
    return memory;
  }
  Address memory = 0;
  int code = driver_.memory_allocate(&memory, size);
  if (code == kOutOfMemory && !blocks_.empty()) {
    release(0);
    code = driver_.memory_allocate(&memory, size);
  }
  if (code == kOutOfMemory) {
    std::size_t free_bytes = 0;
    std::size_t total_bytes = 0;
    std::string text = "out of device memory: " + std::to_string(byte_count) + " bytes requested, " +
                       std::to_string(used_bytes_) + " in use by this process";
    if (driver_.memory_info(&free_bytes, &total_bytes) == 0) {
      text += ", " + std::to_string(free_bytes) + " of " + std::to_string(total_bytes) + " free";
    }
    throw sdk::Failure(YOKE_STATUS_OUT_OF_DEVICE_MEMORY, text + "; use smaller batches or more devices",
                       code);
  }
  if (code != 0) {
    throw failure_of(vendor_, driver_.memory_allocate.name, code);
  }
  used_bytes_ += size;
  return memory;
}

void Pool::free(Address memory, std::uint64_t byte_count) noexcept {
  const std::uint64_t size = size_class(byte_count);
  const std::lock_guard lock(mutex_);
  used_bytes_ -= size;
  if (size <= limit_) {
    release(limit_ - size);
    try {
      blocks_.emplace(size, memory);
      kept_bytes_ += size;
      return;
    } catch (const std::bad_alloc&) {
      // Without host memory for the entry, the block cannot be kept.
    }
  }
  (void)driver_.memory_free(memory);  // fails on a lost device, whose memory is gone
}

void Pool::trim() noexcept {
  const std::lock_guard lock(mutex_);
  release(0);
}

// Frees large blocks first: that takes fewer calls.
void Pool::release(std::uint64_t most_kept) noexcept {
  while (kept_bytes_ > most_kept) {
    const auto last = std::prev(blocks_.end());
    (void)driver_.memory_free(last->second);
    kept_bytes_ -= last->first;
    blocks_.erase(last);
  }
}

}  // namespace yoke::gpu
