// SPDX-License-Identifier: Apache-2.0
// runtime/loader/elf_note.h: notes of an ELF file, read from bytes that nobody vouches for.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace yoke::loader {

// Where the file keeps notes, as its program headers say; neither number was held against the file's size.
struct NoteSegment {
  std::uint64_t offset = 0;
  std::uint64_t byte_count = 0;
  std::uint64_t alignment = 4;  // 4 or 8
};

struct Note {
  std::string_view owner;  // without its closing zero
  std::uint32_t type = 0;
  std::span<const std::byte> content;
};

// `file` is an ELF file or its beginning. Nothing, where it is none of this machine's class and byte order,
// or where its program headers lie outside.
std::vector<NoteSegment> note_segments(std::span<const std::byte> file);

// Takes the first note off `rest`. False at the end, and at the first note that does not fit.
bool next_note(std::span<const std::byte>& rest, std::uint64_t alignment, Note& out);

// GNU's build id (what `readelf -n` shows) in lower-case hex, at most 64 bytes of it; empty: there is none.
std::string build_id_in(std::span<const std::byte> segment, std::uint64_t alignment);
std::string build_id(std::span<const std::byte> file);

}  // namespace yoke::loader
