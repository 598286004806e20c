// SPDX-License-Identifier: Apache-2.0
// runtime/loader/search.h: the folders to search and the file names that count. No file is opened here.
#pragma once

#include <yoke/runtime/runtime.h>

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "loader/file_check.h"

namespace yoke::loader {

// The valid form of a backend name, for messages. Such a name needs no quoting in file names and messages.
constexpr std::string_view kNameForm = "[a-z][a-z0-9_]*, at most 64 characters";
bool is_backend_name(std::string_view name);
// libyoke_backend_<name>.so
std::string file_name(std::string_view name);
// The part between "libyoke_backend_" and ".so", valid or not. Empty if the file name has another form.
std::optional<std::string> name_part(const std::filesystem::path& file);

struct Folder {
  std::filesystem::path path;
  std::string origin;  // "plugin_dirs", "YOKE_PLUGIN_PATH", ...
};

// An entry of an environment variable that is not searched, or cannot be searched now.
struct Ignored {
  std::filesystem::path entry;  // as written; may be empty
  Refusal refusal;
  std::string sentence() const { return refusal.reason + ": " + refusal.fix; }
};

// Folders in search order. Read once, when the runtime is created: a later setenv has no effect.
struct SearchPath {
  std::vector<Folder> first;  // plugin_dirs; before the registered plugins
  std::vector<Folder> after;  // YOKE_PLUGIN_PATH, the user's folder, the install folder
  std::vector<Ignored> ignored;
};

// The value of an environment variable. Empty if it is not set, or if starts_secure().
std::string environment(const char* name);

// Throws Error kInvalidArgument for an entry of plugin_dirs that is not absolute.
SearchPath search_path(const RuntimeOptions& options);

// The folder yoke/ beside libyoke: <prefix>/lib/yoke when installed, build/lib/yoke in a build tree.
std::filesystem::path install_folder();

}  // namespace yoke::loader
