// SPDX-License-Identifier: Apache-2.0
// plugin_api/sdk/include/yoke/sdk/failure.h: the exception that the SDK converts to a status code and a text.
#pragma once

#include <yoke/plugin.h>

#include <cstdint>
#include <exception>
#include <string>
#include <utility>

namespace yoke::sdk {

// `code` is one of YOKE_STATUS_*, never YOKE_STATUS_OK. `text` is one sentence: what failed, where, why, and
// how to fix it. `vendor_code` is the driver's error number or 0.
class Failure : public std::exception {
 public:
  Failure(std::int32_t code, std::string text, std::int64_t vendor_code = 0)
      : code_(code), vendor_code_(vendor_code), text_(std::move(text)) {}

  std::int32_t code() const noexcept { return code_; }
  std::int64_t vendor_code() const noexcept { return vendor_code_; }
  const std::string& text() const noexcept { return text_; }
  const char* what() const noexcept override { return text_.c_str(); }

 private:
  std::int32_t code_;
  std::int64_t vendor_code_;
  std::string text_;
};

}  // namespace yoke::sdk
