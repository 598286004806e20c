// SPDX-License-Identifier: Apache-2.0
// frontends/replay/contents.h: the contents of buffers, whose element types are known from the programs.
#pragma once

#include <yoke/program/program.h>

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string>

namespace yoke::replay {

// The element types of the ranges of a buffer. Programs that share a tensor
// agree on its type, so ranges do not overlap.
class Types {
 public:
  void add(std::uint64_t begin, std::uint64_t byte_count, program::Type type) {
    ranges_.try_emplace(begin, Range{byte_count, type});
  }
  // The type of the element at `offset`; u8 if it is unknown or the element exceeds `end`.
  program::Type at(std::uint64_t offset, std::uint64_t end) const;

 private:
  struct Range {
    std::uint64_t byte_count = 0;
    program::Type type = program::Type::kU8;
  };
  std::map<std::uint64_t, Range> ranges_;  // by begin
};

// Fills `bytes`, which start at `offset` of a buffer: floats in [-1, 1),
// other elements 0 or 1, the same for the same seed.
void make_up(std::span<std::byte> bytes, std::uint64_t offset, const Types& types, std::uint64_t seed);

struct Comparison {
  bool is_equal = false;  // every bit
  bool is_close = false;
  std::string text = {};  // the first element that is not close
};
// Floats are close within tolerance * max(1, |expected|); other elements must be equal.
Comparison compare(std::span<const std::byte> actual, std::span<const std::byte> expected,
                   std::uint64_t offset, const Types& types, double tolerance);

}  // namespace yoke::replay
