// SPDX-License-Identifier: Apache-2.0
// tests/conformance/groups/modelled.h: a buffer beside a model of it in host memory.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "kit.h"

namespace yoke::conformance {

using Bytes = std::vector<std::byte>;

// A buffer, and what must be in it.
struct Modelled {
  Modelled(Device& device, Random& random, std::uint64_t byte_count)
      : buffer(device, byte_count), bytes(random.bytes(byte_count)) {
    buffer.write(0, bytes);
  }
  void check_same(const std::string& after) const {
    const Bytes now = buffer.contents();
    const auto wrong = std::mismatch(now.begin(), now.end(), bytes.begin()).first;
    check(wrong == now.end(), after, ": byte ", wrong - now.begin(), " of a buffer of ", bytes.size(),
          " is not what it must be");
  }

  Buffer buffer;
  Bytes bytes;
};

inline std::string range_text(std::uint64_t offset, std::uint64_t byte_count) {
  return text(byte_count, " bytes at ", offset);
}

struct Range {
  std::uint64_t offset;
  std::uint64_t byte_count;
};

}  // namespace yoke::conformance
