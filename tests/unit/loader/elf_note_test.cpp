// SPDX-License-Identifier: Apache-2.0
// tests/unit/loader/elf_note_test.cpp: ELF notes of valid and damaged
// files, unreadable memory, and escaped texts.
#include "loader/elf_note.h"

#include <elf.h>
#include <link.h>

#include <bit>
#include <cstring>

#include "../../abi_gate/edge.h"
#include "loader/memory_reader.h"
#include "loader_test.h"

namespace yoke::test {
namespace {

using loader::build_id;
using loader::build_id_in;
using loader::printable;

class ElfNoteTest : public LoaderTest {
 protected:
  static std::span<const std::byte> bytes_of(const std::string& text) {
    return std::as_bytes(std::span(text.data(), text.size()));
  }
  // Returns the header with the owner, then the content, each padded.
  static std::string note(const std::string& owner, std::uint32_t type, std::string content,
                          std::size_t alignment = 4) {
    const ElfW(Nhdr) header{static_cast<std::uint32_t>(owner.size() + 1),
                            static_cast<std::uint32_t>(content.size()), type};
    std::string text = std::string(reinterpret_cast<const char*>(&header), sizeof(header)) + owner;
    text.resize((text.size() + 1 + alignment - 1) / alignment * alignment);
    content.resize((content.size() + alignment - 1) / alignment * alignment);
    return text + content;
  }
  // Returns an ELF file whose only segment has these notes.
  static std::string file_with(const std::string& notes, std::uint64_t alignment) {
    ElfW(Ehdr) header{};
    std::memcpy(header.e_ident, ELFMAG, SELFMAG);
    header.e_ident[EI_CLASS] = sizeof(void*) == 8 ? ELFCLASS64 : ELFCLASS32;
    header.e_ident[EI_DATA] = std::endian::native == std::endian::little ? ELFDATA2LSB : ELFDATA2MSB;
    header.e_phoff = sizeof(header);
    header.e_phentsize = sizeof(ElfW(Phdr));
    header.e_phnum = 1;
    ElfW(Phdr) segment{};
    segment.p_type = PT_NOTE;
    segment.p_offset = sizeof(header) + sizeof(segment);
    segment.p_filesz = notes.size();
    segment.p_align = alignment;
    return std::string(reinterpret_cast<const char*>(&header), sizeof(header)) +
           std::string(reinterpret_cast<const char*>(&segment), sizeof(segment)) + notes;
  }
};

TEST_F(ElfNoteTest, BuildIdIsFoundAfterOtherNotes) {
  const std::string notes = note("stapsdt", 3, "probe") + note("GNU", NT_GNU_ABI_TAG, "0000") +
                            note("GNU", NT_GNU_BUILD_ID, "\x01\xab");
  EXPECT_EQ(build_id_in(bytes_of(notes), 4), "01ab");
}

// Linkers align notes to 8 bytes if the segment is aligned to 8, and to 4 bytes otherwise.
TEST_F(ElfNoteTest, NotesAreAlignedAsTheirSegment) {
  for (const std::uint64_t alignment : {0U, 1U, 4U, 8U}) {
    const std::size_t padding = alignment == 8 ? 8 : 4;
    const std::string notes = note("stapsdt", 3, "probe", padding) +
                              note("GNU", NT_GNU_ABI_TAG, "0000", padding) +
                              note("GNU", NT_GNU_BUILD_ID, "\x01\xab", padding);
    const std::string file = file_with(notes, alignment);
    EXPECT_EQ(build_id(bytes_of(file)), "01ab") << alignment;
  }
}

TEST_F(ElfNoteTest, BuildIdOfALinkedFileIsTheLinkers) {
  const auto whole = read_whole(built("build_id"));
  EXPECT_EQ(build_id(bytes_of(whole)), "0123456789abcdef0123456789abcdef01234567");
  place("build_id");
  EXPECT_EQ(report_of(Runtime(options()), "build_id").build_id, "0123456789abcdef0123456789abcdef01234567");
}

TEST_F(ElfNoteTest, NoteThatExceedsItsSegmentIsIgnored) {
  const auto whole = note("GNU", NT_GNU_BUILD_ID, "abcd");
  for (std::size_t kept = 0; kept < whole.size(); ++kept) {
    const Edge edge(kept);  // reading past it ends the process
    const std::size_t padding = (Edge::kAlignment - kept % Edge::kAlignment) % Edge::kAlignment;
    std::memcpy(edge.data() + padding, whole.data(), kept);
    EXPECT_EQ(build_id_in({edge.data() + padding, kept}, 4), "") << kept;
  }
  auto huge = whole;
  const std::uint32_t most = 0xffffffffU;
  std::memcpy(huge.data(), &most, 4);  // n_namesz
  EXPECT_EQ(build_id_in(bytes_of(huge), 4), "");
  EXPECT_EQ(build_id_in(bytes_of(huge), 8), "");
  huge = whole;
  std::memcpy(huge.data() + 4, &most, 4);  // n_descsz
  EXPECT_EQ(build_id_in(bytes_of(huge), 4), "");
}

TEST(MemoryReader, CopiesReadableMemoryAndRefusesTheRest) {
  const loader::MemoryReader memory;
  const std::string text(10000, 'x');
  std::string copy(text.size(), '\0');
  EXPECT_TRUE(memory.copy(text.data(), text.size(), copy.data()));
  EXPECT_EQ(copy, text);
  EXPECT_EQ(memory.text(text.c_str(), 20000), text);
  EXPECT_EQ(memory.text(text.c_str(), 65), text.substr(0, 65));
  EXPECT_FALSE(memory.readable(nullptr));
  EXPECT_FALSE(memory.readable(reinterpret_cast<const void*>(16)));
  EXPECT_EQ(memory.text(reinterpret_cast<const char*>(16), 10), std::nullopt);
}

TEST(MemoryReader, TextMayEndRightBeforeUnreadableMemory) {
  const Edge edge(8);
  char* const end = edge.as<char>() + 8;
  std::memcpy(end - 4, "end", 4);
  const loader::MemoryReader memory;
  EXPECT_EQ(memory.text(end - 4, 4096), "end");
  end[-1] = '!';
  EXPECT_EQ(memory.text(end - 4, 4096), std::nullopt);
  EXPECT_EQ(memory.text(end - 4, 4), "end!");
}

TEST(Printable, EscapesControlCharactersAndInvalidUtf8) {
  EXPECT_EQ(printable("plain"), "plain");
  EXPECT_EQ(printable("Z\xc3\xbcrich \xe2\x82\xac \xf0\x9f\x98\x80"),
            "Z\xc3\xbcrich \xe2\x82\xac \xf0\x9f\x98\x80");
  EXPECT_EQ(printable("a\x1b[2Jb\n\x7f"), "a\\x1b[2Jb\\x0a\\x7f");
  EXPECT_EQ(printable("\xff\xc3"), "\\xff\\xc3");
  EXPECT_EQ(printable("\xc0\xaf \xed\xa0\x80 \xf4\x90\x80\x80"),
            "\\xc0\\xaf \\xed\\xa0\\x80 \\xf4\\x90\\x80\\x80");
  EXPECT_EQ(printable("\xe0\xa4\x85 \xed\x9f\xbf \xf4\x8f\xbf\xbf"),
            "\xe0\xa4\x85 \xed\x9f\xbf \xf4\x8f\xbf\xbf");
  EXPECT_EQ(printable("\xe0\x9f\xbf \xf0\x8f\xbf\xbf"), "\\xe0\\x9f\\xbf \\xf0\\x8f\\xbf\\xbf") << "overlong";
  EXPECT_EQ(printable(std::string(10240, 'x'), 20), std::string(20, 'x') + "...");
}

}  // namespace
}  // namespace yoke::test
