// SPDX-License-Identifier: Apache-2.0
// runtime/loader/enter.h: enters a plugin, negotiates the version, and copies its tables; and releases it.
#pragma once

#include <yoke/plugin.h>

#include <functional>

#include "device/state.h"
#include "loader/file_check.h"

namespace yoke::loader {

// `state.name` is the name that was asked for. On success the plugin and its tables are in `state`; on a
// refusal the plugin was released as far as its prefix can be trusted, and `state.plugin` stays null.
// `on_stage` (may be empty) is called before each stage of probe_protocol.h begins, the entry's first.
using OnStage = std::function<void(const char* stage)>;
Refusal enter(detail::BackendState& state, yoke_plugin_entry_fn entry, const OnStage& on_stage = {});

// Destroys the entered plugin, if any. What is given back is no refusal any more, but what went wrong.
Refusal release(detail::BackendState& state);

}  // namespace yoke::loader
