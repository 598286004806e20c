// SPDX-License-Identifier: Apache-2.0
// runtime/include/yoke/runtime/error.h: the exception that yoke throws: a code and a sentence.
#pragma once

#include <cstdint>
#include <stdexcept>
#include <string>

namespace yoke {

// YOKE_STATUS_* of plugin.h, with the same numbers.
enum class ErrorCode : std::int32_t {
  kOk = 0,
  kCancelled,
  kUnknown,
  kInvalidArgument,
  kDeadlineExceeded,
  kNotFound,
  kAlreadyExists,
  kPermissionDenied,
  kResourceExhausted,
  kFailedPrecondition,
  kAborted,
  kOutOfRange,
  kUnimplemented,
  kInternal,
  kUnavailable,
  kDataLoss,
  kDeviceLost,
  kOutOfDeviceMemory
};

// "INVALID_ARGUMENT"; "UNKNOWN" for an unknown number.
inline const char* code_name(ErrorCode code) {
  constexpr const char* kNames[] = {"OK",
                                    "CANCELLED",
                                    "UNKNOWN",
                                    "INVALID_ARGUMENT",
                                    "DEADLINE_EXCEEDED",
                                    "NOT_FOUND",
                                    "ALREADY_EXISTS",
                                    "PERMISSION_DENIED",
                                    "RESOURCE_EXHAUSTED",
                                    "FAILED_PRECONDITION",
                                    "ABORTED",
                                    "OUT_OF_RANGE",
                                    "UNIMPLEMENTED",
                                    "INTERNAL",
                                    "UNAVAILABLE",
                                    "DATA_LOSS",
                                    "DEVICE_LOST",
                                    "OUT_OF_DEVICE_MEMORY"};
  const auto number = static_cast<std::int32_t>(code);
  return number >= 0 && number < 18 ? kNames[number] : kNames[2];
}

// what() is one sentence that names the device, the call, the cause and the fix where they apply.
class Error : public std::runtime_error {
 public:
  Error(ErrorCode code, const std::string& sentence) : std::runtime_error(sentence), code_(code) {}
  ErrorCode code() const { return code_; }

 private:
  ErrorCode code_;
};

}  // namespace yoke
