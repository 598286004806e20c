// SPDX-License-Identifier: Apache-2.0
// tests/fake_gpu/api/context.h: what a function of the driver requires before it does anything.
#pragma once

#include "functions.h"
#include "stream.h"

namespace fake_gpu {

// Throws unless the driver is initialized and the call is allowed on this thread.
void require_driver(const char* call);
// The device of the current context. Throws its sticky error.
int current_device(const char* call);
// Whether a context is current. HIP otherwise uses its first device.
bool has_context();
void require_context();
// The device of a primary context.
int device_of_context(void* context);
// The most shared memory that a block may have, if the function asks for it.
int most_shared_bytes(int device);
void throw_sticky(int device);

std::shared_ptr<Stream> stream_of(void* handle);

// A function that uses the current device, which it gets as its argument.
template <class Body>
int run_on_device(const char* name, const Body& body) {
  const int code = run(name, [&] { body(current_device(name)); });
  if (is_sticky(code)) {  // injected, or already known
    try {
      device_at(current_device(name)).error = code;
    } catch (const Error&) {
      return code;
    }
  }
  return code;
}

// A function that frees something. It does so also if the device is lost or the failure is injected, so that
// a leak is reported only where the caller did not free.
template <class Body>
int run_to_free(const char* name, const Body& body) {
  const int code = run_on_device(name, [&](int) { refuse_during_capture(name); });
  if (code == kInvalidContext || code == kNotInitialized || code == kNotPermitted ||
      code == kCaptureUnsupported) {
    return code;
  }
  const int freed = run("", body);
  return code != 0 ? code : freed;
}

}  // namespace fake_gpu
