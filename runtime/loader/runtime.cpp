// SPDX-License-Identifier: Apache-2.0
// runtime/loader/runtime.cpp: the Runtime class: options checked, then everything is the registry's.
#include <yoke/runtime/device.h>
#include <yoke/runtime/runtime.h>

#include <string>
#include <utility>

#include "device/call.h"
#include "device/code_cache.h"
#include "device/fallback_ledger.h"
#include "layers/session.h"
#include "loader/registry.h"

namespace yoke {
namespace detail {

RuntimeState::RuntimeState(RuntimeOptions given)
    : options(std::move(given)),
      logger(options.log_level, options.log_sink),
      registry(std::make_unique<loader::Registry>(options, logger)),
      codes(std::make_unique<CodeCache>()),
      fallbacks(std::make_unique<FallbackLedger>()) {}

// Backends keep this object alive: every plugin has had its last call.
RuntimeState::~RuntimeState() {
  if (layers != nullptr && layers->validates()) {
    const ValidationReport report = layers->ledger()->validation();
    logger.log(LogLevel::kInfo, "layer.off name=validate violations=" + std::to_string(report.violations) +
                                    " warnings=" + std::to_string(report.warnings));
  }
}

std::shared_ptr<Device> RuntimeState::fallback_device() {
  const std::lock_guard lock(fallback_mutex_);
  auto device = fallback_device_.lock();
  if (device == nullptr) {
    device = Runtime::load(shared_from_this(), options.fallback_backend)->open_device(0);
    fallback_device_ = device;
  }
  return device;
}

}  // namespace detail

Runtime::Runtime(RuntimeOptions options) {
  if (options.wait_timeout <= std::chrono::nanoseconds::zero()) {
    throw Error(
        ErrorCode::kInvalidArgument,
        "RuntimeOptions::wait_timeout is not positive: every wait needs a deadline; give one above zero");
  }
  if (static_cast<bool>(options.allocate_host_memory) != static_cast<bool>(options.free_host_memory)) {
    throw Error(
        ErrorCode::kInvalidArgument,
        "RuntimeOptions has only one of allocate_host_memory and free_host_memory: memory that one side "
        "gives the other cannot free; set both, or neither");
  }
  state_ = std::make_shared<detail::RuntimeState>(std::move(options));
  // Layers may outlive the runtime's state, with a plugin that calls back too late.
  state_->layers = layers::open_session(
      state_->options.layers,
      [weak = std::weak_ptr<detail::RuntimeState>(state_)](LogLevel level, std::string_view line) {
        if (const auto state = weak.lock()) {
          state->logger.log(level, line);
        }
      });
}

const RuntimeOptions& Runtime::options() const {
  return state_->options;
}

std::vector<BackendCandidate> Runtime::list_backends() const {
  return state_->registry->list();
}

std::shared_ptr<Backend> Runtime::backend(std::string_view name) {
  return load(state_, name);
}

std::shared_ptr<Backend> Runtime::load(const std::shared_ptr<detail::RuntimeState>& state,
                                       std::string_view name) {
  return state->registry->get(name, state, [&](std::unique_ptr<detail::BackendState> entered) {
    std::shared_ptr<Backend> backend(new Backend(std::move(entered)));
    if (state->logger.logs(LogLevel::kInfo)) {
      const auto& plugin = *backend->state().plugin;
      detail::Status status;
      std::uint32_t devices = 0;
      detail::attempt<&yoke_backend_api::device_count>(backend->state(), status, backend->state().plugin,
                                                       &devices);
      state->logger.log(LogLevel::kInfo,
                        "plugin.load name=" + backend->name() + " abi=" + std::to_string(plugin.abi_major) +
                            "." + std::to_string(plugin.abi_minor) + " devices=" + std::to_string(devices));
    }
    return backend;
  });
}

void Runtime::register_backend(std::string_view name, yoke_plugin_entry_fn entry) {
  state_->registry->add(name, entry);
}

std::vector<FallbackCount> Runtime::fallbacks() const {
  return state_->fallbacks->counts();
}

ValidationReport Runtime::validation() const {
  return state_->layers == nullptr ? ValidationReport() : layers::validation(*state_->layers);
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
