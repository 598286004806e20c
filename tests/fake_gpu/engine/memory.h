// SPDX-License-Identifier: Apache-2.0
// tests/fake_gpu/engine/memory.h: device memory and pinned host memory, filled with a pattern and
// range-checked.
#pragma once

#include <array>
#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "vendor.h"

namespace fake_gpu {

inline constexpr int kHost = -1;

inline char* pointer(Address address) {
  return reinterpret_cast<char*>(address);  // NOLINT(performance-no-int-to-ptr)
}

struct Allocation {
  Address address = 0;
  std::size_t byte_count = 0;
  int device = kHost;
  bool registered = false;       // host memory of the caller
  int owner = kHost;             // the device in whose context host memory was pinned
  std::atomic<int> pending = 0;  // operations that use it and have not finished
};

// A range that an operation reads or writes. Kernels use 1 byte of what a pointer argument points to.
struct Range {
  Address address = 0;
  std::size_t byte_count = 0;
};

// Keeps what an operation uses from being freed.
class Pins {
 public:
  Pins() = default;
  explicit Pins(std::vector<std::shared_ptr<Allocation>> all);
  Pins(Pins&&) = default;
  Pins& operator=(Pins&&) = default;
  Pins(const Pins&) = delete;
  Pins& operator=(const Pins&) = delete;
  ~Pins();

 private:
  std::vector<std::shared_ptr<Allocation>> all_;
};

class Memory {
 public:
  Address allocate(int device, std::size_t byte_count);
  void* allocate_host(int owner, std::size_t byte_count);
  // Complains and throws if `address` is not the start of an allocation of that kind or is in use.
  void free(Address address, bool host);
  void register_host(int owner, Address address, std::size_t byte_count);
  void unregister_host(Address address);
  // The allocation that contains the whole range, or null.
  std::shared_ptr<Allocation> find(Address address, std::size_t byte_count);
  // Complains and throws if a range is not in memory that `device` can access.
  Pins pin(const std::vector<Range>& ranges, int device, const char* what);
  std::size_t used(int device);
  // The number of allocations on a device.
  std::size_t count(int device);
  // The number of ranges of host memory that a context of the device has pinned.
  std::size_t host_count(int device);
  void enable_peer(int device, int peer);
  // Ends the access from and to a device.
  void disable_peers(int device);
  bool has_peer(int device, int peer);

 private:
  void insert(std::shared_ptr<Allocation> allocation);

  std::mutex mutex_;
  std::map<Address, std::shared_ptr<Allocation>> all_;
  std::vector<std::shared_ptr<Allocation>> kept_;  // freed too early
  std::array<std::size_t, 8> used_ = {};
  std::array<std::array<bool, 8>, 8> peers_ = {};
};

Memory& memory();

}  // namespace fake_gpu
