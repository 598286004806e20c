// SPDX-License-Identifier: Apache-2.0
// frontends/tensor/src/data/files.h: whole files in, and files that appear whole or not at all.
#pragma once

#include <yoke/runtime/error.h>

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace yoke::detail {

// The code that says the same as an errno of opening, reading or writing.
ErrorCode code_of_errno(int number);

// Everything in the file. Error names the file and why it cannot be read.
std::vector<std::byte> read_file(const std::filesystem::path& path);

// A file under construction beside its target. commit() puts it in the target's place in one move; without it
// nothing is left. Every Error names the target, the cause and the mend.
class NewFile {
 public:
  explicit NewFile(const std::filesystem::path& target);
  ~NewFile();
  NewFile(const NewFile&) = delete;
  NewFile& operator=(const NewFile&) = delete;

  void write(std::span<const std::byte> bytes);
  void flush();   // to the disk: a full one is noticed here at the latest
  void commit();  // flushes first

 private:
  [[noreturn]] void fail(int number) const;

  std::filesystem::path shown_;   // as the caller wrote it
  std::filesystem::path target_;  // what it means, links followed
  std::filesystem::path part_;
  int descriptor_ = -1;
};

// CRC-32 as zip and gzip use it.
std::uint32_t crc32(std::span<const std::byte> bytes);

// Little-endian numbers; the caller has checked that they are inside.
std::uint32_t read_u16(std::span<const std::byte> bytes, std::size_t offset);
std::uint32_t read_u32(std::span<const std::byte> bytes, std::size_t offset);

}  // namespace yoke::detail
