// SPDX-License-Identifier: Apache-2.0
// tests/fuzz/plugin_notes.cpp: what the loader reads of a file before anybody else sees it.
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
    require(segment.alignment == 4 || segment.alignment == 8, "an alignment that no note has");
    if (segment.offset > file.size()) {
      continue;
    }
    auto rest = file.subspan(segment.offset,
                             std::min<std::uint64_t>(segment.byte_count, file.size() - segment.offset));
    loader::Note note;
    for (std::size_t before = rest.size(); loader::next_note(rest, segment.alignment, note);
         before = rest.size()) {
      require(rest.size() < before, "a note that takes no bytes: the reader would never end");
      const auto* end = file.data() + file.size();
      require(note.content.data() >= file.data() && note.content.data() + note.content.size() <= end,
              "a note's content outside of the file");
    }
  }
  const std::string id = loader::build_id(file);
  require(id.size() <= 128 && id.find_first_not_of("0123456789abcdef") == std::string::npos,
          "no build id: " + id);
}

// A folder that only we may write, for as long as the process runs: the loader asks who owns what it reads.
class Folder {
 public:
  Folder() {
    // In memory where that is possible: a file is written for each input.
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

// The same bytes as a file, on the way that every plugin takes.
void read_file(std::span<const std::uint8_t> input) {
  static const Folder folder;
  const auto path = folder.path() / "libyoke_backend_fuzzed.so";
  {
    std::ofstream file(path, std::ios::binary | std::ios::trunc);
    file.write(reinterpret_cast<const char*>(input.data()), static_cast<std::streamsize>(input.size()));
    if (!file.flush()) {
      return;  // no room: says nothing about the reader
    }
  }
  const loader::Admission admission = loader::admit(loader::resolve(path), loader::Trust{});
  require(!admission.refusal || !admission.refusal.mend.empty(),
          "a refusal that does not say what would help");
  require(admission.build_id.size() <= 128, "a build id of any length");
}

}  // namespace

void plugin_notes(std::span<const std::uint8_t> input) {
  const Guarded memory(input.size());
  std::copy(input.begin(), input.end(), memory.data());
  read_notes(std::as_bytes(std::span(memory.data(), input.size())));
  read_file(input);
}

}  // namespace yoke::fuzz
