// SPDX-License-Identifier: Apache-2.0
// runtime/loader/file_check.cpp: regular file, ELF, same machine, not cut short: refused in words before the
// linker sees it.
#include "loader/file_check.h"

#include <dlfcn.h>
#include <elf.h>
#include <link.h>
#include <sys/stat.h>

#include <cerrno>
#include <cstring>
#include <fstream>
#include <system_error>
#include <vector>

namespace yoke::loader {
namespace {

// libyoke's own header, as it is mapped: what runs it can load what looks like it, on any architecture.
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

Refusal cut_short() {
  return {"it is cut short: its ELF header promises more bytes than the file has",
          "copy or install it again"};
}

// Every part that the linker would map lies in the file: mapping past its end kills the process at the first
// touch.
Refusal check_extent(std::ifstream& stream, const ElfW(Ehdr) & header, std::uint64_t file_size) {
  const auto fits = [&](std::uint64_t offset, std::uint64_t byte_count) {
    return offset <= file_size && byte_count <= file_size - offset;
  };
  const std::uint64_t table_size = std::uint64_t{header.e_phnum} * sizeof(ElfW(Phdr));
  if (header.e_phentsize != sizeof(ElfW(Phdr)) || header.e_phnum == 0) {
    return {"its ELF header is damaged: it lists no segments to load", "copy or install it again"};
  }
  if (!fits(header.e_phoff, table_size)) {
    return cut_short();
  }
  std::vector<ElfW(Phdr)> segments(header.e_phnum);
  stream.seekg(static_cast<std::streamoff>(header.e_phoff));
  stream.read(reinterpret_cast<char*>(segments.data()), static_cast<std::streamsize>(table_size));
  if (!stream) {
    return cut_short();
  }
  for (const auto& segment : segments) {
    if (segment.p_type == PT_LOAD && !fits(segment.p_offset, segment.p_filesz)) {
      return cut_short();
    }
  }
  if (header.e_shoff != 0 && !fits(header.e_shoff, std::uint64_t{header.e_shnum} * header.e_shentsize)) {
    return cut_short();
  }
  return {};
}

Refusal check_elf(const std::filesystem::path& path) {
  std::ifstream stream(path, std::ios::binary);
  if (!stream) {
    return {std::string("it cannot be read: ") + std::strerror(errno),
            "allow this user to read it (chmod a+r)"};
  }
  char bytes[sizeof(ElfW(Ehdr))] = {};
  stream.read(bytes, sizeof(bytes));
  const auto count = static_cast<std::size_t>(stream.gcount());
  if (count < SELFMAG || std::memcmp(bytes, ELFMAG, SELFMAG) != 0) {
    const char* what = count == 0                      ? "it is empty"
                       : looks_like_text(bytes, count) ? "it is a text file"
                                                       : "it is something else";
    return {std::string(what) + ", not an ELF shared object",
            "put the plugin itself there (a linker script or a Git LFS pointer is not it)"};
  }
  if (count < sizeof(bytes)) {
    return cut_short();
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
    return {"it is an ELF file, but no shared object", "link it with -shared"};
  }
  stream.clear();
  stream.seekg(0, std::ios::end);
  return check_extent(stream, header, static_cast<std::uint64_t>(stream.tellg()));
}

}  // namespace

File resolve(const std::filesystem::path& path) {
  File file;
  file.path = path;
  std::error_code failed;
  const auto canonical = std::filesystem::canonical(path, failed);
  if (failed) {
    const bool dangling = failed == std::errc::no_such_file_or_directory;
    file.refusal = {dangling ? "it is a symbolic link to a file that does not exist"
                             : "its path cannot be resolved: " + failed.message(),
                    dangling ? "remove the link, or install what it points to" : "mend the path"};
    return file;
  }
  file.path = canonical;
  struct stat status {};
  if (::stat(canonical.c_str(), &status) != 0) {
    file.refusal = {std::string("it cannot be examined: ") + std::strerror(errno), "mend its permissions"};
    return file;
  }
  file.device = status.st_dev;
  file.inode = status.st_ino;
  if (!S_ISREG(status.st_mode)) {
    file.refusal = {S_ISDIR(status.st_mode) ? "it is a folder, not a file" : "it is no regular file",
                    "put the plugin's file there"};
  }
  return file;
}

Refusal admit(const File& file) {
  if (file.refusal) {
    return file.refusal;
  }
  // abi.md rules 33 and 34 go here, before the file is read further: owner and permissions of the file and of
  // every folder on its path, what AT_SECURE forbids, the allow-list of sha256 sums. A probe in a child
  // process comes last, behind check_elf.
  return check_elf(file.path);
}

}  // namespace yoke::loader
