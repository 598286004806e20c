// SPDX-License-Identifier: Apache-2.0
// runtime/device/state.h: the state of runtimes and backends, for
// yoke's own sources. To call a plugin, see call.h.
#pragma once

#include <yoke/runtime/runtime.h>

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "loader/entered_plugin.h"
#include "loader/host_api.h"
#include "loader/logger.h"

namespace yoke::loader {
class Registry;
}
namespace yoke::layers {
struct Session;
}

namespace yoke {
class Stream;
}

namespace yoke::detail {

class CodeCache;
class FallbackLedger;
class LinkCache;
class WorkerPool;

// The state of one Runtime. Backends keep it alive, and so do all objects made from them.
struct RuntimeState : std::enable_shared_from_this<RuntimeState> {
  explicit RuntimeState(RuntimeOptions given);
  ~RuntimeState();
  RuntimeState(const RuntimeState&) = delete;
  RuntimeState& operator=(const RuntimeState&) = delete;

  // Opens the layers that the options name. Plugins entered later are wrapped in them.
  void open_layers();
  // The loader's and the plugins' view of the runtime; shares ownership of this object.
  std::shared_ptr<const loader::Host> host() { return {shared_from_this(), &host_}; }

  const RuntimeOptions options;
  Logger logger;
  std::shared_ptr<layers::Session> layers;           // null: no layer is enabled
  const std::unique_ptr<loader::Registry> registry;  // thread-safe
  const std::unique_ptr<CodeCache> codes;            // thread-safe
  std::atomic<std::uint64_t> compile_count{0};
  const std::unique_ptr<FallbackLedger> fallbacks;  // thread-safe
  std::atomic<std::uint64_t> device_count{0};       // opened so far
  std::atomic<std::uint64_t> stream_count{0};       // created so far

  // Logs that an object which shares ownership of this one is leaked, because work or the plugin may still use it.
  template <class Compose>
  void log_leak(const Compose& compose) noexcept {
    logger.log_composed(LogLevel::kError, compose);
    keep();
  }
  // The last copy of the Runtime ends. After a leak this object may never be destroyed, so the layers report here.
  void end() noexcept;

  void add_stream(const std::shared_ptr<Stream>& stream);
  std::vector<std::shared_ptr<Stream>> live_streams();  // in order of creation

  // Created at the first use (parallel/link_figures.h).
  std::once_flag links_once;
  std::shared_ptr<LinkCache> links;

  // The threads that run the streams' commands; the streams own them (schedule/worker_pool.h).
  std::mutex workers_mutex;
  std::weak_ptr<WorkerPool> workers;

  // The first device of options.fallback_backend: opened on demand, closed with its last user.
  std::shared_ptr<Device> fallback_device();
  // Throws Error kNotFound if options.fallback_backend names no candidate. The default may be missing: an
  // application that installs no `cc` may never need it.
  void check_fallback();

 private:
  void keep() noexcept;
  void report_layers() noexcept;  // once

  std::atomic<bool> is_kept_{false};
  std::atomic<bool> has_ended_{false};
  std::atomic<bool> is_reported_{false};
  loader::Host host_{options, logger};
  std::mutex fallback_mutex_;
  std::atomic<bool> fallback_is_known_{false};
  std::weak_ptr<Device> fallback_device_;  // weak: a device keeps this object alive
  std::mutex streams_mutex_;
  std::vector<std::weak_ptr<Stream>> streams_;
};

// Shared by the copies of a Runtime.
struct RuntimeEnd {
  explicit RuntimeEnd(std::shared_ptr<RuntimeState> of) : state(std::move(of)) {}
  ~RuntimeEnd() { state->end(); }
  RuntimeEnd(const RuntimeEnd&) = delete;
  RuntimeEnd& operator=(const RuntimeEnd&) = delete;

  const std::shared_ptr<RuntimeState> state;
};

// The state of one Backend: the plugin that it drives.
class CollectiveGroup;

struct BackendState : loader::EnteredPlugin {
  BackendState(std::shared_ptr<RuntimeState> owner, loader::EnteredPlugin entered)
      : EnteredPlugin(std::move(entered)), runtime(std::move(owner)) {}
  ~BackendState() = default;
  BackendState(const BackendState&) = delete;
  BackendState& operator=(const BackendState&) = delete;

  const std::shared_ptr<RuntimeState> runtime;
  // Devices whose device_close failed: the plugin still holds them and must not be destroyed.
  std::atomic<std::uint32_t> unclosed_devices{0};
  // Copies of extension tables by id and size, each in words of 8 bytes.
  std::mutex extensions_mutex;
  std::map<std::pair<std::string, std::size_t>, std::vector<std::uint64_t>> extensions;
  // The groups that use the backend's collectives. Waits of all its streams poll them.
  mutable std::mutex groups_mutex;
  mutable std::vector<std::weak_ptr<CollectiveGroup>> groups;
  mutable std::atomic<bool> has_groups{false};
};

}  // namespace yoke::detail
