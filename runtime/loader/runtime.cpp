// SPDX-License-Identifier: Apache-2.0
// runtime/loader/runtime.cpp: the Runtime class: options checked, then everything is the registry's.
#include <yoke/runtime/device.h>
#include <yoke/runtime/runtime.h>

#include <utility>

#include "device/call.h"
#include "device/code_cache.h"
#include "loader/registry.h"

namespace yoke {
namespace detail {

RuntimeState::RuntimeState(RuntimeOptions given)
    : options(std::move(given)),
      logger(options.log_level, options.log_sink),
      registry(std::make_unique<loader::Registry>(options, logger)),
      codes(std::make_unique<CodeCache>()) {}
RuntimeState::~RuntimeState() = default;

}  // namespace detail

Runtime::Runtime(RuntimeOptions options) {
  if (options.wait_timeout <= std::chrono::nanoseconds::zero()) {
    throw Error(
        ErrorCode::kInvalidArgument,
        "RuntimeOptions::wait_timeout is not positive: every wait needs a deadline; give one above zero");
  }
  state_ = std::make_shared<detail::RuntimeState>(std::move(options));
}

const RuntimeOptions& Runtime::options() const {
  return state_->options;
}

std::vector<BackendCandidate> Runtime::list_backends() const {
  return state_->registry->list();
}

std::shared_ptr<Backend> Runtime::backend(std::string_view name) {
  return state_->registry->get(name, state_, [&](std::unique_ptr<detail::BackendState> entered) {
    const std::shared_ptr<Backend> backend(new Backend(std::move(entered)));
    if (state_->logger.logs(LogLevel::kInfo)) {
      const auto& plugin = *backend->state().plugin;
      detail::Status status;
      std::uint32_t devices = 0;
      detail::attempt<&yoke_backend_api::device_count>(backend->state(), status, backend->state().plugin,
                                                       &devices);
      state_->logger.log(LogLevel::kInfo,
                         "plugin.load name=" + backend->name() + " abi=" + std::to_string(plugin.abi_major) +
                             "." + std::to_string(plugin.abi_minor) + " devices=" + std::to_string(devices));
    }
    return backend;
  });
}

void Runtime::register_backend(std::string_view name, yoke_plugin_entry_fn entry) {
  state_->registry->add(name, entry);
}

void Runtime::log(LogLevel level, std::string_view line) const {
  state_->logger.log(level, line);
}
bool Runtime::logs(LogLevel level) const {
  return state_->logger.logs(level);
}

std::uint64_t compile_count(const Runtime& runtime) {
  return runtime.state_->compile_count;
}

}  // namespace yoke
