// SPDX-License-Identifier: Apache-2.0
// runtime/include/yoke/runtime/folder.h: lists the names in a folder.
#pragma once

#include <dirent.h>

#include <cerrno>
#include <filesystem>
#include <memory>
#include <new>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

namespace yoke::detail {

// The names in a folder, in any order. If it cannot be read, `failed` has the reason and the names read so far are
// returned; otherwise `failed` is cleared. Throws std::bad_alloc when out of memory;
// std::filesystem::directory_iterator would end the process.
inline std::vector<std::string> names_in(const std::filesystem::path& folder, std::error_code& failed) {
  std::vector<std::string> names;
  const std::unique_ptr<DIR, int (*)(DIR*)> open(::opendir(folder.c_str()), ::closedir);
  int number = open ? 0 : errno;
  while (open) {
    errno = 0;
    const dirent* const entry = ::readdir(open.get());
    if (entry == nullptr) {
      number = errno;
      break;
    }
    const std::string_view name = entry->d_name;
    if (name != "." && name != "..") {
      names.emplace_back(name);
    }
  }
  if (number == ENOMEM) {
    throw std::bad_alloc();
  }
  failed.assign(number, std::generic_category());
  return names;
}
// As above; ignores why a folder cannot be read.
inline std::vector<std::string> names_in(const std::filesystem::path& folder) {
  std::error_code ignored;
  return names_in(folder, ignored);
}

}  // namespace yoke::detail
