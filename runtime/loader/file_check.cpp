// SPDX-License-Identifier: Apache-2.0
// runtime/loader/file_check.cpp: refuses what is not a regular file, not ELF, for another machine, or
// truncated, before the dynamic linker opens it.
#include "loader/file_check.h"

#include <dlfcn.h>
#include <elf.h>
#include <fcntl.h>
#include <link.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <system_error>
#include <vector>

#include "loader/allow_list.h"
#include "loader/elf_note.h"
#include "loader/permissions.h"
#include "loader/private_libraries.h"

namespace yoke::loader {
namespace {

// libyoke's own ELF header in memory: a plugin must match its class, byte order and machine.
const ElfW(Ehdr) * own_header() {
  Dl_info info{};
  if (dladdr(reinterpret_cast<const void*>(&admit), &info) == 0) {
    return nullptr;
  }
  return static_cast<const ElfW(Ehdr)*>(info.dli_fbase);
}

bool looks_like_text(const char* bytes, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) {
    const auto byte = static_cast<unsigned char>(bytes[i]);
    if (byte < 0x09 || (byte > 0x0d && byte < 0x20)) {
      return false;
    }
  }
  return count > 0;
}

Refusal truncated() {
  return {"it is truncated: its ELF header describes more bytes than the file has",
          "copy or install it again"};
}

// Checks that every segment lies in the file: reading a mapping beyond the end of its file kills the process.
Refusal check_extent(int file, const ElfW(Ehdr) & header, std::uint64_t file_size) {
  const auto fits = [&](std::uint64_t offset, std::uint64_t byte_count) {
    return offset <= file_size && byte_count <= file_size - offset;
  };
  const std::uint64_t table_size = std::uint64_t{header.e_phnum} * sizeof(ElfW(Phdr));
  if (header.e_phentsize != sizeof(ElfW(Phdr)) || header.e_phnum == 0) {
    return {"its ELF header is invalid: it lists no segments", "copy or install it again"};
  }
  if (!fits(header.e_phoff, table_size)) {
    return truncated();
  }
  std::vector<ElfW(Phdr)> segments(header.e_phnum);
  if (!read_at(file, header.e_phoff, segments.data(), table_size)) {
    return truncated();
  }
  for (const auto& segment : segments) {
    if (segment.p_type == PT_LOAD && !fits(segment.p_offset, segment.p_filesz)) {
      return truncated();
    }
  }
  if (header.e_shoff != 0 && !fits(header.e_shoff, std::uint64_t{header.e_shnum} * header.e_shentsize)) {
    return truncated();
  }
  return {};
}

Refusal check_elf(int file, std::uint64_t file_size) {
  char bytes[sizeof(ElfW(Ehdr))] = {};
  const auto count = static_cast<std::size_t>(std::min<std::uint64_t>(file_size, sizeof(bytes)));
  if (!read_at(file, 0, bytes, count)) {
    return {std::string("it cannot be read: ") + std::strerror(errno), "copy or install it again"};
  }
  if (count < SELFMAG || std::memcmp(bytes, ELFMAG, SELFMAG) != 0) {
    const char* what = count == 0                      ? "it is empty, not"
                       : looks_like_text(bytes, count) ? "it is a text file, not"
                                                       : "it is not";
    return {std::string(what) + " an ELF shared object",
            "install the plugin itself, not a linker script or a Git LFS pointer"};
  }
  if (count < sizeof(bytes)) {
    return truncated();
  }
  ElfW(Ehdr) header;
  std::memcpy(&header, bytes, sizeof(header));
  const auto* own = own_header();
  if (own != nullptr &&
      (header.e_ident[EI_CLASS] != own->e_ident[EI_CLASS] ||
       header.e_ident[EI_DATA] != own->e_ident[EI_DATA] || header.e_machine != own->e_machine)) {
    return {"it is built for another machine (ELF machine " + std::to_string(header.e_machine) + ", class " +
                std::to_string(header.e_ident[EI_CLASS]) + "; this process has " +
                std::to_string(own->e_machine) + ", class " + std::to_string(own->e_ident[EI_CLASS]) + ")",
            "install the plugin's build for this machine"};
  }
  if (header.e_type != ET_DYN) {
    return {"it is an ELF file but not a shared object", "link it with -shared"};
  }
  return check_extent(file, header, file_size);
}

// Empty if the file has no build id or cannot be read. Only for display.
std::string build_id_of(int file, std::uint64_t file_size) {
  constexpr std::uint64_t kMaxBytes = 1U << 16U;  // of headers, and of each segment of notes
  std::vector<std::byte> head(std::min(file_size, kMaxBytes));
  if (!read_at(file, 0, head.data(), head.size())) {
    return {};
  }
  for (const NoteSegment& segment : note_segments(head)) {
    std::vector<std::byte> notes(std::min(segment.byte_count, kMaxBytes));
    if (!read_at(file, segment.offset, notes.data(), notes.size())) {
      continue;
    }
    if (auto id = build_id_in(notes, segment.alignment); !id.empty()) {
      return id;
    }
  }
  return {};
}

std::int64_t nanoseconds(const timespec& time) {
  return std::int64_t{time.tv_sec} * 1'000'000'000 + time.tv_nsec;
}

Refusal check_regular(const struct stat& status) {
  if (S_ISREG(status.st_mode)) {
    return {};
  }
  return {S_ISDIR(status.st_mode)    ? "it is a folder, not a file"
          : S_ISFIFO(status.st_mode) ? "it is a named pipe, not a file"
                                     : "it is not a regular file",
          "install the plugin's file there"};
}

}  // namespace

Stamp stamp_of(const struct stat& status) {
  return {status.st_dev, status.st_ino, static_cast<std::uint64_t>(status.st_size),
          nanoseconds(status.st_mtim), nanoseconds(status.st_ctim)};
}

Descriptor::~Descriptor() {
  if (number_ >= 0) {
    ::close(number_);
  }
}

bool read_at(int descriptor, std::uint64_t offset, void* to, std::uint64_t byte_count) {
  errno = 0;
  for (std::uint64_t done = 0; done < byte_count;) {
    const ssize_t count = ::pread(descriptor, static_cast<char*>(to) + done, byte_count - done,
                                  static_cast<off_t>(offset + done));
    if (count < 0 && errno == EINTR) {
      continue;
    }
    if (count <= 0) {
      return false;
    }
    done += static_cast<std::uint64_t>(count);
  }
  return true;
}

File resolve(const std::filesystem::path& path) {
  File file;
  file.path = path;
  std::error_code failed;
  const auto canonical = std::filesystem::canonical(path, failed);
  if (failed) {
    const bool dangling = failed == std::errc::no_such_file_or_directory;
    file.refusal = {dangling ? "it is a symbolic link to a file that does not exist"
                             : "its path cannot be resolved: " + failed.message(),
                    dangling ? "remove the link, or install what it points to" : "fix the path"};
    return file;
  }
  file.path = canonical;
  file.links = links_on(path);
  struct stat status {};
  if (::stat(canonical.c_str(), &status) != 0) {
    file.refusal = {std::string("its status cannot be read: ") + std::strerror(errno), "fix its permissions"};
    return file;
  }
  file.stamp = stamp_of(status);
  file.refusal = check_regular(status);
  return file;
}

Admission admit(const File& file, const Trust& trust) {
  Admission admission = admit_alone(file, trust);
  if (!admission.refusal && trust.allow_list != nullptr) {
    admission.refusal = admit_private_libraries(file.path, trust, admission);
  }
  return admission;
}

Admission admit_alone(const File& file, const Trust& trust) {
  Admission admission;
  auto& refusal = admission.refusal;
  refusal = file.refusal;
  if (refusal) {
    return admission;
  }
  // The file may have been replaced since resolve(): do not block on a named pipe and do not follow a link.
  admission.descriptor =
      Descriptor(::open(file.path.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC | O_NOCTTY));
  const int descriptor = admission.descriptor.get();
  struct stat status {};
  if (descriptor < 0 || ::fstat(descriptor, &status) != 0) {
    refusal = {std::string("it cannot be read: ") + std::strerror(errno),
               "allow this user to read it (chmod a+r)"};
    return admission;
  }
  admission.stamp = stamp_of(status);
  if (refusal = check_regular(status); refusal) {
    return admission;
  }
  const auto doubts = trust.privileged              ? Doubts::kRefusedPrivileged
                      : trust.allow_list != nullptr ? Doubts::kRefusedPinned
                                                    : Doubts::kWarn;
  auto rights = check_rights(file.path, status, doubts, file.links);
  refusal = std::move(rights.refusal);
  admission.warnings = std::move(rights.warnings);
  if (!refusal) {
    refusal = check_elf(descriptor, admission.stamp.byte_count);
  }
  if (!refusal) {
    admission.build_id = build_id_of(descriptor, admission.stamp.byte_count);
  }
  if (!refusal && trust.allow_list != nullptr) {
    refusal = trust.allow_list->check(file, descriptor);
  }
  return admission;
}

}  // namespace yoke::loader
