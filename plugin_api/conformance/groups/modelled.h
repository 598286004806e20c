// SPDX-License-Identifier: Apache-2.0
// plugin_api/conformance/groups/modelled.h: a buffer together with its expected contents.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "kit.h"

namespace yoke::conformance {

struct Modelled {
  Modelled(Device& device, Random& random, std::uint64_t byte_count)
      : Modelled(Buffer(device, byte_count), random) {}
  Modelled(Buffer any, Random& random) : buffer(std::move(any)), bytes(random.bytes(buffer.byte_count())) {
    buffer.write(0, bytes);
  }
  void check_same(const std::string& after) const {
    const Bytes now = buffer.contents();
    const auto wrong = std::mismatch(now.begin(), now.end(), bytes.begin()).first;
    check(wrong == now.end(), after, ": byte ", wrong - now.begin(), " of a ", bytes.size(),
          "-byte buffer has the wrong value");
  }

  Buffer buffer;
  Bytes bytes;  // what the buffer must contain
};

// "range [8, 24)"; with a count if the end overflows.
inline std::string range_text(std::uint64_t offset, std::uint64_t byte_count) {
  return byte_count <= UINT64_MAX - offset ? text("range [", offset, ", ", offset + byte_count, ")")
                                           : text("range of ", byte_count, " bytes at offset ", offset);
}

struct Range {
  std::uint64_t offset;
  std::uint64_t byte_count;
};

}  // namespace yoke::conformance
