// SPDX-License-Identifier: Apache-2.0
// tests/conformance/groups/scenario.h: a little of everything, any call of which may be refused.
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "kit.h"

namespace yoke::conformance {

// Opens a device, works with it through each tier that the plugin has, and closes it. `prepare` is called
// with the opened device. Gives back the first call that was refused; the rest is then left out. Everything
// is destroyed either way; closing must succeed.
std::optional<Answer> play_scenario(Kit& kit, const Plugin& plugin,
                                    const std::function<void(yoke_device*)>& prepare = {});

// Fails where something is alive.
void check_nothing_alive(const Plugin& plugin, const std::string& when);

}  // namespace yoke::conformance
