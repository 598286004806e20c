// SPDX-License-Identifier: Apache-2.0
// runtime/loader/library.h: maps a plugin's file into the process, for good, and finds its entry.
#pragma once

#include <yoke/plugin.h>

#include <filesystem>
#include <string>

namespace yoke::loader {

struct Library {
  yoke_plugin_entry_fn entry = nullptr;  // null: refused
  std::string reason;                    // why it was refused: the linker's own text where it has one
  std::string mend;
  bool mapped = false;  // it is in the process, whatever came after
};

// `path` is canonical. What is mapped stays mapped (abi.md rule 35): its code may still be on somebody's
// stack.
Library open_library(const std::filesystem::path& path);

}  // namespace yoke::loader
