// SPDX-License-Identifier: Apache-2.0
// plugins/gpu/pool.h: memory of one device, kept for reuse when it is freed.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <mutex>

#include "driver.h"

namespace yoke::gpu {

// Allocating and freeing through the driver is slow, and freeing waits for the whole device. Freed blocks are
// kept up to a limit and handed out again for allocations of the same size class. Thread-safe.
// Precondition of each function: the context of the device is current on this thread.
class Pool {
 public:
  Pool(const Vendor& vendor, const Driver& driver) : vendor_(vendor), driver_(driver) {}

  // Throws YOKE_STATUS_OUT_OF_DEVICE_MEMORY with the bytes requested, used and free.
  Address allocate(std::uint64_t byte_count);
  // Precondition: `byte_count` is that of the allocation, and no pending work uses the memory.
  void free(Address memory, std::uint64_t byte_count) noexcept;
  // Returns all free blocks to the driver.
  void trim() noexcept;
  void set_limit(std::uint64_t byte_count) noexcept;

  // Rounds up to a multiple of 512 bytes, or of an eighth of the next lower power of two beyond 1 MiB.
  static std::uint64_t size_class(std::uint64_t byte_count) noexcept;

 private:
  void release(std::uint64_t most_kept) noexcept;

  const Vendor& vendor_;
  const Driver& driver_;
  std::mutex mutex_;
  std::multimap<std::uint64_t, Address> blocks_;  // by size
  std::uint64_t kept_bytes_ = 0;
  std::uint64_t used_bytes_ = 0;
  std::uint64_t limit_ = 0;
};

}  // namespace yoke::gpu
