// SPDX-License-Identifier: Apache-2.0
// runtime/loader/library.h: maps a plugin's file into the process and finds its entry.
#pragma once

#include <yoke/plugin.h>

#include <filesystem>

#include "loader/file_check.h"

namespace yoke::loader {

struct Library {
  yoke_plugin_entry_fn entry = nullptr;  // null: refused
  Refusal refusal;                       // includes the linker's error message, if any
  bool mapped = false;                   // may be true for a refused file
};

// Maps the file at `path`, permanently (rule 35): a thread may still run its code after the plugin was
// destroyed. Precondition: `path` is canonical, and `admitted` is the result of its check.
//
// The linker opens the file again by its path. (It would accept /proc/self/fd, but then debuggers,
// $ORIGIN and messages see only that name.) So the path is compared with `admitted` right before,
// and the mapped bytes right after, before the entry is called. A file that is swapped in the
// microseconds between runs its constructors; only users who may write its folder can do that:
// root, this user, and those that check_rights warned about.
Library open_library(const std::filesystem::path& path, const Admission& admitted);

}  // namespace yoke::loader
