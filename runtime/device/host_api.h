// SPDX-License-Identifier: Apache-2.0
// runtime/device/host_api.h: what the host offers to a plugin: its log, its status objects and its memory.
#pragma once

#include <yoke/plugin.h>

#include "device/state.h"

namespace yoke::detail {

// The table for one backend: its lines in the log carry the backend's name. It stays for good, so that a
// plugin that calls back after its `destroy` has returned is answered (and logged), not a crash.
const yoke_host_api* attach_host(const BackendState& state);
// From now on calls are late. `table` may be null.
void detach_host(const yoke_host_api* table) noexcept;

}  // namespace yoke::detail
