// SPDX-License-Identifier: Apache-2.0
// runtime/loader/elf_needs.cpp: reads the dynamic section, found by program headers as in the dynamic linker.
#include "loader/elf_needs.h"

#include <elf.h>
#include <link.h>

#include <algorithm>
#include <cstring>
#include <string_view>
#include <utility>

#include "loader/file_check.h"

namespace yoke::loader {
namespace {

constexpr std::uint64_t kMaxDynamicBytes = 1U << 16U;
constexpr std::uint64_t kMaxTextBytes = 1U << 14U;  // of one library name or list of folders
constexpr std::size_t kMaxTexts = 256;

using Segments = std::vector<ElfW(Phdr)>;

std::optional<Segments> read_segments(int descriptor) {
  ElfW(Ehdr) header;
  if (!read_at(descriptor, 0, &header, sizeof(header)) || header.e_phentsize != sizeof(ElfW(Phdr))) {
    return std::nullopt;
  }
  Segments segments(header.e_phnum);
  if (!read_at(descriptor, header.e_phoff, segments.data(), segments.size() * sizeof(ElfW(Phdr)))) {
    return std::nullopt;
  }
  return segments;
}

// The file offset of the byte that is mapped at `address`.
std::optional<std::uint64_t> offset_of(const Segments& segments, std::uint64_t address) {
  for (const auto& segment : segments) {
    if (segment.p_type == PT_LOAD && address >= segment.p_vaddr &&
        address - segment.p_vaddr < segment.p_filesz) {
      return segment.p_offset + (address - segment.p_vaddr);
    }
  }
  return std::nullopt;
}

// Reads a zero-terminated text.
std::optional<std::string> read_text(int descriptor, std::uint64_t offset, std::uint64_t file_size) {
  if (offset >= file_size) {
    return std::nullopt;
  }
  std::string text(std::min(file_size - offset, kMaxTextBytes), '\0');
  if (!read_at(descriptor, offset, text.data(), text.size())) {
    return std::nullopt;
  }
  const auto end = text.find('\0');
  if (end == std::string::npos) {
    return std::nullopt;
  }
  text.resize(end);
  return text;
}

std::vector<std::string> folders_of(std::string_view list) {
  std::vector<std::string> folders;
  while (!list.empty()) {
    const auto colon = list.find(':');
    folders.emplace_back(list.substr(0, colon));
    if (colon == std::string_view::npos) {
      break;
    }
    list.remove_prefix(colon + 1);
    if (list.empty()) {
      folders.emplace_back();  // after a colon at the end
    }
  }
  return folders;
}

std::optional<std::vector<ElfW(Dyn)>> read_dynamic(int descriptor, const Segments& segments) {
  const auto found = std::find_if(segments.begin(), segments.end(),
                                  [](const auto& segment) { return segment.p_type == PT_DYNAMIC; });
  if (found == segments.end() || found->p_filesz > kMaxDynamicBytes) {
    return std::nullopt;
  }
  // By p_vaddr, as the linker does, and not by p_offset.
  const auto offset = offset_of(segments, found->p_vaddr);
  std::vector<ElfW(Dyn)> entries(found->p_filesz / sizeof(ElfW(Dyn)));
  if (!offset || !read_at(descriptor, *offset, entries.data(), entries.size() * sizeof(ElfW(Dyn)))) {
    return std::nullopt;
  }
  const auto end =
      std::find_if(entries.begin(), entries.end(), [](const auto& entry) { return entry.d_tag == DT_NULL; });
  if (end == entries.end()) {
    return std::nullopt;  // the linker would read beyond the segment
  }
  entries.erase(end, entries.end());
  return entries;
}

}  // namespace

std::optional<ElfNeeds> read_needs(int descriptor, std::uint64_t file_size) {
  const auto segments = read_segments(descriptor);
  const auto entries = segments ? read_dynamic(descriptor, *segments) : std::nullopt;
  if (!entries) {
    return std::nullopt;
  }
  std::uint64_t texts = 0;
  for (const auto& entry : *entries) {
    texts = entry.d_tag == DT_STRTAB ? entry.d_un.d_ptr : texts;
  }
  ElfNeeds needs;
  for (const auto& entry : *entries) {
    const bool is_library =
        entry.d_tag == DT_NEEDED || entry.d_tag == DT_FILTER || entry.d_tag == DT_AUXILIARY;
    if (!is_library && entry.d_tag != DT_RPATH && entry.d_tag != DT_RUNPATH) {
      continue;
    }
    const auto offset = offset_of(*segments, texts + entry.d_un.d_val);
    auto text = offset ? read_text(descriptor, *offset, file_size) : std::nullopt;
    if (!text || needs.libraries.size() == kMaxTexts) {
      return std::nullopt;
    }
    if (is_library) {
      needs.libraries.push_back(std::move(*text));
    } else {
      (entry.d_tag == DT_RPATH ? needs.rpath : needs.runpath) = folders_of(*text);
    }
  }
  return needs;
}

std::optional<std::filesystem::path> expand_origin(const std::string& text,
                                                   const std::filesystem::path& origin) {
  std::string expanded;
  for (std::string_view rest = text; !rest.empty();) {
    const auto dollar = rest.find('$');
    expanded += rest.substr(0, dollar);
    if (dollar == std::string_view::npos) {
      break;
    }
    rest.remove_prefix(dollar);
    const std::string_view token = rest.starts_with("${ORIGIN}") ? "${ORIGIN}" : "$ORIGIN";
    if (!rest.starts_with(token)) {
      return std::nullopt;
    }
    expanded += origin.string();
    rest.remove_prefix(token.size());
  }
  std::filesystem::path path = expanded;
  return path.is_absolute() ? std::optional(std::move(path)) : std::nullopt;
}

}  // namespace yoke::loader
