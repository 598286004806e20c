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
  std::vector<std::uint64_t> dims;  // every one > 0; the first counts the items
  std::vector<std::byte> bytes;     // of the whole file, inflated
  std::size_t data_offset = 0;

  std::span<const std::byte> data() const { return std::span(bytes).subspan(data_offset); }
};

// Reads a plain or gzip file of `rank` dimensions. Throws Error with file and place.
IdxFile read_idx(const std::filesystem::path& path, std::size_t rank);

}  // namespace yoke::detail
