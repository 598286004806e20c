// SPDX-License-Identifier: Apache-2.0
// runtime/loader/file_check.h: checks whether a file may be opened as a plugin, without loading it.
#pragma once

#include <sys/stat.h>

#include <cstdint>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

namespace yoke::loader {

// Why a plugin was refused, and how to fix it. Both are empty if it was not refused.
struct Refusal {
  std::string reason;
  std::string fix;
  explicit operator bool() const { return !reason.empty(); }
};

// Identity and state of a file. Two equal stamps mean that the contents are equal.
struct Stamp {
  std::uint64_t device = 0;  // identifies the file together with `inode`
  std::uint64_t inode = 0;
  std::uint64_t byte_count = 0;
  std::int64_t modified_ns = 0;
  std::int64_t changed_ns = 0;
  bool operator==(const Stamp&) const = default;
};
Stamp stamp_of(const struct stat& status);

// A file on disk, with all symbolic links resolved.
struct File {
  std::filesystem::path path;                // canonical, or as given if it cannot be resolved
  std::vector<std::filesystem::path> links;  // that were followed
  Stamp stamp;
  Refusal refusal;
};

// Resolves symbolic links. Refuses everything but regular files.
File resolve(const std::filesystem::path& path);

// Owns a file descriptor.
class Descriptor {
 public:
  explicit Descriptor(int number = -1) : number_(number) {}
  ~Descriptor();
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  Descriptor(Descriptor&& other) noexcept : number_(std::exchange(other.number_, -1)) {}
  Descriptor& operator=(Descriptor&& other) noexcept {
    std::swap(number_, other.number_);
    return *this;
  }
  int get() const { return number_; }

 private:
  int number_;
};

// Reads exactly `byte_count` bytes at `offset`. Returns false if the
// file is shorter, or on an error (see errno).
bool read_at(int descriptor, std::uint64_t offset, void* to, std::uint64_t byte_count);

class AllowList;

// How strictly this process checks files.
struct Trust {
  bool privileged = false;                // the process has more privileges than its user
  const AllowList* allow_list = nullptr;  // null: any file may load
};

// A library in a folder that the plugin names itself, and its state when it was checked.
struct PrivateLibrary {
  std::filesystem::path path;  // canonical
  Stamp stamp;
};

// The result of checking a file. `descriptor` is open on the file that was checked, whose state was `stamp`.
struct Admission {
  Refusal refusal;
  std::vector<std::string> warnings;
  std::string build_id;
  Stamp stamp;
  Descriptor descriptor;
  std::vector<PrivateLibrary> libraries;  // only with an allow-list
};

// Checks every plugin file before it is opened: owners and permissions, ELF, the
// allow-list, in this order. With an allow-list, checks the plugin's private libraries in
// the same way. Precondition: `file` was returned by resolve().
Admission admit(const File& file, const Trust& trust);
// The same, without the private libraries.
Admission admit_alone(const File& file, const Trust& trust);

}  // namespace yoke::loader
