// SPDX-License-Identifier: Apache-2.0
// frontends/tensor/src/data/idx.cpp: reads an IDX file and checks its header against the file's size.
#include "data/idx.h"

#include <yoke/runtime/counted.h>
#include <yoke/runtime/ending.h>
#include <yoke/runtime/error.h>

#include <limits>
#include <string>

#include "data/files.h"
#include "data/gzip.h"

namespace yoke::detail {
namespace {

std::uint32_t read_big_endian(std::span<const std::byte> bytes, std::size_t offset) {
  std::uint32_t value = 0;
  for (std::size_t i = 0; i < 4; ++i) {
    value = value << 8U | std::to_integer<std::uint32_t>(bytes[offset + i]);
  }
  return value;
}

std::string hexadecimal(std::uint32_t value) {
  constexpr char kDigits[] = "0123456789abcdef";
  std::string text = "0x";
  for (int shift = 28; shift >= 0; shift -= 4) {
    text += kDigits[value >> static_cast<unsigned>(shift) & 0xfU];
  }
  return text;
}

}  // namespace

IdxFile read_idx(const std::filesystem::path& path, std::size_t rank) {
  IdxFile file{.path = path, .dims = {}, .bytes = read_file(path), .data_offset = 4 + 4 * rank};
  if (is_gzip(file.bytes)) {
    file.bytes = gunzip(file.bytes, path.string());
  } else if (detail::ending_of(path) == ".gz" && file.bytes.size() >= 2) {
    throw Error(ErrorCode::kDataLoss,
                path.string() +
                    ": it is not a gzip file, despite its name; download it again, or remove "
                    ".gz from the name of a file that is already decompressed");
  }
  const std::size_t held = file.bytes.size();
  if (held < file.data_offset) {
    throw Error(ErrorCode::kDataLoss, path.string() + ": the file ends at byte " + std::to_string(held) +
                                          ", inside its " + std::to_string(file.data_offset) +
                                          "-byte header; it is truncated: download it again");
  }
  const std::uint32_t wanted_magic = 0x0800U + static_cast<std::uint32_t>(rank);  // 0x08: unsigned bytes
  const std::uint32_t magic = read_big_endian(file.bytes, 0);
  if (magic != wanted_magic) {
    throw Error(ErrorCode::kDataLoss, path.string() + ": the magic number at byte 0 is " +
                                          hexadecimal(magic) + ", but an IDX file of unsigned bytes with " +
                                          detail::counted(rank, "dimension") + " starts with " +
                                          hexadecimal(wanted_magic) + "; check that this is the right file");
  }
  constexpr std::uint64_t kLargest = std::numeric_limits<std::int64_t>::max() / 8;
  std::uint64_t declared = 1;
  std::string shape;
  for (std::size_t i = 0; i < rank; ++i) {
    const std::uint64_t dim = read_big_endian(file.bytes, 4 + 4 * i);
    if (dim == 0 || declared > kLargest / dim) {
      throw Error(ErrorCode::kDataLoss, path.string() + ": dimension " + std::to_string(i) + " at byte " +
                                            std::to_string(4 + 4 * i) + " is " + std::to_string(dim) +
                                            ", which is invalid; fetch the file again");
    }
    declared *= dim;
    shape += (i == 0 ? "" : " x ") + std::to_string(dim);
    file.dims.push_back(dim);
  }
  if (held - file.data_offset != declared) {
    const bool truncated = held - file.data_offset < declared;
    throw Error(ErrorCode::kDataLoss, path.string() + ": the header declares " + shape +
                                          " bytes of data, but " + std::to_string(held - file.data_offset) +
                                          " follow byte " + std::to_string(file.data_offset) +
                                          "; the file is " + (truncated ? "truncated" : "too long") +
                                          ": download it again");
  }
  return file;
}

}  // namespace yoke::detail
