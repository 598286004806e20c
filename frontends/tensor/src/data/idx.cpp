// SPDX-License-Identifier: Apache-2.0
// frontends/tensor/src/data/idx.cpp: a header of big-endian numbers, checked against the file's size.
#include "data/idx.h"

#include <yoke/runtime/error.h>

#include <limits>
#include <string>

#include "data/files.h"
#include "data/inflate.h"

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
  }
  const std::size_t held = file.bytes.size();
  if (held < file.data_offset) {
    throw Error(ErrorCode::kDataLoss, path.string() + ": ends at byte " + std::to_string(held) +
                                          ", inside its header of " + std::to_string(file.data_offset) +
                                          " bytes; the file is cut off: fetch it again");
  }
  const std::uint32_t wanted_magic =
      0x0800U + static_cast<std::uint32_t>(rank);  // unsigned bytes, rank dimensions
  const std::uint32_t magic = read_big_endian(file.bytes, 0);
  if (magic != wanted_magic) {
    throw Error(ErrorCode::kDataLoss,
                path.string() + ": begins with " + hexadecimal(magic) + " at byte 0 where an IDX file of " +
                    std::to_string(rank) + (rank == 1 ? " dimension" : " dimensions") +
                    " of unsigned bytes has " + hexadecimal(wanted_magic) + "; is it the right file?");
  }
  constexpr std::uint64_t kLargest = std::numeric_limits<std::int64_t>::max() / 8;
  std::uint64_t announced = 1;
  std::string shape;
  for (std::size_t i = 0; i < rank; ++i) {
    const std::uint64_t dim = read_big_endian(file.bytes, 4 + 4 * i);
    if (dim == 0 || announced > kLargest / dim) {
      throw Error(ErrorCode::kDataLoss, path.string() + ": dimension " + std::to_string(i) + " at byte " +
                                            std::to_string(4 + 4 * i) + " is " + std::to_string(dim) +
                                            ", which makes no sense; fetch the file again");
    }
    announced *= dim;
    shape += (i == 0 ? "" : " x ") + std::to_string(dim);
    file.dims.push_back(dim);
  }
  if (held - file.data_offset != announced) {
    const bool cut = held - file.data_offset < announced;
    throw Error(ErrorCode::kDataLoss, path.string() + ": announces " + shape + " bytes, and " +
                                          std::to_string(held - file.data_offset) + " follow byte " +
                                          std::to_string(file.data_offset) + "; the file is " +
                                          (cut ? "cut off" : "too long") + ": fetch it again");
  }
  return file;
}

}  // namespace yoke::detail
