// SPDX-License-Identifier: Apache-2.0
// plugin_api/conformance/groups/busy.h: a stream that copies between two buffers to stay busy.
#pragma once

#include <algorithm>
#include <cstdint>

#include "kit.h"

namespace yoke::conformance {

struct Busy {
  explicit Busy(Device& device, std::uint64_t byte_count = 8U << 20U)
      : a(device, byte_count), b(device, byte_count), stream(device) {}

  // Queues `copies` copies, in turn from one buffer to the other.
  void queue(std::uint64_t copies) const {
    for (std::uint64_t i = 0; i < copies; ++i) {
      stream.copy(i % 2 == 0 ? a : b, 0, i % 2 == 0 ? b : a, 0, a.byte_count());
    }
  }

  // Returns a number of copies that take at least `least_ns`, even on an idle machine. Throws
  // Unsupported if even thousands of copies are faster.
  std::uint64_t copies_for(std::uint64_t least_ns) const {
    constexpr std::uint64_t kMost = 8192;
    for (std::uint64_t copies = 16; copies <= kMost; copies *= 2) {
      std::uint64_t shortest = UINT64_MAX;
      for (int i = 0; i < 3 && (i == 0 || shortest >= least_ns); ++i) {
        const auto begin = Clock::now();
        queue(copies);
        stream.synchronize();
        shortest = std::min(shortest, ns_since(begin));
      }
      if (shortest >= least_ns) {
        return copies;
      }
    }
    unsupported("the device finishes thousands of queued copies too quickly for this test");
  }

  Buffer a;
  Buffer b;
  Stream stream;
};

}  // namespace yoke::conformance
