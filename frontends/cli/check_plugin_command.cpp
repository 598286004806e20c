// SPDX-License-Identifier: Apache-2.0
// frontends/cli/check_plugin_command.cpp: yoke check-plugin: executes the
// conformance kit, which is installed beside this command.
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <iostream>
#include <stdexcept>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

#include "global_options.h"
#include "subcommands.h"

namespace yoke::cli {
namespace {

// The backend of a plugin's file by its name, "cc" for libyoke_backend_cc.so; empty for other words.
std::string backend_of(const std::string& word) {
  constexpr std::string_view kStart = "libyoke_backend_";
  constexpr std::string_view kEnd = ".so";
  const std::string file = std::filesystem::path(word).filename().string();
  if (word.starts_with('-') || !file.starts_with(kStart) || !file.ends_with(kEnd)) {
    return {};
  }
  return file.substr(kStart.size(), file.size() - kStart.size() - kEnd.size());
}

[[noreturn]] void refuse(const std::string& backend, const std::string& option, const std::string& why) {
  throw UsageError("--plugin-option " + backend + "." + option + why);
}

// The kit's options for the global --plugin-option BACKEND.NAME=VALUE. The kit gives them to every file.
std::vector<std::string> kit_options(Arguments arguments) {
  std::vector<std::string> words;
  for (const auto& [backend, options] : plugin_options()) {
    bool is_checked = false;
    for (const std::string& word : arguments) {
      const std::string other = backend_of(word);
      is_checked = is_checked || other == backend;
      if (!other.empty() && other != backend) {
        refuse(backend, options.front(),
               std::string(" is not for ")
                   .append(word)
                   .append("; check the plugins of different backends one at a time"));
      }
    }
    if (!is_checked) {
      refuse(backend, options.front(),
             std::string(": no file is named libyoke_backend_")
                 .append(backend)
                 .append(".so; write --plugin-option NAME=VALUE after check-plugin for other names"));
    }
    for (const std::string& option : options) {
      words.insert(words.end(), {"--plugin-option", option});
    }
  }
  return words;
}

// Turns --plugin-option BACKEND.NAME=VALUE into the kit's --plugin-option NAME=VALUE.
void drop_backends(std::vector<std::string>& words) {
  const std::string option = "--plugin-option";
  for (std::size_t i = 0; i < words.size(); ++i) {
    const bool has_sign = words[i].starts_with(option + "=");
    const std::size_t begin = has_sign ? option.size() + 1 : 0;
    const std::string backend = words[i].substr(begin, words[i].find('.') - begin);
    if ((has_sign || (i > 0 && words[i - 1] == option)) &&
        std::any_of(words.begin(), words.end(),
                    [&](const auto& word) { return backend_of(word) == backend; })) {
      words[i].erase(begin, backend.size() + 1);
    }
  }
}

}  // namespace

int check_plugin_command(Arguments arguments) {
  if (arguments.empty()) {
    throw UsageError(
        "the plugin's file is missing: yoke check-plugin FILE... [OPTION...]; --help lists the options");
  }
  const std::filesystem::path self = std::filesystem::read_symlink("/proc/self/exe");
  const std::filesystem::path kit = self.parent_path() / "yoke-conformance";
  std::vector<std::string> all(arguments.begin(), arguments.end());
  drop_backends(all);
  const std::vector<std::string> added = kit_options(arguments);
  all.insert(all.end(), added.begin(), added.end());
  std::vector<char*> words = {
      const_cast<char*>("yoke check-plugin")};  // the kit's messages name the command so
  for (const std::string& argument : all) {
    words.push_back(const_cast<char*>(argument.c_str()));
  }
  words.push_back(nullptr);
  std::cout.flush();
  ::execv(kit.c_str(), words.data());
  throw std::runtime_error("cannot start the conformance kit " + kit.string() + ": " +
                           std::generic_category().message(errno) +
                           "; it is installed with this command, and ./quickstart build builds it");
}

}  // namespace yoke::cli
