// SPDX-License-Identifier: Apache-2.0
// runtime/schedule/fallback_routine.cpp: copies arguments, launches, and
// copies results back, in one call on a worker thread.
#include "schedule/fallback_routine.h"

#include <algorithm>
#include <chrono>
#include <string>

#include "device/call.h"

namespace yoke::detail {

namespace {

// Returns the host address of a buffer, or null if the host cannot address it.
std::byte* host_address(const Buffer& buffer) {
  yoke_buffer_info info{};
  info.struct_size = sizeof(info);
  call<&yoke_backend_api::buffer_describe>(*buffer.device(), buffer.get(), &info);
  // NOLINTNEXTLINE(performance-no-int-to-ptr): the ABI gives it as a number
  return reinterpret_cast<std::byte*>(info.host_address);
}

// Replaces DEVICE_LOST, because the stream's own device is not lost.
std::int32_t without_device_lost(std::int32_t code, Status& status) {
  if (code != YOKE_STATUS_DEVICE_LOST) {
    return code;
  }
  const std::string text = "the fallback device was lost: " + std::string(status.text());
  status.set(YOKE_STATUS_UNAVAILABLE, status.vendor_code(), text);
  return YOKE_STATUS_UNAVAILABLE;
}

}  // namespace

FallbackRoutine::FallbackRoutine(const Code& code, std::uint32_t entry,
                                 const std::vector<BufferView>& bindings)
    : row_(code.device()->backend()->state().runtime->fallbacks->row(
          code.entries()[entry].name, code.device()->name(), code.fallback()->device()->name(),
          code.fallback_reason())),
      versions_(bindings.size()),
      copied_(bindings.size()) {
  const auto& device = code.fallback()->device();
  std::vector<BufferView> views;
  for (std::size_t i = 0; i < bindings.size(); ++i) {
    const ArgumentInfo& described = code.entries()[entry].arguments[i];
    Argument argument;
    argument.here = {bindings[i].buffer, bindings[i].offset, described.byte_count};
    argument.there = std::make_shared<Buffer>(device, described.byte_count);
    argument.host = host_address(*argument.there);
    if (argument.host == nullptr) {
      argument.owned = HostMemory({code.device(), device}, described.byte_count);
      argument.host = argument.owned.data();
    }
    argument.is_read = described.access != YOKE_ACCESS_OUT;
    argument.is_written = described.access != YOKE_ACCESS_IN;
    views.push_back({argument.there, 0, described.byte_count});
    arguments_.push_back(std::move(argument));
  }
  routine_ = Routine::link(code.fallback(), entry, std::move(views));
}

std::uint64_t FallbackRoutine::unchanged(const std::shared_ptr<StreamState>& lane) {
  constexpr std::size_t kBits = 64;
  std::uint64_t bits = 0;
  for (std::size_t i = 0; i < std::min(arguments_.size(), kBits); ++i) {
    if (lane == last_lane_ && versions_[i].before == copied_[i]) {
      bits |= std::uint64_t{1} << i;
    }
  }
  // After this launch, both devices have its results.
  for (std::size_t i = 0; i < arguments_.size(); ++i) {
    copied_[i] = versions_[i].after;
  }
  last_lane_ = lane;
  return bits;
}

std::int32_t FallbackRoutine::copy_there(Status& status, const Argument& argument,
                                         std::uint64_t* byte_count) const {
  const BufferView& here = argument.here;
  *byte_count += here.byte_count;
  const std::int32_t code = attempt<&yoke_backend_api::to_host>(
      here.buffer->device()->backend()->state(), status, static_cast<yoke_stream*>(nullptr),
      here.buffer->get(), here.offset, static_cast<void*>(argument.host), here.byte_count);
  if (code != YOKE_STATUS_OK || argument.owned.data() == nullptr) {
    return code;
  }
  *byte_count += here.byte_count;
  std::int32_t source = 0;
  return without_device_lost(attempt<&yoke_backend_api::from_host>(
                                 argument.there->device()->backend()->state(), status,
                                 static_cast<yoke_stream*>(nullptr), argument.there->get(), std::uint64_t{0},
                                 static_cast<const void*>(argument.host), here.byte_count, &source),
                             status);
}

std::int32_t FallbackRoutine::copy_back(Status& status, const Argument& argument,
                                        std::uint64_t* byte_count) const {
  const BufferView& here = argument.here;
  if (argument.owned.data() != nullptr) {
    *byte_count += here.byte_count;
    const std::int32_t code = without_device_lost(
        attempt<&yoke_backend_api::to_host>(
            argument.there->device()->backend()->state(), status, static_cast<yoke_stream*>(nullptr),
            argument.there->get(), std::uint64_t{0}, static_cast<void*>(argument.host), here.byte_count),
        status);
    if (code != YOKE_STATUS_OK) {
      return code;
    }
  }
  *byte_count += here.byte_count;
  std::int32_t source = 0;
  return attempt<&yoke_backend_api::from_host>(
      here.buffer->device()->backend()->state(), status, static_cast<yoke_stream*>(nullptr),
      here.buffer->get(), here.offset, static_cast<const void*>(argument.host), here.byte_count, &source);
}

std::int32_t FallbackRoutine::run(Status& status, const std::int64_t* symbol_values,
                                  std::uint32_t symbol_count, std::uint64_t unchanged) const {
  const auto begin = std::chrono::steady_clock::now();
  std::uint64_t byte_count = 0;
  for (std::size_t i = 0; i < arguments_.size(); ++i) {
    const bool is_there = i < 64 && ((unchanged >> i) & 1U) != 0;
    if (arguments_[i].is_read && !is_there) {
      if (const auto code = copy_there(status, arguments_[i], &byte_count); code != YOKE_STATUS_OK) {
        return code;
      }
    }
  }
  const std::int32_t code = without_device_lost(
      attempt<&yoke_program_api::routine_launch>(routine_->code().device()->backend()->state(), status,
                                                 static_cast<yoke_stream*>(nullptr), routine_->get(),
                                                 symbol_values, symbol_count),
      status);
  if (code != YOKE_STATUS_OK) {
    return code;
  }
  for (const Argument& argument : arguments_) {
    if (argument.is_written) {
      if (const auto copied = copy_back(status, argument, &byte_count); copied != YOKE_STATUS_OK) {
        return copied;
      }
    }
  }
  const std::chrono::nanoseconds spent = std::chrono::steady_clock::now() - begin;
  row_->launch_count.fetch_add(1);
  row_->byte_count.fetch_add(byte_count);
  row_->nanoseconds.fetch_add(spent.count());
  return YOKE_STATUS_OK;
}

}  // namespace yoke::detail
