// SPDX-License-Identifier: Apache-2.0
// runtime/loader/status.h: the host's status object, which plugins see as yoke_error.
#pragma once

#include <yoke/plugin.h>
#include <yoke/runtime/error.h>

#include <cstdint>
#include <string_view>

namespace yoke::detail {

// Lives on the caller's stack. Creating one costs three stores: the
// text stays uninitialized until a call fails.
class Status {
 public:
  static constexpr std::uint64_t kTextCapacity = 4000;  // long enough for compilers' messages

  Status() noexcept {}  // NOLINT(modernize-use-equals-default): the text stays uninitialized on purpose
  Status(const Status&) = delete;
  Status& operator=(const Status&) = delete;
  ~Status() = default;

  // The argument for a plugin, to which the type is opaque.
  yoke_error* get() noexcept { return reinterpret_cast<yoke_error*>(this); }
  static Status* from(yoke_error* error) noexcept { return reinterpret_cast<Status*>(error); }

  void set(std::int32_t code, std::int64_t vendor_code, std::string_view text) noexcept;
  void clear() noexcept {
    code_ = YOKE_STATUS_OK;
    vendor_code_ = 0;
    length_ = 0;
  }

  std::int32_t code() const noexcept { return code_; }
  std::int64_t vendor_code() const noexcept { return vendor_code_; }
  std::string_view text() const noexcept { return {text_, length_}; }

 private:
  std::int32_t code_ = YOKE_STATUS_OK;
  std::int64_t vendor_code_ = 0;
  std::uint64_t length_ = 0;
  char text_[kTextCapacity];
};

// Converts a plugin's code. Unknown numbers become kUnknown.
ErrorCode code_of(std::int32_t number) noexcept;

// "cc:0: buffer_create: <the plugin's text> (OUT_OF_DEVICE_MEMORY)".
Error make_error(std::string_view where, std::string_view call, std::int32_t code, const Status& status);

// yoke_host_api::error_set.
void error_set(yoke_error* error, std::int32_t code, std::int64_t vendor_code, const char* text,
               std::uint64_t length) noexcept;

}  // namespace yoke::detail
