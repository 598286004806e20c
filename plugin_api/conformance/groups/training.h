// SPDX-License-Identifier: Apache-2.0
// plugin_api/conformance/groups/training.h: the plugin under test in a runtime of libyoke, for training runs.
#pragma once

#include <yoke/data_parallel.h>
#include <yoke/yoke.h>

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "kit.h"
#include "program/run/random_programs.h"

namespace yoke::conformance {

inline std::vector<Option> typed_options(const Backend& backend, const Settings& settings) {
  std::vector<std::string> texts;
  for (const auto& [name, value] : settings.options) {
    texts.push_back(name);
    texts.back() += "=";
    texts.back() += value;
  }
  return texts.empty() ? std::vector<Option>() : backend.parse_options(texts);
}

// A runtime with this plugin registered under its backend name, and with the fallback backend.
class TrainingRuntime {
 public:
  explicit TrainingRuntime(Kit& kit) : kit_(kit) {
    const std::string name = kit.plugin().name();
    kit.plugin().some_devices();
    yoke_device_info info = sized<yoke_device_info>();
    expect_ok(kit.plugin().device_describe(0, &info), "describing device 0");
    if ((info.type_mask >> YOKE_TYPE_F32 & 1U) == 0) {
      unsupported("the device does not compute with f32");
    }
    RuntimeOptions options;
    options.search_environment = false;
    options.log_sink = [](LogLevel, std::string_view) {};  // check_fallbacks reports the reasons
    runtime_ = std::make_shared<Runtime>(options);
    runtime_->register_backend(name, kit.library().entry());
    backend_ = runtime_->backend(name);
    device_options_ = typed_options(*backend_, kit.settings());
  }

  DataParallelOptions options(std::int64_t shards, float rate) const {
    DataParallelOptions made;
    made.runtime = runtime_;
    made.backend_name = backend_->name();
    made.shards = shards;
    made.learning_rate = rate;
    made.device_options = device_options_;
    return made;
  }
  const std::shared_ptr<Runtime>& runtime() const { return runtime_; }
  std::shared_ptr<yoke::Device> device() const { return backend_->open_device(0, device_options_); }

  // A plugin that runs every statement must run all programs itself. For a plugin without
  // programs the runtime must count its fallbacks.
  void check_fallbacks() {
    std::uint64_t launches = 0;
    const bool complete = backend_->has_programs() && runs_everything(kit_.device());
    for (const FallbackCount& count : runtime_->fallbacks()) {
      check(!complete, "the plugin runs every statement, but '", count.routine, "' ran on ", count.to, ": ",
            count.reason);
      check(!count.reason.empty(), "'", count.routine, "' ran on ", count.to, " for no reason");
      launches += count.launch_count;
    }
    check(backend_->has_programs() || launches > 0,
          "the plugin has no programs, but the runtime counted no launch on another backend");
    kit_.note(launches == 0 ? "no fallback" : text(launches, " launches ran on the fallback backend"));
  }

 private:
  Kit& kit_;
  std::shared_ptr<Runtime> runtime_;
  std::shared_ptr<Backend> backend_;
  std::vector<Option> device_options_;
};

}  // namespace yoke::conformance
