// SPDX-License-Identifier: Apache-2.0
// plugins/cc/tile/ahead.h: fetches the next tile of a region or of a long stream into the cache while this one is
// computed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace yoke::cc {

// Kernels call step() once per operation. Each call fetches an equal share of the next tile, as if each tile took as
// many calls as the previous one.
class Ahead {
 public:
  // clear() and add() state the bytes that the next tile touches.
  void clear() {
    ranges_.clear();
    line_count_ = 0;
  }
  void add(const std::byte* from, std::int64_t byte_count) {
    const std::int64_t lines = (byte_count + kLine - 1) / kLine;
    ranges_.push_back({from, lines});
    line_count_ += lines;
  }
  void reserve(std::size_t count) { ranges_.reserve(count); }
  void start() {
    quota_ = calls_ == 0 ? 0 : (line_count_ + calls_ - 1) / calls_;
    range_ = 0;
    line_ = 0;
    calls_ = 0;
  }

  void step() {
    ++calls_;
    for (std::int64_t left = quota_; left > 0 && range_ < ranges_.size();) {
      const Range& range = ranges_[range_];
      const std::int64_t count = left < range.lines - line_ ? left : range.lines - line_;
      const std::byte* from = range.from + line_ * kLine;
      for (std::int64_t i = 0; i < count; ++i) {
        __builtin_prefetch(from + i * kLine, 0, 2);
      }
      left -= count;
      line_ += count;
      if (line_ == range.lines) {
        line_ = 0;
        ++range_;
      }
    }
  }

 private:
  static constexpr std::int64_t kLine = 64;
  struct Range {
    const std::byte* from;
    std::int64_t lines;
  };
  std::vector<Range> ranges_;
  std::int64_t line_count_ = 0;
  std::int64_t quota_ = 0;
  std::int64_t calls_ = 0;
  std::size_t range_ = 0;
  std::int64_t line_ = 0;
};

}  // namespace yoke::cc
