// SPDX-License-Identifier: Apache-2.0
// runtime/loader/enter.h: enters a plugin, negotiates the version, and copies its tables; and releases it.
#pragma once

#include <yoke/plugin.h>

#include "device/state.h"
#include "loader/file_check.h"

namespace yoke::loader {

// `state.name` is the name that was asked for. On success the plugin and its tables are in `state`; on a
// refusal the plugin was released as far as its prefix can be trusted, and `state.plugin` stays null.
Refusal enter(detail::BackendState& state, yoke_plugin_entry_fn entry);

// Destroys the entered plugin, if any.
void release(detail::BackendState& state) noexcept;

}  // namespace yoke::loader
