// SPDX-License-Identifier: Apache-2.0
// runtime/runtime.cpp: the Runtime class, which puts loader, layers and devices together.
#include <yoke/runtime/device.h>
#include <yoke/runtime/runtime.h>

#include <string>
#include <utility>

#include "device/call.h"
#include "device/code_cache.h"
#include "device/fallback_ledger.h"
#include "loader/registry.h"

namespace yoke {
namespace detail {

RuntimeState::RuntimeState(RuntimeOptions given)
    : options(std::move(given)),
      logger(options.log_level, options.log_sink),
      registry(std::make_unique<loader::Registry>(options, logger)),
      codes(std::make_unique<CodeCache>()),
      fallbacks(std::make_unique<FallbackLedger>()) {}

// Backends keep this object alive, so every plugin has been released here.
RuntimeState::~RuntimeState() {
  report_layers();
}

void RuntimeState::keep() noexcept {
  is_kept_ = true;
  if (has_ended_) {
    report_layers();
  }
}

void RuntimeState::end() noexcept {
  has_ended_ = true;
  if (is_kept_) {
    report_layers();
  }
}

void RuntimeState::report_layers() noexcept {
  if (is_reported_.exchange(true)) {
    return;
  }
  try {
    if (const std::string line = layers == nullptr ? "" : layers::summary(*layers); !line.empty()) {
      logger.log(LogLevel::kInfo, line);
    }
  } catch (...) {  // out of memory: the line is dropped
  }
}

void RuntimeState::open_layers() {
  // Layers of a plugin that calls back after its destroy outlive this
  // object, so their sink holds a weak reference.
  const auto sink = [weak = weak_from_this()](LogLevel level, std::string_view line) {
    if (const auto state = weak.lock()) {
      state->logger.log(level, line);
    }
  };
  LayerOptions layer_options = options.layers;
  layer_options.strict = layer_options.strict || options.strict;
  layers = layers::open_session(layer_options, sink);
  host_.call_entry = [this](yoke_plugin_entry_fn entry, const yoke_entry_args* args, yoke_plugin** out_plugin,
                            yoke_error* error) {
    return layers::enter(layers, entry, args, out_plugin, error);
  };
}

void RuntimeState::add_stream(const std::shared_ptr<Stream>& stream) {
  const std::lock_guard lock(streams_mutex_);
  std::erase_if(streams_, [](const auto& known) { return known.expired(); });
  streams_.push_back(stream);
}

std::vector<std::shared_ptr<Stream>> RuntimeState::live_streams() {
  std::vector<std::shared_ptr<Stream>> streams;  // the last owner of a stream is outside of the lock
  const std::lock_guard lock(streams_mutex_);
  for (const std::weak_ptr<Stream>& known : streams_) {
    if (std::shared_ptr<Stream> stream = known.lock()) {
      streams.push_back(std::move(stream));
    }
  }
  return streams;
}

void RuntimeState::check_fallback() {
  const std::string& name = options.fallback_backend;
  if (name.empty() || name == RuntimeOptions().fallback_backend || fallback_is_known_.load()) {
    return;
  }
  registry->check_known(name, "RuntimeOptions::fallback_backend: ");
  fallback_is_known_.store(true);
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
    throw Error(ErrorCode::kInvalidArgument, "RuntimeOptions::wait_timeout is " +
                                                 std::to_string(options.wait_timeout.count()) +
                                                 " ns; set it above zero");
  }
  if (static_cast<bool>(options.allocate_host_memory) != static_cast<bool>(options.free_host_memory)) {
    throw Error(
        ErrorCode::kInvalidArgument,
        "RuntimeOptions sets only one of allocate_host_memory and free_host_memory; set both or neither");
  }
  state_ = std::make_shared<detail::RuntimeState>(std::move(options));
  end_ = std::make_shared<const detail::RuntimeEnd>(state_);
  state_->open_layers();
}

const std::shared_ptr<detail::RuntimeState>& Runtime::state() const {
  if (state_ == nullptr) {
    throw Error(ErrorCode::kFailedPrecondition, "the Runtime is empty, because it was moved from");
  }
  return state_;
}

const RuntimeOptions& Runtime::options() const {
  return state()->options;
}

std::vector<BackendCandidate> Runtime::list_backends() const {
  return state()->registry->list();
}

std::shared_ptr<Backend> Runtime::backend(std::string_view name) {
  return load(state(), name);
}

std::shared_ptr<Backend> Runtime::load(const std::shared_ptr<detail::RuntimeState>& state,
                                       std::string_view name) {
  return state->registry->get(name, state->host(), [&](loader::EnteredPlugin entered) {
    std::shared_ptr<Backend> backend(
        new Backend(std::make_unique<detail::BackendState>(state, std::move(entered))));
    if (state->logger.logs(LogLevel::kInfo)) {
      const auto* const plugin = backend->state().plugin.get();
      state->logger.log(LogLevel::kInfo, "plugin.load name=" + backend->name() +
                                             " abi=" + std::to_string(plugin->abi_major) + "." +
                                             std::to_string(plugin->abi_minor));
    }
    return backend;
  });
}

void Runtime::register_backend(std::string_view name, yoke_plugin_entry_fn entry) {
  state()->registry->add(name, entry);
}

std::vector<FallbackCount> Runtime::fallbacks() const {
  return state()->fallbacks->counts();
}

ValidationReport Runtime::validation() const {
  return state()->layers == nullptr ? ValidationReport() : layers::validation(*state()->layers);
}

void Runtime::log(LogLevel level, std::string_view line) const {
  state()->logger.log(level, line);
}
bool Runtime::logs(LogLevel level) const {
  return state()->logger.logs(level);
}

std::uint64_t compile_count(const Runtime& runtime) {
  return runtime.state()->compile_count;
}

}  // namespace yoke
