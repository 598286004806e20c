// SPDX-License-Identifier: Apache-2.0
// runtime/layers/contents.h: bytes whose type is known from the programs they are bound to: made up,
// compared.
#pragma once

#include <yoke/program/program.h>
#include <yoke/runtime/trace.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace yoke::layers {

// A part of a buffer that some program takes for elements of a type.
struct TypedRange {
  std::uint64_t begin = 0;
  std::uint64_t end = 0;
  program::Type type = program::Type::kU8;
};

// Fills `bytes`, which stand at `offset` of the buffer: floats in [-1, 1), other bytes and integers 0 or 1,
// the same ones for the same seed.
void make_up(std::span<std::byte> bytes, std::uint64_t offset, std::span<const TypedRange> types,
             std::uint64_t seed);

struct Comparison {
  bool is_equal = false;  // bit by bit
  bool is_close = false;
  std::string text = {};  // the first element that is neither
};
Comparison compare(std::span<const std::byte> got, std::span<const std::byte> wanted, std::uint64_t offset,
                   std::span<const TypedRange> types, double tolerance);

}  // namespace yoke::layers
