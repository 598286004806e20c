// SPDX-License-Identifier: Apache-2.0
// runtime/loader/library.h: maps a plugin's file into the process, for good, and finds its entry.
#pragma once

#include <yoke/plugin.h>

#include <filesystem>

#include "loader/file_check.h"

namespace yoke::loader {

struct Library {
  yoke_plugin_entry_fn entry = nullptr;  // null: refused
  Refusal refusal;                       // the linker's own text where it has one
  bool mapped = false;                   // it is in the process, whatever came after
};

// `path` is canonical and was admitted. What is mapped stays mapped (abi.md rule 35): its code may still be
// on somebody's stack.
//
// The linker opens the file once more, by its path: through /proc/self/fd it would be the admitted one for
// sure, but then debuggers, $ORIGIN and messages know it by that name only. So the path is held against what
// was admitted right before, and what was mapped right after, before its entry is called. Between the two, in
// microseconds, a swap gets as far as its constructors; whoever can do that may write its folder: root and
// this user, and without an allow-list whom a warning of check_rights named.
Library open_library(const std::filesystem::path& path, const Admission& admitted);

}  // namespace yoke::loader
