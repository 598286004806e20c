// SPDX-License-Identifier: Apache-2.0
// runtime/loader/prefix.h: what a plugin says of itself, copied and checked before any of it is believed.
#pragma once

#include <yoke/plugin.h>

#include <string>

#include "loader/file_check.h"
#include "loader/memory_reader.h"

namespace yoke::loader {

// A copy of the prefix, and of its texts within bounds.
struct Prefix {
  yoke_plugin raw{};
  std::string name;
  std::string version;
  std::string vendor;
};

// Is there a prefix that we understand? Only then may anything of the plugin be called, `destroy` included.
Refusal read_prefix(const MemoryReader& memory, const yoke_plugin* plugin, yoke_plugin& out);

// Does it fit this host, and is it what was asked for? Fills the texts.
Refusal check_prefix(const MemoryReader& memory, const yoke_entry_args& served, const std::string& asked,
                     Prefix& prefix);

}  // namespace yoke::loader
