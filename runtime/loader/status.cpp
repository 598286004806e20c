// SPDX-License-Identifier: Apache-2.0
// runtime/loader/status.cpp: stores a plugin's error text without allocating, and turns codes into Errors.
#include "loader/status.h"

#include <algorithm>
#include <cstring>
#include <string>

namespace yoke::detail {

void Status::set(std::int32_t code, std::int64_t vendor_code, std::string_view text) noexcept {
  code_ = code;
  vendor_code_ = vendor_code;
  length_ = std::min<std::uint64_t>(text.size(), kTextCapacity);
  // Do not cut inside a UTF-8 character: bytes 10xxxxxx continue one.
  while (length_ > 0 && length_ < text.size() &&
         (static_cast<unsigned char>(text[length_]) & 0xC0U) == 0x80U) {
    --length_;
  }
  if (length_ > 0) {
    std::memcpy(text_, text.data(), length_);
  }
}

ErrorCode code_of(std::int32_t number) noexcept {
  return number >= YOKE_STATUS_OK && number <= YOKE_STATUS_OUT_OF_DEVICE_MEMORY
             ? static_cast<ErrorCode>(number)
             : ErrorCode::kUnknown;
}

Error make_error(std::string_view where, std::string_view call, std::int32_t code, const Status& status) {
  std::string sentence;
  sentence.append(where).append(": ").append(call).append(": ");
  sentence.append(status.text().empty() ? std::string_view("the plugin gave no reason") : status.text());
  sentence.append(" (").append(code_name(code_of(code)));
  if (code_of(code) == ErrorCode::kUnknown && code != YOKE_STATUS_UNKNOWN) {
    sentence.append(" code ").append(std::to_string(code));
  }
  if (status.vendor_code() != 0) {
    sentence.append(", vendor code ").append(std::to_string(status.vendor_code()));
  }
  sentence.append(")");
  return {code_of(code), sentence};
}

void error_set(yoke_error* error, std::int32_t code, std::int64_t vendor_code, const char* text,
               std::uint64_t length) noexcept {
  if (error != nullptr) {
    Status::from(error)->set(code, vendor_code,
                             text == nullptr ? std::string_view() : std::string_view(text, length));
  }
}

}  // namespace yoke::detail
