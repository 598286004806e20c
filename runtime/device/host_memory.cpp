// SPDX-License-Identifier: Apache-2.0
// runtime/device/host_memory.cpp: allocates from the device that profits most from pinning, or from the heap.
#include "device/host_memory.h"

#include <new>

#include "device/call.h"

namespace yoke::detail {
namespace {

constexpr std::align_val_t kAlignment{YOKE_BUFFER_ALIGNMENT};

// Returns null if the device cannot pin `byte_count` bytes.
std::byte* pin(const Device& device, std::uint64_t byte_count) {
  const BackendState& backend = device.backend()->state();
  if (!backend.has_memory) {
    return nullptr;
  }
  Status status;
  void* memory = nullptr;
  const yoke_pinned_args args = {sizeof(args), 0, byte_count};
  const std::int32_t code =
      attempt<&yoke_memory_api::pinned_allocate>(backend, status, device.get(), &args, &memory);
  if (code != YOKE_STATUS_OK && backend.runtime->logger.logs(LogLevel::kDebug)) {
    backend.runtime->logger.log(
        LogLevel::kDebug, "memory.unpinned device=" + device.name() + " bytes=" + std::to_string(byte_count) +
                              " reason=\"" +
                              make_error(device.name(), "pinned_allocate", code, status).what() + "\"");
  }
  return code == YOKE_STATUS_OK ? static_cast<std::byte*>(memory) : nullptr;
}

}  // namespace

HostMemory::HostMemory(std::initializer_list<std::shared_ptr<Device>> users, std::uint64_t byte_count) {
  for (const bool host_visible : {false, true}) {
    for (const auto& device : users) {
      if (device->info().host_visible != host_visible) {
        continue;
      }
      if (std::byte* const memory = pin(*device, byte_count)) {
        memory_ = {memory, Free{device}};
        return;
      }
    }
  }
  memory_ = {static_cast<std::byte*>(::operator new(byte_count, kAlignment)), Free{}};
}

void HostMemory::Free::operator()(std::byte* memory) const noexcept {
  if (pinned_by == nullptr) {
    ::operator delete(memory, kAlignment);
  } else {
    pinned_by->backend()->state().memory.pinned_free(pinned_by->get(), memory);
  }
}

}  // namespace yoke::detail
