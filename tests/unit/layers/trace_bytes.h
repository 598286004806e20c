// SPDX-License-Identifier: Apache-2.0
// tests/unit/layers/trace_bytes.h: the bytes of a recorded trace, for tests that damage them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "layers/trace_file.h"

namespace yoke::test {

inline std::vector<std::byte> read_bytes(const std::filesystem::path& path) {
  std::ifstream in(path, std::ios::binary);
  const std::string bytes{std::istreambuf_iterator<char>(in), {}};
  const auto* const begin = reinterpret_cast<const std::byte*>(bytes.data());
  return {begin, begin + bytes.size()};
}

// The position of a payload near the middle of a trace: damage to it is noticed by the checksum of its
// record, while a damaged size looks like a file that ends early.
inline std::size_t payload_near_middle(const std::vector<std::byte>& trace) {
  std::size_t begin = sizeof(layers::TraceHeader);
  for (std::uint32_t size = 0; begin < trace.size() / 2; begin += layers::kRecordHead + size) {
    std::memcpy(&size, &trace[begin], sizeof(size));
  }
  return begin + layers::kRecordHead;
}

}  // namespace yoke::test
