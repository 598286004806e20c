// SPDX-License-Identifier: Apache-2.0
// plugins/gpu/host_memory.h: host memory that devices access directly: pinned here, or registered in place.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>

#include "driver.h"

namespace yoke::gpu {

inline void* pointer_to(std::uintptr_t address) {
  return reinterpret_cast<void*>(address);  // NOLINT(performance-no-int-to-ptr)
}

// Memory of all devices of the driver. Thread-safe.
// Precondition of functions that call the driver: a context is current on this thread.
class HostMemory {
 public:
  HostMemory(const Vendor& vendor, const Driver& driver) : vendor_(vendor), driver_(driver) {}

  // Returns null if there is not enough memory.
  void* allocate(std::uint64_t byte_count);
  void free(void* memory) noexcept;

  // Registers the pages of a range, or counts another use of them. Throws YOKE_STATUS_UNIMPLEMENTED if only
  // a part of them is registered, or the driver cannot register them. Returns an address for which the driver
  // has a device address: the first one of the registration, or `address` if it is of another library. A
  // registration ends with the context in which it was made, so it keeps that context: `current`.
  std::uintptr_t add(std::uintptr_t address, std::uint64_t byte_count, std::shared_ptr<const void> current);
  void remove(std::uintptr_t address) noexcept;

  // Whether the range is in memory that allocate() returned, which devices copy directly. Registered pages do
  // not count: memory with other owners may share them, and a registration may end during a copy of it.
  bool covers(const void* memory, std::uint64_t byte_count) const;

 private:
  enum class Origin : std::uint8_t { kAllocated, kRegistered, kForeign };  // kForeign: of another library
  struct Range {
    std::uintptr_t end = 0;
    std::uint64_t uses = 1;
    Origin origin = Origin::kAllocated;
    std::shared_ptr<const void> context = nullptr;  // of a registration
  };
  // The range that includes the address, or the end.
  std::map<std::uintptr_t, Range>::const_iterator find(std::uintptr_t address) const;

  bool is_mapped(std::uintptr_t address, std::uint64_t byte_count) const;
  void check_foreign(std::uintptr_t address, std::uint64_t byte_count) const;
  std::uintptr_t reuse(std::uintptr_t address, std::uint64_t byte_count, std::uintptr_t first_page,
                       std::uintptr_t end);

  const Vendor& vendor_;
  const Driver& driver_;
  // Registering pages takes long, and other threads' copies need the ranges meanwhile. So calls of the driver
  // hold `registering_`, but not `mutex_`.
  std::mutex registering_;
  mutable std::mutex mutex_;
  std::map<std::uintptr_t, Range> ranges_;  // by their first address
};

}  // namespace yoke::gpu
