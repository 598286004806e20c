// SPDX-License-Identifier: Apache-2.0
// runtime/loader/search.cpp: the search order of rule 30 in
// plugin_api/RULES.md, without the working directory.
#include "loader/search.h"

#include <dlfcn.h>
#include <yoke/runtime/error.h>

#include <algorithm>
#include <cstdlib>
#include <system_error>

#include "loader/memory_reader.h"
#include "loader/permissions.h"

namespace yoke::loader {
namespace {

constexpr std::string_view kPrefix = "libyoke_backend_";
constexpr std::string_view kSuffix = ".so";

// Reports a folder that cannot be searched now. It is searched if it appears later.
void check_folder(const std::string& entry, const char* list, SearchPath& path) {
  std::error_code failed;
  const auto status = std::filesystem::status(entry, failed);
  const std::string name = std::string(list) + " entry '" + printable(entry) + "'";
  if (status.type() == std::filesystem::file_type::not_found) {
    path.ignored.push_back({entry, {name + " does not exist", "create the folder, or remove the entry"}});
  } else if (status.type() == std::filesystem::file_type::none) {
    path.ignored.push_back(
        {entry, {name + " cannot be read (" + failed.message() + ")", "check its permissions"}});
  } else if (status.type() != std::filesystem::file_type::directory) {
    path.ignored.push_back({entry, {name + " is not a folder", "use the folder that contains the plugin"}});
  }
}

void add_plugin_path(SearchPath& path) {
  const std::string value = environment("YOKE_PLUGIN_PATH");
  if (value.empty()) {
    return;
  }
  std::string_view rest = value;
  while (true) {
    const auto colon = rest.find(':');
    const std::string_view entry = rest.substr(0, colon);
    if (entry.empty()) {
      path.ignored.push_back({{},
                              {"YOKE_PLUGIN_PATH has an empty entry, which is ignored",
                               "remove the extra ':' (an empty entry is not the working directory)"}});
    } else if (entry.front() != '/') {
      path.ignored.push_back(
          {entry,
           {"YOKE_PLUGIN_PATH's entry '" + printable(entry) + "' is not absolute and is ignored",
            "use an absolute path"}});
    } else {
      path.after.push_back({std::filesystem::path(entry), "YOKE_PLUGIN_PATH"});
      check_folder(std::string(entry), "YOKE_PLUGIN_PATH's", path);
    }
    if (colon == std::string_view::npos) {
      return;
    }
    rest.remove_prefix(colon + 1);
  }
}

void add_user_folder(SearchPath& path) {
  std::filesystem::path data = environment("XDG_DATA_HOME");
  if (!data.empty() && !data.is_absolute()) {
    path.ignored.push_back(
        {data,
         {"XDG_DATA_HOME is '" + printable(data.string()) + "', which is not absolute, and is ignored",
          "use an absolute path"}});
    data.clear();
  }
  if (data.empty()) {
    const std::filesystem::path home = environment("HOME");
    if (!home.is_absolute()) {
      return;
    }
    data = home / ".local" / "share";
  }
  path.after.push_back({data / "yoke" / "plugins", "the user's folder"});
}

}  // namespace

bool is_backend_name(std::string_view name) {
  const auto lower = [](char c) { return c >= 'a' && c <= 'z'; };
  const auto digit = [](char c) { return c >= '0' && c <= '9'; };
  return !name.empty() && name.size() <= 64 && lower(name.front()) &&
         std::all_of(name.begin(), name.end(), [&](char c) { return lower(c) || digit(c) || c == '_'; });
}

std::string file_name(std::string_view name) {
  return std::string(kPrefix).append(name).append(kSuffix);
}

std::optional<std::string> name_part(const std::filesystem::path& file) {
  const std::string text = file.filename().string();
  if (text.size() <= kPrefix.size() + kSuffix.size() || !text.starts_with(kPrefix) ||
      !text.ends_with(kSuffix)) {
    return std::nullopt;
  }
  return text.substr(kPrefix.size(), text.size() - kPrefix.size() - kSuffix.size());
}

std::string environment(const char* name) {
  const char* value = ::secure_getenv(name);  // NOLINT(concurrency-mt-unsafe): when a runtime is created
  return value == nullptr ? std::string() : std::string(value);
}

SearchPath search_path(const RuntimeOptions& options) {
  SearchPath path;
  for (const auto& folder : options.plugin_dirs) {
    if (!folder.is_absolute()) {
      throw Error(ErrorCode::kInvalidArgument, "RuntimeOptions::plugin_dirs: '" + folder.string() +
                                                   "' is not absolute; use std::filesystem::absolute");
    }
    path.first.push_back({folder, "plugin_dirs"});
    check_folder(folder.string(), "plugin_dirs'", path);
  }
  if (options.search_environment && starts_secure()) {
    path.ignored.push_back(
        {{},
         {"this process runs with more privileges than its user (AT_SECURE), so YOKE_PLUGIN_PATH, the user's "
          "plugin folder and every other variable that names a file are ignored",
          "install the plugin, or pass its folder in plugin_dirs"}});
  } else if (options.search_environment) {
    add_plugin_path(path);
    add_user_folder(path);
  }
  if (auto installed = install_folder(); !installed.empty()) {
    path.after.push_back({std::move(installed), "the install folder"});
  }
  return path;
}

std::filesystem::path install_folder() {
  Dl_info info{};
  if (dladdr(reinterpret_cast<const void*>(&install_folder), &info) == 0 || info.dli_fname == nullptr) {
    return {};
  }
  std::error_code failed;
  const auto self = std::filesystem::canonical(info.dli_fname, failed);
  return failed ? std::filesystem::path() : self.parent_path() / "yoke";
}

}  // namespace yoke::loader
