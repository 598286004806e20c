// SPDX-License-Identifier: Apache-2.0
// runtime/loader/file_check.h: is a file fit to be opened as a plugin? Answered by reading it, never by
// loading it.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

namespace yoke::loader {

// Why a file was refused and what would help; both empty: it was not.
struct Refusal {
  std::string reason;
  std::string mend;
  explicit operator bool() const { return !reason.empty(); }
};

// A file as it lies on disk, after all symbolic links.
struct File {
  std::filesystem::path path;  // canonical; as given when it cannot be resolved
  std::uint64_t device = 0;    // with `inode`: who it is, whatever it is called
  std::uint64_t inode = 0;
  Refusal refusal;
};

// Resolves symbolic links; refuses what is no regular file.
File resolve(const std::filesystem::path& path);

// May this (resolved) file be loaded into the process at all? The one gate that every plugin file passes
// before it is opened.
Refusal admit(const File& file);

}  // namespace yoke::loader
