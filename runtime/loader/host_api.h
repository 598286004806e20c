// SPDX-License-Identifier: Apache-2.0
// runtime/loader/host_api.h: the functions that a plugin may call: the
// host's log, status objects, memory and tables.
#pragma once

#include <yoke/plugin.h>
#include <yoke/runtime/runtime.h>

#include <functional>
#include <memory>
#include <string>

#include "loader/logger.h"

namespace yoke::loader {

// The parts of a runtime that its loader and plugins use. Both references must outlive the object.
struct Host {
  const RuntimeOptions& options;
  detail::Logger& logger;
  // Calls a plugin's entry. A runtime with layers puts them around the plugin here.
  std::function<std::int32_t(yoke_plugin_entry_fn, const yoke_entry_args*, yoke_plugin**, yoke_error*)>
      call_entry = [](auto entry, auto... args) { return entry(args...); };
};

// Detaches one plugin's table. Later calls through it are logged and refused.
struct DetachHost {
  void operator()(const yoke_host_api* table) const noexcept;
};
using AttachedHost = std::unique_ptr<const yoke_host_api, DetachHost>;

// Returns the table for the plugin called `name`, which keeps `host` alive until it is detached. The table's
// memory is never freed, so a plugin that calls the host after its `destroy` returned does not crash.
AttachedHost attach_host(const std::shared_ptr<const Host>& host, const std::string& name);

}  // namespace yoke::loader
