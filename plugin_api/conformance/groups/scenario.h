// SPDX-License-Identifier: Apache-2.0
// plugin_api/conformance/groups/scenario.h: a sequence of calls that uses every tier of a plugin.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>

#include "kit.h"

namespace yoke::conformance {

// Uses every tier that the plugin has.
void use_everything(Device& device);

// Opens a device, uses everything, and closes the device. `prepare` is called with the open device. Returns
// the first call that failed; the calls after it are skipped. Destroys every object in either case.
// device_close must succeed.
std::optional<Answer> play_scenario(Kit& kit, Plugin& plugin,
                                    const std::function<void(yoke_device*)>& prepare = {});

// Makes the same calls on the device of --device if `plugin` has it, and destroys the plugin.
void use_and_leave(Kit& kit, Plugin& plugin);

}  // namespace yoke::conformance
