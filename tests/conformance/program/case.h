// SPDX-License-Identifier: Apache-2.0
// tests/conformance/program/case.h: a program together with what it is run on: data, launches, shared
// arguments.
#pragma once

#include <yoke/program/program.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace yoke::conformance {

// What the elements of an argument look like.
enum class DataKind : std::uint8_t {
  kDyadic,    // eighths in -4..4; integers in -3..9: sums and products of them are exact
  kUniform,   // -2..2, with all bits of the type; integers in -100..100
  kPositive,  // 1/8..4; integers in 1..9
  kUnit,      // +-1/2, 1, 2: products stay in range; integers 1, 2, -1
  kWide,      // every exponent that keeps squares in range; integers of any bits
  kSpecial,   // NaN, infinities, zeros of both signs, subnormal, largest; integers: the edges of the type
  kIndex      // -2 .. limit + 1, most inside of 0 .. limit - 1, some far away
};

struct Data {
  DataKind kind = DataKind::kDyadic;
  std::int64_t limit = 1;  // of kIndex
  // The number of an `in` tensor of the same type and dimensions declared before, whose memory this one
  // shares; -1: memory of its own.
  std::int32_t shared = -1;
};

// The same (seed, index) is the same case, on every machine.
struct Case {
  std::uint64_t seed = 0;
  std::uint64_t index = 0;
  program::Program program;
  std::vector<Data> data;                           // one per tensor; of arguments that are read
  std::vector<std::vector<std::int64_t>> launches;  // symbol values, one launch each
};

// The bytes that argument `tensor` starts with. They depend on the tensor's name and the element's number
// only, so that a program keeps its data when others of its tensors go.
std::vector<std::byte> initial_bytes(const Case& one, std::uint32_t tensor);

// The value of one argument's element, for people: "1.5", "nan", "-3".
std::string element_text(program::Type type, std::span<const std::byte> bytes, std::uint64_t element);

// The element as a number; i64 beyond 2^53 is rounded.
double element_number(program::Type type, const std::byte* bytes, std::uint64_t element);

}  // namespace yoke::conformance
