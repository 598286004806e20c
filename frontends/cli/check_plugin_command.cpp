// SPDX-License-Identifier: Apache-2.0
// frontends/cli/check_plugin_command.cpp: yoke check-plugin: executes the
// conformance kit, which is installed beside this command.
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <iostream>
#include <stdexcept>
#include <system_error>
#include <vector>

#include "subcommands.h"

namespace yoke::cli {

int check_plugin_command(Arguments arguments) {
  if (arguments.empty()) {
    throw UsageError(
        "the plugin's file is missing: yoke check-plugin FILE... [OPTION...]; --help lists the options");
  }
  const std::filesystem::path self = std::filesystem::read_symlink("/proc/self/exe");
  const std::filesystem::path kit = self.parent_path() / "yoke-conformance";
  std::vector<char*> words = {const_cast<char*>("yoke-conformance")};
  for (const std::string& argument : arguments) {
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
