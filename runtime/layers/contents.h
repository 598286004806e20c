// SPDX-License-Identifier: Apache-2.0
// runtime/layers/contents.h: bytes whose type is known from the programs they are bound to: made up,
// compared.
#pragma once

#include <yoke/program/program.h>
#include <yoke/runtime/trace.h>

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

namespace yoke::layers {

// Which parts of a buffer some program takes for elements of a type. A trace may name millions, one over the
// other: adding takes logarithmic time on average, and so does asking.
class Types {
 public:
  // Bytes that have a type keep it.
  void add(std::uint64_t begin, std::uint64_t byte_count, program::Type type);
  // The type of what begins at `at`, where whole elements lie up to `end`; bytes, where none is known.
  program::Type at(std::uint64_t at, std::uint64_t end) const;

 private:
  struct Piece {
    std::uint64_t end = 0;
    std::uint64_t origin = 0;  // where its first element begins, or would
    program::Type type = program::Type::kU8;
  };
  std::map<std::uint64_t, Piece> pieces_;         // by begin; none overlap
  std::map<std::uint64_t, std::uint64_t> known_;  // begin to end of what they cover together
};

// Fills `bytes`, which stand at `offset` of the buffer: floats in [-1, 1), other bytes and integers 0 or 1,
// the same ones for the same seed.
void make_up(std::span<std::byte> bytes, std::uint64_t offset, const Types& types, std::uint64_t seed);

struct Comparison {
  bool is_equal = false;  // bit by bit
  bool is_close = false;
  std::string text = {};  // the first element that is neither
};
Comparison compare(std::span<const std::byte> got, std::span<const std::byte> wanted, std::uint64_t offset,
                   const Types& types, double tolerance);

}  // namespace yoke::layers
