// SPDX-License-Identifier: Apache-2.0
// tests/conformance/program/evaluate.h: runs a program over sets of values: what every right backend may
// answer.
#pragma once

#include <yoke/program/program.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "bound.h"

namespace yoke::conformance {

using Bounds = std::vector<Bound>;  // one per element

// Runs a verified program on these bytes, one span per argument in order of declaration. Gives back what
// every tensor (temporaries too) holds at the end; empty for an `in` argument.
std::vector<Bounds> evaluate_bounds(const program::Program& program,
                                    std::span<const std::span<const std::byte>> arguments,
                                    std::span<const std::int64_t> symbols);

// Whether a right backend may have written this value.
bool allows(program::Type type, const Bound& bound, const program::Scalar& value);

// Where a result is wrong.
struct Mismatch {
  std::uint32_t tensor = 0;
  std::uint64_t element = 0;
  std::string indices;   // "[1, 0, 3]"
  std::string expected;  // by the reference executor
  std::string got;
  std::string allowed;               // "exactly that", "0.5 .. 0.50000006", "nan"
  double units = 0;                  // |got - expected| in units in the last place of the type
  std::uint64_t wrong_elements = 0;  // of that tensor
};
std::string describe(const program::Program& program, const Mismatch& mismatch);

// The first element of `tensor` that differs from what is allowed, if any.
bool find_mismatch(const program::Program& program, std::uint32_t tensor, const Bounds& bounds,
                   std::span<const std::byte> expected, std::span<const std::byte> got, Mismatch& mismatch);

}  // namespace yoke::conformance
