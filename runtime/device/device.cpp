// SPDX-License-Identifier: Apache-2.0
// runtime/device/device.cpp: opens, describes and closes a device.
#include <yoke/runtime/device.h>

#include <algorithm>
#include <utility>

#include "device/call.h"
#include "device/native_handle.h"
#include "device/options.h"
#include "device/profile.h"

namespace yoke {

std::uint32_t suggested_stream_count(const DeviceInfo& info, StreamUse use) {
  const std::uint32_t most = std::max(info.suggested_stream_count, 1U);
  switch (use) {
    case StreamUse::kOnlyDevicesParallel:
      return 1;
    case StreamUse::kForParallelCopying:
      return std::min(most, info.kind == YOKE_DEVICE_CPU ? 1U : 2U);
    case StreamUse::kMostParallelStreams:
      return most;
  }
  throw Error(ErrorCode::kInvalidArgument,
              "suggested_stream_count: " + std::to_string(static_cast<int>(use)) +
                  " is not a StreamUse; choose one of its enumerators");
}

Device::Device(std::shared_ptr<Backend> backend, std::uint32_t ordinal, std::span<const Option> options)
    : backend_(std::move(backend)),
      ordinal_(ordinal),
      id_(backend_->state().runtime->device_count.fetch_add(1)),
      name_(backend_->name() + ":" + std::to_string(ordinal)) {
  info_ = backend_->device_info(ordinal);
  const auto specs = options.empty() ? std::vector<OptionSpec>() : backend_->option_specs();
  const auto checked = detail::check_options(name_, options, specs);
  yoke_device_args args{};
  args.struct_size = sizeof(args);
  args.options = checked.data();
  args.option_count = static_cast<std::uint32_t>(checked.size());
  args.option_stride = sizeof(yoke_option);
  args.ordinal = ordinal_;
  detail::call<&yoke_backend_api::device_open>(*this, backend_->state().plugin.get(), &args, &handle_);
  profile_ = detail::WorkProfile::start(*this);
}

Device::~Device() {
  if (profile_ != nullptr) {
    profile_->fetch();
  }
  auto& state = backend_->state();
  detail::Status status;
  const auto code = detail::attempt<&yoke_backend_api::device_close>(state, status, handle_);
  if (code != YOKE_STATUS_OK) {
    ++state.unclosed_devices;
    state.runtime->logger.log_composed(LogLevel::kError, [&] {
      return "device.leak device=" + name_ + " reason=\"" +
             detail::make_error(name_, "device_close", code, status).what() + "\"";
    });
  }
}

yoke_memory_info Device::memory() const {
  yoke_memory_info info{};
  info.struct_size = sizeof(info);
  detail::call<&yoke_backend_api::device_memory>(*this, handle_, &info);
  return info;
}

bool Device::can_access(const Device& other) const {
  if (is_same(other)) {
    return true;
  }
  if (backend_ != other.backend_ || !backend_->state().has_peer) {
    return false;
  }
  std::int32_t allowed = 0;
  detail::call<&yoke_peer_api::peer_access>(*this, handle_, other.handle_, &allowed);
  return allowed != 0;
}

NativeHandle Device::native() const {
  yoke_native_info info{};
  info.struct_size = sizeof(info);
  detail::call<&yoke_memory_api::device_native>(*this, handle_, &info);
  return detail::to_native_handle(info);
}

}  // namespace yoke
