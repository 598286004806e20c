// SPDX-License-Identifier: Apache-2.0
// tests/unit/schedule/fallback_rig.h: a device whose programs run on another backend.
#pragma once

#include <string>
#include <utility>

#include "rig.h"

namespace yoke::test {

// A rig whose "test0" cannot run programs; "test1" runs them instead.
struct FallbackRig : Rig {
  FallbackRig() : FallbackRig(without_programs()) {}
  explicit FallbackRig(std::shared_ptr<Control> of_device, std::shared_ptr<Control> of_fallback = nullptr,
                       RuntimeOptions options = {})
      : Rig(std::move(of_device), with_fallback(std::move(options))),
        fallback_control(register_backend(runtime, 1, std::move(of_fallback))) {}

  static std::shared_ptr<Control> without_programs(Streams streams = Streams::kWorker) {
    auto control = Rig::make_control(streams);
    control->provides.programs = false;
    return control;
  }
  static RuntimeOptions with_fallback(RuntimeOptions options) {
    if (options.fallback_backend == "cc") {
      options.fallback_backend = "test1";
    }
    return options;
  }

  std::shared_ptr<Control> fallback_control;
};

inline const std::string kAddTo = R"(yoke.program 1
program add_to(symbol factor in 0..10) {
  arg a : i32[256] in
  arg b : i32[256] in
  arg c : i32[256] inout
  c[i] = c[i] + a[i] * i32(factor) + b[i]
}
)";

// The three arguments of kAddTo.
inline std::vector<BufferView> arguments(const std::shared_ptr<Device>& device) {
  std::vector<BufferView> buffers;
  for (int i = 0; i < 3; ++i) {
    buffers.push_back(buffer_of<std::int32_t>(device, 256));
  }
  return buffers;
}
inline std::vector<BufferView> ones(Stream& stream) {
  std::vector<BufferView> buffers = arguments(stream.device());
  for (const BufferView& buffer : buffers) {
    fill<std::int32_t>(stream, buffer, 1);
  }
  stream.wait(30s);
  return buffers;
}

inline void launch(Stream& stream, const Routine& routine, std::int64_t factor = 1) {
  stream.launch(routine, {&factor, 1});
}

}  // namespace yoke::test
