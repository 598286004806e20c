// SPDX-License-Identifier: Apache-2.0
// runtime/loader/allow_list.h: the sha256 of every file that may load, as sha256sum prints them.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "loader/file_check.h"

namespace yoke::loader {

class AllowList {
 public:
  // Throws Error kInvalidArgument: it cannot be read, anybody but root and this user may write it, or a line
  // is none; the line is named.
  static AllowList read(const std::filesystem::path& path);

  // `file` is resolved, `descriptor` open on it.
  Refusal check(const File& file, int descriptor) const;

 private:
  struct Entry {
    std::string sum;             // 64 lower-case hex digits
    std::filesystem::path name;  // canonical, or a file name alone: the file's, or that of a link to it
  };
  std::filesystem::path path_;
  std::vector<Entry> entries_;
};

// In hex; empty: it cannot be read.
std::string sha256_of(int descriptor);

}  // namespace yoke::loader
