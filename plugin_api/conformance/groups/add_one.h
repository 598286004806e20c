// SPDX-License-Identifier: Apache-2.0
// plugin_api/conformance/groups/add_one.h: y[i] = x[i] + 1, a
// program that every backend with programs can run.
#pragma once

#include <cstdint>
#include <string_view>

#include "kit.h"

namespace yoke::conformance {

inline constexpr std::uint32_t kAddCount = 256;
inline constexpr std::string_view kAddOne =
    "yoke.program 1\nprogram add_one() {\n  arg x : f32[256] in\n  arg y : f32[256] out\n  y[i] = x[i] + "
    "1\n}\n";

// The program linked to its own buffers. x starts with zeros.
struct AddOne {
  AddOne(Device& device, const Code& code)
      : plugin(device.plugin()),
        x(device, kAddCount * sizeof(float)),
        y(device, kAddCount * sizeof(float)),
        workspace(device, describe_entry(plugin, code).workspace_byte_count) {
    x.write(0, Bytes(x.byte_count()));
    const yoke_binding bindings[] = {binding(x), binding(y)};
    routine = link(plugin, code, 0, bindings, binding(workspace));
  }
  void launch() const { conformance::launch(plugin, routine); }

  const Plugin& plugin;
  Buffer x;
  Buffer y;
  Buffer workspace;
  Routine routine;
};

}  // namespace yoke::conformance
