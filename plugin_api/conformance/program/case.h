// SPDX-License-Identifier: Apache-2.0
// plugin_api/conformance/program/case.h: a program with its initial data, launches and shared arguments.
#pragma once

#include <yoke/program/program.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace yoke::conformance {

// The distribution of an argument's initial elements.
enum class DataKind : std::uint8_t {
  kDyadic,    // eighths in -4..4; integers in -3..9: sums and products of them are exact
  kUniform,   // -2..2, with all bits of the type; integers in -100..100
  kPositive,  // 1/8..4; integers in 1..9
  kUnit,      // +-1/2, 1, 2: products stay in range; integers 1, 2, -1
  kWide,      // any exponent whose square is in range; integers with random bits
  kSpecial,   // NaN, infinities, both zeros, subnormals, the largest number; integers: the limits of the type
  kSparse,    // one in `limit` is NaN or infinite; a third is 0, the rest as kDyadic; integers: as kDyadic
  kIndex,     // mostly 0 .. limit - 1, some slightly out of range, some far out of range
  kSpread,    // few bits at several exponents: sums of products are exact in a wider type, not in their own
  // Element i is border i / `limit` of the type, in a cycle of kCrossedBorders; -1: of all; 0: a random one;
  // -2: one of the first two at random, which are the zeros of floats.
  kEdges,
  // Bits, not numbers. Types of 8 and 16 bits: every pattern in turn. Wider types: NaN with any payload, numbers next
  // to the borders at which conversions to narrower types round, numbers near integers, subnormals, integers of any
  // length.
  kBits,
  kMixed  // kUniform and kEdges with the limit 0 in turn
};

struct Data {
  DataKind kind = DataKind::kDyadic;
  std::int64_t limit = 1;  // for kIndex, kSparse and kEdges
  // The number of an earlier `in` tensor with the same type and dimensions whose memory this one shares, or
  // -1.
  std::int32_t shared = -1;
};

// Tensors with kEdges and the limits 1 and kCrossedBorders hold every pair of the first borders of their types.
inline constexpr std::int64_t kCrossedBorders = 30;

// A function of (seed, index): the same on every machine.
struct Case {
  std::uint64_t seed = 0;
  std::uint64_t index = 0;
  program::Program program;
  std::vector<Data> data;                           // one per tensor; used for arguments that are read
  std::vector<std::vector<std::int64_t>> launches;  // the symbol values of each launch
};

// The initial bytes of argument `tensor`, which differ in each round. They depend only on the case, the tensor's
// name and the element's number, so they do not change when the shrinker removes other tensors.
std::vector<std::byte> initial_bytes(const Case& one, std::uint32_t tensor, std::uint64_t round = 0);

// Initial byte of `out` arguments: repeated, it is NaN in every float type, an index far out of range, and an
// invalid bool.
inline constexpr std::byte kPoisonByte{0xFF};

using Contents = std::vector<std::vector<std::byte>>;  // one per argument, in order of declaration
Contents initial_arguments(const Case& one, std::uint64_t round = 0);
// The arguments after the reference executor has run the program.
Contents reference_results(const Case& one, std::span<const std::int64_t> symbols, std::uint64_t round = 0);

// The text of an element: "1.5", "nan", "-3".
std::string element_text(program::Type type, std::span<const std::byte> bytes, std::uint64_t element);

// The element as a number; an i64 above 2^53 is rounded.
double element_number(program::Type type, const std::byte* bytes, std::uint64_t element);

}  // namespace yoke::conformance
