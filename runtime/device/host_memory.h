// SPDX-License-Identifier: Apache-2.0
// runtime/device/host_memory.h: host memory for copies between devices, pinned where a device offers it.
#pragma once

#include <yoke/runtime/device.h>

#include <cstddef>
#include <initializer_list>
#include <memory>

namespace yoke::detail {

// Movable. Aligned to YOKE_BUFFER_ALIGNMENT, not initialized.
class HostMemory {
 public:
  HostMemory() = default;
  // Pinned by the first of the devices whose backend provides yoke.memory/1; devices whose memory the host
  // cannot address come first. From the heap if no device can pin that much.
  HostMemory(std::initializer_list<std::shared_ptr<Device>> users, std::uint64_t byte_count);

  std::byte* data() const { return memory_.get(); }
  bool is_pinned() const { return memory_.get_deleter().pinned_by != nullptr; }

 private:
  struct Free {
    std::shared_ptr<Device> pinned_by;  // null: from the heap
    void operator()(std::byte* memory) const noexcept;
  };
  std::unique_ptr<std::byte, Free> memory_;
};

}  // namespace yoke::detail
