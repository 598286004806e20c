// SPDX-License-Identifier: Apache-2.0
// runtime/loader/elf_needs.h: which libraries a shared object makes the linker load, and where it says to
// look for them; read from bytes that nobody vouches for.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace yoke::loader {

// The texts as they stand in the file.
struct ElfNeeds {
  std::vector<std::string> libraries;  // DT_NEEDED, and the filters' DT_FILTER and DT_AUXILIARY
  std::vector<std::string> rpath;      // folders; the linker gives them on to what the libraries need
  std::vector<std::string> runpath;    // folders; where there are any, `rpath` does not count
};

// Nothing: its headers contradict each other, or name more than any real file does.
std::optional<ElfNeeds> read_needs(int descriptor, std::uint64_t file_size);

// $ORIGIN and ${ORIGIN} replaced by `origin`. Nothing where that is no absolute path: an empty or relative
// folder is the working directory's, and $LIB and $PLATFORM are the linker's own secret.
std::optional<std::filesystem::path> expand_origin(const std::string& text,
                                                   const std::filesystem::path& origin);

}  // namespace yoke::loader
