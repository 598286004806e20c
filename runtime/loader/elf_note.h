// SPDX-License-Identifier: Apache-2.0
// runtime/loader/elf_note.h: reads the notes of an untrusted ELF file, for its build id.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace yoke::loader {

// A range of notes according to the program headers. It may exceed the file.
struct NoteSegment {
  std::uint64_t offset = 0;
  std::uint64_t byte_count = 0;
  std::uint64_t alignment = 4;  // 4 or 8
};

struct Note {
  std::string_view owner;  // without its terminating zero
  std::uint32_t type = 0;
  std::span<const std::byte> content;
};

// `file` holds an ELF file or its beginning. Empty if it is not ELF, has another class or byte order than
// this machine, or does not contain its program headers.
std::vector<NoteSegment> note_segments(std::span<const std::byte> file);

// Removes the first note from `rest`. Returns false at the end or if the note exceeds `rest`.
bool next_note(std::span<const std::byte>& rest, std::uint64_t alignment, Note& out);

// The GNU build id (`readelf -n`), at most 64 bytes, in lower-case hex. Empty if the file has none.
std::string build_id_in(std::span<const std::byte> segment, std::uint64_t alignment);
std::string build_id(std::span<const std::byte> file);

}  // namespace yoke::loader
