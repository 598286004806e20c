// SPDX-License-Identifier: Apache-2.0
// tests/fake_gpu/engine/vendor.h: which driver this copy of the engine imitates, and its error numbers.
#pragma once

#include <cstddef>

#if defined(__SANITIZE_ADDRESS__)
#define FAKE_GPU_ASAN 1
#elif defined(__SANITIZE_THREAD__)
#define FAKE_GPU_TSAN 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define FAKE_GPU_ASAN 1
#elif __has_feature(thread_sanitizer)
#define FAKE_GPU_TSAN 1
#endif
#endif

namespace fake_gpu {

#ifdef FAKE_GPU_HIP
inline constexpr bool kHip = true;
#define FAKE_GPU_NAME(cuda, hip) hip
#else
inline constexpr bool kHip = false;
#define FAKE_GPU_NAME(cuda, hip) cuda
#endif

using Address = unsigned long long;
// ncclUniqueId
struct CommId {
  char bytes[128];
};

// Error numbers that the CUDA driver and the HIP runtime share.
enum Code : int {
  kInvalidValue = 1,
  kOutOfMemory = 2,
  kNotInitialized = 3,
  kNoDevice = 100,
  kInvalidDevice = 101,
  kInvalidImage = 200,
  kInvalidContext = 201,
  kNoBinaryForGpu = 209,
  kInvalidHandle = 400,
  kNotFound = 500,
  kNotReady = 600,
  kIllegalAddress = 700,
  kLaunchOutOfResources = 701,
  kPeerAccessEnabled = 704,
  kPeerAccessNotEnabled = 705,
  kHostMemoryRegistered = 712,
  kHostMemoryNotRegistered = 713,
  kLaunchFailed = 719,
  kNotPermitted = 800,
  kNotSupported = 801,
  kCaptureUnsupported = 900,
  kCaptureInvalidated = 901,
  kCaptureUnmatched = 903,
  kCaptureWrongThread = 908,
};

// Thrown inside the engine; the functions of the API return its code.
struct Error {
  int code;
};

// Errors that a device keeps: every later call that uses the device returns them.
constexpr bool is_sticky(int code) {
  return code == 214 || code == 220 || code == kIllegalAddress || code == 702 || code == 710 ||
         (code >= 714 && code <= kLaunchFailed);
}

}  // namespace fake_gpu
