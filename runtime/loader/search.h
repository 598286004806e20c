// SPDX-License-Identifier: Apache-2.0
// runtime/loader/search.h: where plugins are looked for, by file name alone. Nothing is opened here.
#pragma once

#include <yoke/runtime/runtime.h>

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "loader/file_check.h"

namespace yoke::loader {

// [a-z][a-z0-9_]{0,63}: what may stand in a file name and in a message without any quoting.
bool is_backend_name(std::string_view name);
// libyoke_backend_<name>.so
std::string file_name(std::string_view name);
// The part between prefix and suffix, whatever it is; nothing when the file's name has another form.
std::optional<std::string> name_part(const std::filesystem::path& file);

// A folder to look in, and why it is one ("plugin_dirs", "YOKE_PLUGIN_PATH", ...).
struct Folder {
  std::filesystem::path path;
  std::string origin;
};

// What a variable names and is not searched.
struct Ignored {
  std::filesystem::path entry;  // as it was written; may be empty
  Refusal refusal;
  std::string sentence() const { return refusal.reason + ": " + refusal.mend; }
};

// Folders in the order of search. Read once, when the runtime is made: two runtimes may differ, and a later
// setenv changes nothing.
struct SearchPath {
  std::vector<Folder> first;  // plugin_dirs; before the registered plugins
  std::vector<Folder> after;  // YOKE_PLUGIN_PATH, the user's folder, the install folder
  std::vector<Ignored> ignored;
};

// A variable that may choose a file; empty where it is not set, and in a process that starts_secure.
std::string environment(const char* name);

// Throws Error kInvalidArgument for an entry of plugin_dirs that is not absolute.
SearchPath search_path(const RuntimeOptions& options);

// The folder of libyoke itself, followed by yoke: <prefix>/lib/yoke when installed, build/lib/yoke in a build
// tree.
std::filesystem::path install_folder();

}  // namespace yoke::loader
