// SPDX-License-Identifier: Apache-2.0
// tests/fake_gpu/engine/memory.cpp: see memory.h.
#include "memory.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <string>

#include "settings.h"

#ifdef FAKE_GPU_ASAN
#include <sanitizer/asan_interface.h>
#endif

namespace fake_gpu {
namespace {

constexpr std::size_t kPage = 4096;  // no page also holds memory that the program may register
#ifdef FAKE_GPU_ASAN
constexpr std::size_t kCanary = 0;  // the sanitizer finds stores past the end
#else
constexpr std::size_t kCanary = 64;
#endif
constexpr std::size_t kMostBytes = std::size_t{16} << 30;
constexpr std::size_t kFilled = std::size_t{8} << 20;  // of large allocations, the first and the last bytes

// Memory that starts with garbage and ends with guard bytes.
char* storage(std::size_t byte_count) {
  if (byte_count > kMostBytes) {
    throw Error{kOutOfMemory};
  }
  const std::size_t all = (byte_count + kCanary + kPage) / kPage * kPage;
  auto* memory = static_cast<char*>(std::aligned_alloc(kPage, all));
  if (memory == nullptr) {
    throw Error{kOutOfMemory};
  }
  const std::size_t filled = std::min(byte_count, kFilled);
  std::memset(memory, 0xcd, filled);
  std::memset(memory + byte_count - filled, 0xcd, filled);
#ifdef FAKE_GPU_ASAN
  __asan_poison_memory_region(memory + byte_count, all - byte_count);
#else
  std::memset(memory + byte_count, 0xa5, kCanary);
#endif
  return memory;
}

std::string name(Address address, std::size_t byte_count) {
  return "[" + std::to_string(address) + ", " + std::to_string(address + byte_count) + ")";
}

[[noreturn]] void refuse(const std::string& sentence, int code) {
  complain(sentence);
  throw Error{code};
}

}  // namespace

Pins::Pins(std::vector<std::shared_ptr<Allocation>> all) : all_(std::move(all)) {
  for (const auto& allocation : all_) {
    ++allocation->pending;
  }
}

Pins::~Pins() {
  for (const auto& allocation : all_) {
    --allocation->pending;
  }
}

void Memory::insert(std::shared_ptr<Allocation> allocation) {
  const std::scoped_lock lock(mutex_);
  const Address address = allocation->address;
  all_[address] = std::move(allocation);
}

Address Memory::allocate(int device, std::size_t byte_count) {
  {
    const std::scoped_lock lock(mutex_);
    std::size_t& used = used_.at(static_cast<std::size_t>(device));
    if (byte_count > settings().memory - used) {
      throw Error{kOutOfMemory};
    }
    used += byte_count;
  }
  auto allocation = std::make_shared<Allocation>();
  allocation->address = reinterpret_cast<Address>(storage(byte_count));
  allocation->byte_count = byte_count;
  allocation->device = device;
  const Address address = allocation->address;
  insert(std::move(allocation));
  return address;
}

void* Memory::allocate_host(int owner, std::size_t byte_count) {
  auto allocation = std::make_shared<Allocation>();
  allocation->owner = owner;
  char* memory = storage(byte_count);
  allocation->address = reinterpret_cast<Address>(memory);
  allocation->byte_count = byte_count;
  insert(std::move(allocation));
  return memory;
}

void Memory::free(Address address, bool host) {
  std::shared_ptr<Allocation> found;
  {
    const std::scoped_lock lock(mutex_);
    const auto at = all_.find(address);
    if (at == all_.end() || (at->second->device == kHost) != host || at->second->registered) {
      refuse(std::to_string(address) + " is not the start of an allocation that is freed this way",
             kInvalidValue);
    }
    found = at->second;
    all_.erase(at);
    if (!host) {
      used_.at(static_cast<std::size_t>(found->device)) -= found->byte_count;
    }
  }
  const std::string range = name(address, found->byte_count);
  if (found->pending > 0) {
    complain("memory " + range + " is freed while queued work uses it");
    const std::scoped_lock lock(mutex_);
    kept_.push_back(std::move(found));  // the work may still use it
    return;
  }
  const char* end = pointer(address) + found->byte_count;
  if (std::any_of(end, end + kCanary, [](char byte) { return byte != '\xa5'; })) {
    complain("bytes after the end of the allocation " + range + " were overwritten");
  }
  std::memset(pointer(address), 0xdd, std::min(found->byte_count, kFilled));
  std::free(pointer(address));
}

void Memory::register_host(int owner, Address address, std::size_t byte_count) {
  if (address == 0 || byte_count == 0) {
    throw Error{kInvalidValue};
  }
  const std::scoped_lock lock(mutex_);
  const auto next = all_.upper_bound(address);
  const bool overlaps_next = next != all_.end() && next->first < address + byte_count;
  if (overlaps_next ||
      (next != all_.begin() && std::prev(next)->first + std::prev(next)->second->byte_count > address)) {
    if (kHip) {  // many releases do not see it
      complain("host memory is registered again");
    }
    throw Error{kHostMemoryRegistered};
  }
  auto allocation = std::make_shared<Allocation>();
  allocation->address = address;
  allocation->byte_count = byte_count;
  allocation->registered = true;
  allocation->owner = owner;
  all_[address] = std::move(allocation);
}

void Memory::unregister_host(Address address) {
  const std::scoped_lock lock(mutex_);
  const auto at = all_.find(address);
  if (at == all_.end() || !at->second->registered) {
    throw Error{kHostMemoryNotRegistered};
  }
  if (at->second->pending > 0) {
    complain("host memory " + name(address, at->second->byte_count) +
             " is unregistered while queued work uses it");
  }
  all_.erase(at);
}

std::shared_ptr<Allocation> Memory::find(Address address, std::size_t byte_count) {
  const std::scoped_lock lock(mutex_);
  auto at = all_.upper_bound(address);
  if (at == all_.begin()) {
    return nullptr;
  }
  --at;
  const Allocation& allocation = *at->second;
  const Address offset = address - allocation.address;
  const bool inside = offset <= allocation.byte_count && byte_count <= allocation.byte_count - offset;
  return inside ? at->second : nullptr;
}

Pins Memory::pin(const std::vector<Range>& ranges, int device, const char* what) {
  std::vector<std::shared_ptr<Allocation>> all;
  for (const Range& range : ranges) {
    auto allocation = find(range.address, range.byte_count);
    if (allocation == nullptr) {
      refuse(std::string(what) + ": the range " + name(range.address, range.byte_count) +
                 " is not in an allocation",
             kInvalidValue);
    }
    if (allocation->device != kHost && allocation->device != device &&
        !has_peer(device, allocation->device)) {
      refuse(std::string(what) + ": device " + std::to_string(device) + " cannot access memory of device " +
                 std::to_string(allocation->device),
             kInvalidValue);
    }
    all.push_back(std::move(allocation));
  }
  return Pins(std::move(all));
}

std::size_t Memory::used(int device) {
  const std::scoped_lock lock(mutex_);
  return used_.at(static_cast<std::size_t>(device));
}

std::size_t Memory::count(int device) {
  const std::scoped_lock lock(mutex_);
  return static_cast<std::size_t>(
      std::count_if(all_.begin(), all_.end(), [&](const auto& row) { return row.second->device == device; }));
}

std::size_t Memory::host_count(int device) {
  const std::scoped_lock lock(mutex_);
  return static_cast<std::size_t>(std::count_if(all_.begin(), all_.end(), [&](const auto& row) {
    return row.second->device == kHost && row.second->owner == device;
  }));
}

void Memory::enable_peer(int device, int peer) {
  const std::scoped_lock lock(mutex_);
  bool& enabled = peers_.at(static_cast<std::size_t>(device)).at(static_cast<std::size_t>(peer));
  if (enabled) {
    throw Error{kPeerAccessEnabled};
  }
  enabled = true;
}

void Memory::disable_peers(int device) {
  const std::scoped_lock lock(mutex_);
  const auto ended = static_cast<std::size_t>(device);
  peers_.at(ended) = {};
  for (auto& row : peers_) {
    row.at(ended) = false;
  }
}

bool Memory::has_peer(int device, int peer) {
  const std::scoped_lock lock(mutex_);
  return peers_.at(static_cast<std::size_t>(device)).at(static_cast<std::size_t>(peer));
}

Memory& memory() {
  static auto* const all = new Memory;  // threads of streams may outlive static objects
  return *all;
}

}  // namespace fake_gpu
