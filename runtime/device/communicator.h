// SPDX-License-Identifier: Apache-2.0
// runtime/device/communicator.h: one member of a group of yoke.collectives/1.
#pragma once

#include <yoke/ext/collectives.h>
#include <yoke/runtime/device.h>

#include <chrono>
#include <cstdint>
#include <memory>

namespace yoke::detail {

// Whether the device's backend offers yoke.collectives/1 and the streams that it needs.
bool has_collectives(const Device& device);
// Precondition of everything below: has_collectives(device).
yoke_collectives_info describe_collectives(const Device& device);
yoke_group_id create_group_id(const Device& device);

// Which members of a group are in this process: those of the ranks from `first` on. The group has `size` members.
struct GroupRanks {
  std::uint32_t first = 0;
  std::uint32_t size = 0;
  yoke_group_id id = {};
};

// Movable. Thread-safe. Precondition of the destructor: no pending work uses the communicator.
class Communicator {
 public:
  // Begins to join the group, without waiting for other members.
  Communicator(std::shared_ptr<Device> device, const yoke_group_id& id, std::uint32_t rank,
               std::uint32_t size);

  yoke_communicator* get() const { return handle_.get(); }
  // Waits until all members have joined. Throws Error kDeadlineExceeded, or the communicator's first error.
  void wait(std::chrono::nanoseconds timeout) const;
  bool has_failed() const noexcept;
  void abort() const noexcept;

 private:
  struct Destroy {
    std::shared_ptr<Device> device;
    void operator()(yoke_communicator* communicator) const noexcept;
  };
  const Device& device() const { return *handle_.get_deleter().device; }
  std::unique_ptr<yoke_communicator, Destroy> handle_;
};

}  // namespace yoke::detail
