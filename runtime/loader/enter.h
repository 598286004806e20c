// SPDX-License-Identifier: Apache-2.0
// runtime/loader/enter.h: enters a plugin, negotiates the ABI version and copies its tables; releases it.
#pragma once

#include <yoke/plugin.h>

#include <functional>
#include <memory>

#include "loader/entered_plugin.h"
#include "loader/file_check.h"
#include "loader/host_api.h"
#include "loader/plugin_options.h"

namespace yoke::loader {

// Called before each stage of probe_protocol.h, starting with the entry. May be empty.
using OnStage = std::function<void(const char* stage)>;

// Enters the plugin that should be called `plugin.name` and fills in `plugin`. On a refusal `plugin.plugin`
// is null: the plugin was destroyed if its prefix is valid.
Refusal enter(const std::shared_ptr<const Host>& host, yoke_plugin_entry_fn entry,
              const PluginOptions& options, EnteredPlugin& plugin, const OnStage& on_stage = {});

// Destroys the plugin, if it is entered, and detaches its host. A non-empty result reports what failed.
Refusal release(EnteredPlugin& plugin);

}  // namespace yoke::loader
