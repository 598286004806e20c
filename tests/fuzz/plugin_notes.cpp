// SPDX-License-Identifier: Apache-2.0
// tests/fuzz/plugin_notes.cpp: the parts of a file that the loader reads before the dynamic linker does.
#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <system_error>

#include "guarded.h"
#include "harness.h"
#include "loader/elf_note.h"
#include "loader/file_check.h"

namespace yoke::fuzz {
namespace {

void read_notes(std::span<const std::byte> file) {
  for (const loader::NoteSegment& segment : loader::note_segments(file)) {
    require(segment.alignment == 4 || segment.alignment == 8, "a note segment with an impossible alignment");
    if (segment.offset > file.size()) {
      continue;
    }
    auto rest = file.subspan(segment.offset,
                             std::min<std::uint64_t>(segment.byte_count, file.size() - segment.offset));
    loader::Note note;
    for (std::size_t before = rest.size(); loader::next_note(rest, segment.alignment, note);
         before = rest.size()) {
      require(rest.size() < before, "a note without bytes: the reader would never end");
      const auto* end = file.data() + file.size();
      require(note.content.data() >= file.data() && note.content.data() + note.content.size() <= end,
              "the content of a note is outside the file");
    }
  }
  const std::string id = loader::build_id(file);
  require(id.size() <= 128 && id.find_first_not_of("0123456789abcdef") == std::string::npos,
          "not a build id: " + id);
}

// A folder that only this user may write, as the loader requires. It is removed when the process ends.
class Folder {
 public:
  Folder() {
    // In memory if possible, because every input is written to a file.
    const std::filesystem::path memory = "/dev/shm";
    const auto parent =
        std::filesystem::is_directory(memory) ? memory : std::filesystem::temp_directory_path();
    std::string pattern = (parent / "yoke_fuzz_XXXXXX").string();
    require(::mkdtemp(pattern.data()) != nullptr, "no temporary folder");
    path_ = pattern;
  }
  ~Folder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

// Writes the same bytes to a file and admits it like any plugin.
void read_file(std::span<const std::uint8_t> input) {
  static const Folder folder;
  const auto path = folder.path() / "libyoke_backend_fuzzed.so";
  {
    std::ofstream file(path, std::ios::binary | std::ios::trunc);
    file.write(reinterpret_cast<const char*>(input.data()), static_cast<std::streamsize>(input.size()));
    if (!file.flush()) {
      return;  // the disk is full, which is not the reader's fault
    }
  }
  const loader::Admission admission = loader::admit(loader::resolve(path), loader::Trust{});
  require(!admission.refusal || !admission.refusal.fix.empty(), "a refusal without a hint how to fix it");
  require(admission.build_id.size() <= 128, "the build id is too long");
}

}  // namespace

void plugin_notes(std::span<const std::uint8_t> input) {
  const Guarded memory(input.size());
  std::copy(input.begin(), input.end(), memory.data());
  read_notes(std::as_bytes(std::span(memory.data(), input.size())));
  read_file(input);
}

}  // namespace yoke::fuzz
