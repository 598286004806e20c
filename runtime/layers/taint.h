// SPDX-License-Identifier: Apache-2.0
// runtime/layers/taint.h: which bytes of which buffers do not hold, in a replay, what was recorded.
#pragma once

#include <cstdint>
#include <map>
#include <utility>

namespace yoke::layers {

class Taint {
 public:
  using Buffer = std::pair<std::uint64_t, std::uint64_t>;  // plugin, number

  // `byte_count` bytes from `begin`; what leaves 64 bits ends there.
  void add(const Buffer& buffer, std::uint64_t begin, std::uint64_t byte_count);
  void remove(const Buffer& buffer, std::uint64_t begin, std::uint64_t byte_count);
  void remove(const Buffer& buffer) { ranges_.erase(buffer); }
  bool meets(const Buffer& buffer, std::uint64_t begin, std::uint64_t byte_count) const;

 private:
  using Ranges = std::map<std::uint64_t, std::uint64_t>;  // begin to end; none empty, none touch
  std::map<Buffer, Ranges> ranges_;
};

}  // namespace yoke::layers
