// SPDX-License-Identifier: Apache-2.0
// frontends/tensor/src/data/files.h: reads whole files, and writes files atomically.
#pragma once

#include <yoke/runtime/error.h>

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace yoke::detail {

// The error code for an errno of opening, reading or writing a file.
ErrorCode code_of_errno(int number);

// Returns the contents of a regular file. The Error names the file and the cause.
std::vector<std::byte> read_file(const std::filesystem::path& path);
// The text of a file in UTF-8, without a byte order mark. Error kDataLoss, with the line, for other bytes; also if its
// lines end with CR only.
std::string read_utf8(const std::filesystem::path& path);

// Removes a file, a link, or a folder with all that is in it. Returns 0 if the path no longer exists, otherwise an
// errno. Replaces std::filesystem::remove_all, which ends the process when out of memory.
int remove_tree(const std::filesystem::path& path) noexcept;

// Writes a temporary file in the target's folder. commit() renames it to the target; without commit(), the
// destructor deletes it. Every Error names the target, the cause and how to fix it.
class NewFile {
 public:
  explicit NewFile(const std::filesystem::path& target);
  ~NewFile();
  NewFile(const NewFile&) = delete;
  NewFile& operator=(const NewFile&) = delete;

  void write(std::span<const std::byte> bytes);
  void flush();  // writes to the disk; fails if the disk is full
  // Flushes the file, renames it, and flushes the folder, unless the caller flushes the folder after its last file.
  void commit(bool flushes_folder = true);

 private:
  [[noreturn]] void fail(int number) const;

  std::filesystem::path shown_;   // the target as given by the caller
  std::filesystem::path target_;  // the target with symbolic links resolved
  std::filesystem::path part_;    // the temporary file
  int descriptor_ = -1;
};

}  // namespace yoke::detail
