// SPDX-License-Identifier: Apache-2.0
// runtime/loader/allow_list.h: the files that may be loaded, by their sha256.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "loader/file_check.h"

namespace yoke::loader {

class AllowList {
 public:
  // Reads lines as sha256sum prints them. Throws Error kInvalidArgument if the list cannot be read, another
  // user may write it, or a line is invalid.
  static AllowList read(const std::filesystem::path& path);

  // Precondition: `descriptor` is open on `file`, which was resolved.
  Refusal check(const File& file, int descriptor) const;

 private:
  struct Entry {
    std::string sum;             // 64 lower-case hex digits
    std::filesystem::path name;  // canonical, or the file name of a plugin or of a link to it
  };
  std::filesystem::path path_;
  std::vector<Entry> entries_;
};

// Returns the sum in hex, or nothing if the file cannot be read.
std::string sha256_of(int descriptor);

}  // namespace yoke::loader
