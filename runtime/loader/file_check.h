// SPDX-License-Identifier: Apache-2.0
// runtime/loader/file_check.h: is a file fit to be opened as a plugin? Answered by reading it, never by
// loading it.
#pragma once

#include <sys/stat.h>

#include <cstdint>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

namespace yoke::loader {

// Why a file was refused and what would help; both empty: it was not.
struct Refusal {
  std::string reason;
  std::string mend;
  explicit operator bool() const { return !reason.empty(); }
};

// Which file, and which state of it: as long as both are equal, so are its bytes.
struct Stamp {
  std::uint64_t device = 0;  // with `inode`: who it is, whatever it is called
  std::uint64_t inode = 0;
  std::uint64_t byte_count = 0;
  std::int64_t modified_ns = 0;
  std::int64_t changed_ns = 0;
  bool operator==(const Stamp&) const = default;
};
Stamp stamp_of(const struct stat& status);

// A file as it lies on disk, after all symbolic links.
struct File {
  std::filesystem::path path;                // canonical; as given when it cannot be resolved
  std::vector<std::filesystem::path> links;  // that led there
  Stamp stamp;
  Refusal refusal;
};

// Resolves symbolic links; refuses what is no regular file.
File resolve(const std::filesystem::path& path);

// Closes what it holds.
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

// All of `byte_count` bytes from `offset` on.
bool read_at(int descriptor, std::uint64_t offset, void* to, std::uint64_t byte_count);

class AllowList;

// What this process asks of a file beyond being a plugin.
struct Trust {
  bool privileged = false;                // more rights than its user: doubts are refusals
  const AllowList* allow_list = nullptr;  // null: any file may load
};

// A library that a plugin brings along, and the state in which it was checked.
struct PrivateLibrary {
  std::filesystem::path path;  // canonical
  Stamp stamp;
};

// What was learned about a file. `descriptor` is open on the very file that was checked, with the state
// `stamp`.
struct Admission {
  Refusal refusal;
  std::vector<std::string> warnings;
  std::string build_id;
  Stamp stamp;
  Descriptor descriptor;
  std::vector<PrivateLibrary> libraries;  // known where an allow-list pins what may load
};

// May this (resolved) file be loaded into the process at all? The one gate that every plugin file passes
// before it is opened: owners and permissions, ELF, the allow-list, in this order; with an allow-list, the
// same for the libraries that it brings along.
Admission admit(const File& file, const Trust& trust);
// The file itself, whatever it brings along.
Admission admit_alone(const File& file, const Trust& trust);

}  // namespace yoke::loader
