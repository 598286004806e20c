// SPDX-License-Identifier: Apache-2.0
// tests/unit/schedule/fallback_rig.h: a device whose programs run on another backend.
#pragma once

#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "rig.h"

namespace yoke::test {

// "test0" runs no programs; "test1" runs them for it.
struct FallbackRig {
  FallbackRig() : FallbackRig(without_programs()) {}
  explicit FallbackRig(std::shared_ptr<Control> of_device,
                       std::shared_ptr<Control> of_fallback = std::make_shared<Control>(),
                       RuntimeOptions options = {})
      : runtime(with_defaults(std::move(options))) {
    device_control = register_backend(runtime, 0, std::move(of_device));
    fallback_control = register_backend(runtime, 1, std::move(of_fallback));
    device = runtime.backend("test0")->open_device(0);
  }

  static std::shared_ptr<Control> without_programs(Streams streams = Streams::kWorker) {
    auto control = Rig::make_control(streams);
    control->has_programs = false;
    return control;
  }
  RuntimeOptions with_defaults(RuntimeOptions options) {
    options = Rig::with_defaults(std::move(options));
    options.log_level = LogLevel::kWarn;
    options.log_sink = [this](LogLevel, std::string_view line) {
      const std::lock_guard lock(mutex);
      lines.emplace_back(line);
    };
    if (options.fallback_backend == "cc") {
      options.fallback_backend = "test1";
    }
    return options;
  }

  std::mutex mutex;
  std::vector<std::string> lines;  // of the log
  Runtime runtime;
  std::shared_ptr<Control> device_control, fallback_control;
  std::shared_ptr<Device> device;
};

inline const std::string kAddTo = R"(yoke.program 1
program add_to(symbol factor in 0..10) {
  arg a : i32[256] in
  arg b : i32[256] in
  arg c : i32[256] inout
  c[i] = c[i] + a[i] * i32(factor) + b[i]
}
)";

}  // namespace yoke::test
