// SPDX-License-Identifier: Apache-2.0
// frontends/tensor/src/data/idx.h: IDX files of unsigned bytes, the format of MNIST.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <vector>

namespace yoke::detail {

struct IdxFile {
  std::filesystem::path path;
  std::vector<std::uint64_t> dims;  // each at least 1; the first is the number of items
  std::vector<std::byte> bytes;     // of the whole file, decompressed
  std::size_t data_offset = 0;

  std::span<const std::byte> data() const { return std::span(bytes).subspan(data_offset); }
};

// Reads a plain or gzip-compressed file with `rank` dimensions. Errors name the file and the byte offset.
IdxFile read_idx(const std::filesystem::path& path, std::size_t rank);

}  // namespace yoke::detail
