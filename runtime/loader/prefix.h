// SPDX-License-Identifier: Apache-2.0
// runtime/loader/prefix.h: a plugin's prefix, copied and checked before it is used.
#pragma once

#include <yoke/plugin.h>

#include <string>

#include "loader/file_check.h"
#include "loader/memory_reader.h"

namespace yoke::loader {

// Copies of the prefix and of its texts, which are cut at fixed lengths.
struct Prefix {
  yoke_plugin raw{};
  std::string version;
  std::string vendor;
};

// Copies and checks the parts of the prefix that all ABI versions share. On a refusal the caller must not
// call any function of the plugin, `destroy` included.
Refusal read_prefix(const MemoryReader& memory, const yoke_plugin* plugin, yoke_plugin& out);

// Checks version, sanitizer, kind and name (`requested`) and reads
// the texts. A registered plugin has no file. Precondition: read_prefix succeeded.
Refusal check_prefix(const MemoryReader& memory, const yoke_entry_args& served, const std::string& requested,
                     bool has_file, Prefix& prefix);

}  // namespace yoke::loader
