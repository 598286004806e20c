// SPDX-License-Identifier: Apache-2.0
// plugins/gpu/host_memory.cpp: pins host memory and registers memory that callers own.
#include "host_memory.h"

#include <yoke/plugin.h>

#include <algorithm>
#include <iterator>
#include <string>
#include <utility>

namespace yoke::gpu {
namespace {

constexpr std::uintptr_t kPage = 4096;

}  // namespace

void* HostMemory::allocate(std::uint64_t byte_count) {
  void* memory = nullptr;
  const int code = driver_.host_allocate(&memory, std::max<std::uint64_t>(byte_count, 1),
                                         kPortableHostMemory | kMappedHostMemory);
  if (code == kOutOfMemory || code == kInvalidValue) {  // some drivers call a huge size invalid
    return nullptr;
  }
  if (code != 0) {
    throw failure_of(vendor_, driver_.host_allocate.name, code);
  }
  const auto address = reinterpret_cast<std::uintptr_t>(memory);
  const std::lock_guard lock(mutex_);
  ranges_[address] = {address + byte_count, 1, Origin::kAllocated};
  return memory;
}

void HostMemory::free(void* memory) noexcept {
  if (memory != nullptr) {
    {
      const std::lock_guard lock(mutex_);
      ranges_.erase(reinterpret_cast<std::uintptr_t>(memory));
    }
    (void)driver_.host_free(memory);  // may wait for the device, and copies of other threads need the lock
  }
}

std::map<std::uintptr_t, HostMemory::Range>::const_iterator HostMemory::find(std::uintptr_t address) const {
  auto next = ranges_.upper_bound(address);
  if (next == ranges_.begin()) {
    return ranges_.end();
  }
  --next;
  return address < next->second.end ? next : ranges_.end();
}

bool HostMemory::is_mapped(std::uintptr_t address, std::uint64_t byte_count) const {
  Address first = 0;
  Address last = 0;
  return driver_.host_device_address(&first, pointer_to(address), 0U) == 0 &&
         driver_.host_device_address(&last, pointer_to(address + byte_count - 1), 0U) == 0 &&
         last - first == byte_count - 1;
}

void HostMemory::check_foreign(std::uintptr_t address, std::uint64_t byte_count) const {
  if (!is_mapped(address, byte_count)) {
    throw sdk::Failure(YOKE_STATUS_UNIMPLEMENTED,
                       "another library has registered a part of this host memory with the driver; let it "
                       "register all of it, or copy it");
  }
}

std::uintptr_t HostMemory::add(std::uintptr_t address, std::uint64_t byte_count,
                               std::shared_ptr<const void> current) {
  const std::uintptr_t first = address / kPage * kPage;
  const std::uintptr_t end = (address + byte_count + kPage - 1) / kPage * kPage;
  const std::lock_guard registering(registering_);
  if (const std::uintptr_t known = reuse(address, byte_count, first, end); known != 0) {
    return known;
  }
  // Releases of HIP before July 2026 register memory again that another library has registered, and
  // unregistering it once ends both registrations.
  const bool is_known = vendor_.facts().dialect == codegen::Dialect::kHip && is_mapped(address, byte_count);
  if (!is_known) {
    vendor_.forget_error();  // of is_mapped
  }
  const int code = is_known ? kAlreadyRegistered
                            : driver_.host_register(pointer_to(first), end - first,
                                                    kPortableHostMemory | kMappedHostMemory);
  const bool is_foreign = code == kAlreadyRegistered;
  if (is_foreign) {
    check_foreign(address, byte_count);
  } else if (code == kInvalidValue || code == kOutOfMemory || code == kNotSupported) {
    throw sdk::Failure(YOKE_STATUS_UNIMPLEMENTED,
                       failure_of(vendor_, driver_.host_register.name, code).text() +
                           "; the driver cannot pin this host memory, for example because it is read-only or "
                           "beyond the limit of locked memory (ulimit -l): copy it",
                       code);
  } else if (code != 0) {
    throw failure_of(vendor_, driver_.host_register.name, code);
  }
  const std::lock_guard lock(mutex_);
  ranges_[first] =
      is_foreign ? Range{end, 1, Origin::kForeign} : Range{end, 1, Origin::kRegistered, std::move(current)};
  return is_foreign ? address : first;
}

// Counts one more use of the registration that covers the range. Returns its address, or 0 if there is none.
std::uintptr_t HostMemory::reuse(std::uintptr_t address, std::uint64_t byte_count, std::uintptr_t first_page,
                                 std::uintptr_t end) {
  std::unique_lock lock(mutex_);
  const auto found = find(address);
  if (found == ranges_.end() || address + byte_count > found->second.end) {
    const auto next = ranges_.lower_bound(end);
    if (next != ranges_.begin() && std::prev(next)->second.end > first_page) {
      throw sdk::Failure(
          YOKE_STATUS_UNIMPLEMENTED,
          "a part of this host memory is already registered with the driver; import memory that "
          "shares no page with other imported memory, or copy it");
    }
    return 0;
  }
  const std::uintptr_t known = found->first;
  const bool is_foreign = found->second.origin == Origin::kForeign;
  if (is_foreign) {
    lock.unlock();
    check_foreign(address, byte_count);
    lock.lock();
  }
  ++ranges_[known].uses;
  return is_foreign ? address : known;
}

void HostMemory::remove(std::uintptr_t address) noexcept {
  Range removed;  // before the locks, so that its context ends after them
  const std::lock_guard registering(registering_);
  std::uintptr_t first = 0;
  {
    const std::lock_guard lock(mutex_);
    const auto found = find(address);
    if (found == ranges_.end() || --ranges_[found->first].uses != 0) {
      return;
    }
    first = found->first;
    removed = std::move(ranges_[first]);
    ranges_.erase(found);
  }
  if (removed.origin == Origin::kRegistered) {
    (void)driver_.host_unregister(pointer_to(first));
  }
}

bool HostMemory::covers(const void* memory, std::uint64_t byte_count) const {
  const auto address = reinterpret_cast<std::uintptr_t>(memory);
  const std::lock_guard lock(mutex_);
  const auto found = find(address);
  return found != ranges_.end() && found->second.origin == Origin::kAllocated &&
         byte_count <= found->second.end - address;
}

}  // namespace yoke::gpu
