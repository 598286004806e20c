// SPDX-License-Identifier: Apache-2.0
// runtime/device/buffer.cpp: memory that is never freed under work that still uses it.
#include <yoke/runtime/device.h>

#include <new>
#include <utility>

#include "device/call.h"
#include "schedule/hazards.h"

namespace yoke {

Buffer::Buffer(std::shared_ptr<Device> device, std::uint64_t byte_count, std::int32_t kind)
    : device_(std::move(device)), byte_count_(byte_count), hazards_(std::make_unique<detail::Hazards>()) {
  detail::call<&yoke_backend_api::buffer_create>(*device_, device_->get(), byte_count_, kind, &handle_);
}

Buffer::~Buffer() {
  const auto& state = device_->backend()->state();
  if (!hazards_->wait_all(state.runtime->options.wait_timeout)) {
    // Leaked rather than freed under running work, with its device and the list that the work refers to.
    (void)new (std::nothrow) std::shared_ptr<Device>(device_);
    (void)hazards_.release();  // NOLINT(bugprone-unused-return-value)
    state.runtime->logger.log(
        LogLevel::kError, "buffer.leak device=" + device_->name() + " bytes=" + std::to_string(byte_count_) +
                              " reason=\"work that uses it is still queued after wait_timeout\"");
    return;
  }
  detail::destroy<&yoke_backend_api::buffer_destroy>(state, handle_);
}

}  // namespace yoke
