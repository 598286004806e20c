// SPDX-License-Identifier: Apache-2.0
// runtime/device/state.h: what runtimes and backends own. For yoke's own sources; call.h is how they call a
// plugin.
#pragma once

#include <yoke/backend.h>
#include <yoke/ext/peer.h>
#include <yoke/runtime/runtime.h>

#include <atomic>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <mutex>
#include <string>
#include <type_traits>

#include "device/logger.h"

namespace yoke::loader {
class Registry;
}
namespace yoke::layers {
class Session;
}

namespace yoke::detail {

class CodeCache;
class FallbackLedger;

// Everything of one Runtime. Backends keep it alive, and so do all objects made from them.
struct RuntimeState : std::enable_shared_from_this<RuntimeState> {
  explicit RuntimeState(RuntimeOptions given);
  ~RuntimeState();
  RuntimeState(const RuntimeState&) = delete;
  RuntimeState& operator=(const RuntimeState&) = delete;

  const RuntimeOptions options;
  Logger logger;
  std::shared_ptr<layers::Session> layers;           // null: none is asked for
  const std::unique_ptr<loader::Registry> registry;  // locks for itself
  const std::unique_ptr<CodeCache> codes;            // locks for itself
  std::atomic<std::uint64_t> compile_count{0};
  const std::unique_ptr<FallbackLedger> fallbacks;  // locks for itself

  // The first device of options.fallback_backend, opened on demand and shared while anybody uses it.
  std::shared_ptr<Device> fallback_device();

 private:
  std::mutex fallback_mutex_;
  std::weak_ptr<Device> fallback_device_;  // weak: a device keeps this object alive
};

// Everything of one entered plugin.
struct BackendState {
  explicit BackendState(std::shared_ptr<RuntimeState> owner) : runtime(std::move(owner)) {}
  BackendState(const BackendState&) = delete;
  BackendState& operator=(const BackendState&) = delete;
  ~BackendState() = default;

  // The table that holds functions of that type: complete, as loader/tables.h fills it.
  template <class Table>
  const Table& table() const noexcept {
    if constexpr (std::is_same_v<Table, yoke_backend_api>) {
      return backend;
    } else if constexpr (std::is_same_v<Table, yoke_stream_api>) {
      return stream;
    } else if constexpr (std::is_same_v<Table, yoke_program_api>) {
      return program;
    } else {
      static_assert(std::is_same_v<Table, yoke_peer_api>, "no such table");
      return peer;
    }
  }

  const std::shared_ptr<RuntimeState> runtime;
  std::string name;
  std::string version;
  std::string vendor;
  std::filesystem::path path;  // empty: registered

  const yoke_host_api* host = nullptr;  // host_api.h; outlives this object
  yoke_plugin* plugin = nullptr;
  void (*destroy)(yoke_plugin* plugin) = nullptr;  // the prefix's, as it was when it was checked
  // Copies, as large as this host knows them. No slot of a table that the plugin has is NULL: what it lacks
  // is a stub that answers YOKE_UNIMPLEMENTED. A table that it lacks is all stubs.
  yoke_backend_api backend{};
  yoke_stream_api stream{};
  yoke_program_api program{};
  yoke_peer_api peer{};
  bool has_streams = false;
  bool has_programs = false;
  bool has_peer = false;
  // Devices whose device_close failed: the plugin still holds them, so it must not be destroyed under them.
  std::atomic<std::uint32_t> unclosed_devices{0};
};

}  // namespace yoke::detail
