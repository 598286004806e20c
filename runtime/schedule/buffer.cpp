// SPDX-License-Identifier: Apache-2.0
// runtime/schedule/buffer.cpp: creates and imports device memory, and frees it when no queued work uses it.
#include <yoke/runtime/device.h>

#include <new>
#include <utility>

#include "device/call.h"
#include "schedule/hazards.h"

namespace yoke {

namespace {

std::shared_ptr<Device> present(std::shared_ptr<Device> device, const char* call) {
  if (device == nullptr) {
    throw Error(ErrorCode::kInvalidArgument, std::string(call) + ": the device is null");
  }
  return device;
}

// What a backend calls when it no longer uses imported memory.
struct Release {
  std::function<void()> function;
  std::weak_ptr<detail::RuntimeState> runtime;

  static void call(void* user) noexcept {
    const std::unique_ptr<Release> owned(static_cast<Release*>(user));
    if (!owned->function) {
      return;
    }
    try {
      owned->function();
    } catch (...) {
      if (const auto runtime = owned->runtime.lock()) {
        runtime->logger.log(LogLevel::kError,
                            "buffer.release_failed reason=\"ForeignMemory::release threw an exception\"");
      }
    }
  }
};

}  // namespace

Buffer::Buffer(std::shared_ptr<Device> device, std::uint64_t byte_count, std::int32_t kind)
    : device_(present(std::move(device), "Buffer")),
      byte_count_(byte_count),
      hazards_(std::make_unique<detail::Hazards>()) {
  const yoke_buffer_args args = {sizeof(args), 0, byte_count, kind, 0};
  detail::call<&yoke_backend_api::buffer_create>(*device_, device_->get(), &args, &handle_);
}

Buffer::Buffer(std::shared_ptr<Device> device, ForeignMemory memory)
    : device_(present(std::move(device), "Buffer::import")),
      byte_count_(memory.byte_count),
      import_address_(memory.address),
      hazards_(std::make_unique<detail::Hazards>()) {
  auto release = std::make_unique<Release>();
  release->function = std::move(memory.release);
  release->runtime = device_->backend()->state().runtime;
  yoke_import_args args{};
  args.struct_size = sizeof(args);
  args.address = memory.address;
  args.byte_count = memory.byte_count;
  args.kind = memory.kind;
  args.release = &Release::call;
  args.user = release.get();
  detail::call<&yoke_memory_api::buffer_import>(*device_, device_->get(), &args, &handle_);
  (void)release.release();  // NOLINT(bugprone-unused-return-value): args.release deletes it
}

std::shared_ptr<Buffer> Buffer::import(std::shared_ptr<Device> device, ForeignMemory memory) {
  // Allocates the shared state first, because nothing may fail after the backend has accepted `release`.
  const auto owner = std::make_shared<std::unique_ptr<Buffer>>();
  owner->reset(new Buffer(std::move(device), std::move(memory)));
  return {owner, owner->get()};
}

std::uint64_t Buffer::device_address() const {
  std::uint64_t address = 0;
  detail::call<&yoke_memory_api::buffer_device_address>(*device_, handle_, &address);
  return address;
}

Buffer::~Buffer() {
  const auto& state = device_->backend()->state();
  if (!hazards_->wait_all(state.runtime->options.wait_timeout)) {
    // Work still uses the memory, so leak it together with its device and the list that the work refers to.
    (void)new (std::nothrow) std::shared_ptr<Device>(device_);
    (void)hazards_.release();  // NOLINT(bugprone-unused-return-value)
    state.runtime->log_leak([&] {
      return "buffer.leak device=" + device_->name() + " bytes=" + std::to_string(byte_count_) +
             " reason=\"work that uses it is still pending after the wait timeout\"";
    });
    return;
  }
  detail::destroy<&yoke_backend_api::buffer_destroy>(state, handle_);
}

}  // namespace yoke
