// SPDX-License-Identifier: Apache-2.0
// runtime/loader/elf_note.cpp: checks every offset before it is used.
#include "loader/elf_note.h"

#include <elf.h>
#include <link.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <optional>

namespace yoke::loader {
namespace {

constexpr std::uint64_t kMaxIdBytes = 64;

template <class Struct>
std::optional<Struct> struct_at(std::span<const std::byte> bytes, std::uint64_t offset) {
  if (offset > bytes.size() || bytes.size() - offset < sizeof(Struct)) {
    return std::nullopt;
  }
  Struct value;
  std::memcpy(&value, bytes.data() + offset, sizeof(value));
  return value;
}

// Precondition: `value` was computed from 32-bit fields, so that the sum does not overflow.
std::uint64_t round_up(std::uint64_t value, std::uint64_t alignment) {
  return (value + alignment - 1) / alignment * alignment;
}

}  // namespace

std::vector<NoteSegment> note_segments(std::span<const std::byte> file) {
  constexpr unsigned char kClass = sizeof(void*) == 8 ? ELFCLASS64 : ELFCLASS32;
  constexpr unsigned char kOrder = std::endian::native == std::endian::little ? ELFDATA2LSB : ELFDATA2MSB;
  const auto header = struct_at<ElfW(Ehdr)>(file, 0);
  if (!header || std::memcmp(header->e_ident, ELFMAG, SELFMAG) != 0 || header->e_ident[EI_CLASS] != kClass ||
      header->e_ident[EI_DATA] != kOrder || header->e_phentsize != sizeof(ElfW(Phdr)) ||
      header->e_phoff > file.size()) {
    return {};
  }
  std::vector<NoteSegment> found;
  for (std::uint64_t i = 0; i < header->e_phnum; ++i) {
    const auto segment = struct_at<ElfW(Phdr)>(file, header->e_phoff + i * sizeof(ElfW(Phdr)));
    if (!segment) {
      break;
    }
    if (segment->p_type == PT_NOTE) {
      found.push_back({segment->p_offset, segment->p_filesz,
                       segment->p_align == 8 ? std::uint64_t{8} : std::uint64_t{4}});
    }
  }
  return found;
}

bool next_note(std::span<const std::byte>& rest, std::uint64_t alignment, Note& out) {
  const auto header = struct_at<ElfW(Nhdr)>(rest, 0);
  if (!header) {
    return false;
  }
  const std::uint64_t content_at = round_up(sizeof(*header) + std::uint64_t{header->n_namesz}, alignment);
  if (content_at > rest.size() || header->n_descsz > rest.size() - content_at) {
    return false;
  }
  const auto* owner = reinterpret_cast<const char*>(rest.data()) + sizeof(*header);
  out.owner = {owner, strnlen(owner, header->n_namesz)};
  out.type = header->n_type;
  out.content = rest.subspan(content_at, header->n_descsz);
  // The padding after the last note may be missing.
  rest =
      rest.subspan(std::min<std::uint64_t>(rest.size(), round_up(content_at + header->n_descsz, alignment)));
  return true;
}

std::string build_id_in(std::span<const std::byte> segment, std::uint64_t alignment) {
  Note note;
  while (next_note(segment, alignment, note)) {
    if (note.owner == "GNU" && note.type == NT_GNU_BUILD_ID && !note.content.empty() &&
        note.content.size() <= kMaxIdBytes) {
      constexpr const char* kDigits = "0123456789abcdef";
      std::string text;
      for (const std::byte byte : note.content) {
        text += kDigits[std::to_integer<unsigned>(byte) >> 4U];
        text += kDigits[std::to_integer<unsigned>(byte) & 15U];
      }
      return text;
    }
  }
  return {};
}

std::string build_id(std::span<const std::byte> file) {
  for (const NoteSegment& segment : note_segments(file)) {
    if (segment.offset > file.size()) {
      continue;
    }
    const auto count = std::min<std::uint64_t>(segment.byte_count, file.size() - segment.offset);
    auto id = build_id_in(file.subspan(segment.offset, count), segment.alignment);
    if (!id.empty()) {
      return id;
    }
  }
  return {};
}

}  // namespace yoke::loader
