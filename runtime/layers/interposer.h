// SPDX-License-Identifier: Apache-2.0
// runtime/layers/interposer.h: stands between a host and one plugin. The host sees a plugin whose tables hold
// generated wrappers; the plugin sees a host. Every call passes the hooks of the layers.
#pragma once

#include <unistd.h>
#include <yoke/runtime/log.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "layers/layer.h"

namespace yoke::layers {

struct Session;

// Never freed: hosts may use handles, and plugins may call back, long after destroy.
class Interposer final {
 public:
  // Calls the plugin's entry and sets *out_plugin to the wrapped plugin. A plugin without a valid prefix is
  // returned unchanged, for the host to refuse.
  static std::int32_t enter(const Session& session, yoke_plugin_entry_fn entry, const yoke_entry_args* args,
                            yoke_plugin** out_plugin, yoke_error* error);
  const void* get_table(const char* id);
  // Rethrows exceptions of the plugin.
  void destroy();

  // Takes no lock. Returns null if `shown` is unknown.
  static Interposer* find(const yoke_plugin* shown) noexcept;

  const std::string& backend() const noexcept { return backend_; }
  const std::string& version() const noexcept { return version_; }  // empty: unknown
  yoke_plugin* inner() const noexcept { return inner_; }
  const yoke_host_api& outer_host() const noexcept { return outer_; }
  bool is_destroyed() const noexcept { return destroyed_.load(); }
  // The plugin's own function, or null.
  Slot slot(Function function) const noexcept { return slots_[static_cast<std::size_t>(function)]; }
  std::uint64_t next_handle_number() noexcept { return handle_count_.fetch_add(1) + 1; }
  // After the first device_count, device_describe or device_open, a forked child may only exec. The child has
  // one thread, and locks that other threads held at the fork stay locked, so it must not wait for a lock.
  void set_started() noexcept { starter_ = any_starter_ = ::getpid(); }
  bool is_forked_child() const noexcept { return is_other_process(starter_); }
  static bool is_any_forked_child() noexcept { return is_other_process(any_starter_); }

  // Calls a hook of every layer, from the host to the plugin.
  template <class Hook, class... Arguments>
  void each(Hook hook, Arguments&&... arguments) const {
    for (const auto& layer : layers_) {
      std::invoke(hook, *layer, arguments...);
    }
  }
  // Returns whether the hook returned true for every layer; stops at the first false.
  template <class Hook, class... Arguments>
  bool all(Hook hook, Arguments&&... arguments) const {
    return std::all_of(layers_.begin(), layers_.end(),
                       [&](const auto& layer) { return std::invoke(hook, *layer, arguments...); });
  }
  // A table of the plugin or of the host that the layers do not know; NULL under strict. Calls through it are
  // neither checked nor recorded.
  const void* pass_through(const char* id, const void* table);
  // From the plugin to the host.
  void after(Call& call) const {
    std::for_each(layers_.rbegin(), layers_.rend(), [&](const auto& layer) { layer->after(call); });
  }

 private:
  Interposer() = default;
  static bool is_other_process(int process) noexcept { return process != 0 && process != ::getpid(); }
  yoke_plugin* adopt(yoke_plugin* inner);
  void report_exception(const char* call) const noexcept;

  std::vector<std::unique_ptr<Layer>> layers_;
  Interposer* next_ = nullptr;
  LogSink sink_;
  bool strict_ = false;
  yoke_plugin prefix_{};   // what the host sees
  yoke_host_api host_{};   // what the plugin sees
  yoke_host_api outer_{};  // the host's own
  yoke_plugin* inner_ = nullptr;
  std::string backend_ = "?";
  std::string version_;
  std::atomic<bool> destroyed_{false};
  std::atomic<std::uint64_t> handle_count_{0};
  std::atomic<int> starter_{0};  // the process that started the driver; 0: none
  static inline std::atomic<int> any_starter_{0};
  std::array<Slot, abi::kFunctionCount> slots_{};
  std::mutex tables_mutex_;
  std::map<const char*, std::vector<std::byte>> tables_;  // guarded by tables_mutex_
  std::mutex pass_through_mutex_;                         // a plugin may call the host's get_table in its own
  std::set<std::string> passed_through_;                  // guarded by pass_through_mutex_
};

// The host table for the plugin: every function that `outer` offers in its first `known` bytes.
yoke_host_api make_host(Interposer& plugin, const yoke_host_api& outer, std::uint64_t known);
// The plugin that is calling a host function on this thread, or null.
const Interposer* calling_back() noexcept;

constexpr const char* kForked =
    "this process was forked after the backend had been started; it may only exec";

}  // namespace yoke::layers
