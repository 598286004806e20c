// SPDX-License-Identifier: Apache-2.0
// runtime/loader/elf_needs.h: the libraries that a shared object needs and the folders that it names for
// them, read from an untrusted file.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace yoke::loader {

// Texts as in the file, unexpanded.
struct ElfNeeds {
  std::vector<std::string> libraries;  // DT_NEEDED, and the filters' DT_FILTER and DT_AUXILIARY
  std::vector<std::string> rpath;      // folders; also searched for the needs of those libraries
  std::vector<std::string> runpath;    // folders; if not empty, `rpath` is ignored
};

// Returns nothing if the headers are invalid or list more libraries than any real file.
std::optional<ElfNeeds> read_needs(int descriptor, std::uint64_t file_size);

// Replaces $ORIGIN and ${ORIGIN} with `origin`. Returns nothing if the result is not an absolute path or
// depends on the machine ($LIB, $PLATFORM).
std::optional<std::filesystem::path> expand_origin(const std::string& text,
                                                   const std::filesystem::path& origin);

}  // namespace yoke::loader
