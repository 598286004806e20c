// SPDX-License-Identifier: Apache-2.0
// runtime/device/host_api.h: what the host offers to a plugin: its log and its status objects.
#pragma once

#include <yoke/plugin.h>

#include "device/state.h"

namespace yoke::detail {

// The table for one backend: its lines in the log carry the backend's name. `state` must stay where it is.
yoke_host_api make_host_api(BackendState& state) noexcept;

}  // namespace yoke::detail
