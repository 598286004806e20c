// SPDX-License-Identifier: Apache-2.0
// plugin_api/conformance/program/evaluate.h: runs a program on sets of values, to find
// every result that a correct backend may have.
#pragma once

#include <yoke/program/program.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "bound.h"
#include "case.h"
#include "steps.h"

namespace yoke::conformance {

// Runs a verified program on the given bytes, one span per argument in order of declaration. Returns the
// possible final contents of every tensor, including temporaries; empty for an `in` argument.
std::vector<Bounds> evaluate_bounds(const program::Program& program,
                                    std::span<const std::span<const std::byte>> arguments,
                                    std::span<const std::int64_t> symbols);

// Keeps the memory of large tensors for later calls of evaluate_bounds by this thread.
void recycle(std::vector<Bounds> bounds);

// Whether a correct backend may have written this value.
bool allows(program::Type type, const Bound& bound, const program::Scalar& value);

// The first wrong element of a result.
struct Mismatch {
  std::uint32_t tensor = 0;
  std::uint64_t element = 0;
  std::string indices;   // "[1, 0, 3]"
  std::string expected;  // the reference executor's value
  std::string got;
  std::string allowed;               // "only this value", "0.5 .. 0.50000006", "nan"
  double units = 0;                  // |got - expected| in units in the last place of the type
  std::uint64_t wrong_elements = 0;  // in this tensor
};
std::string describe(const program::Program& program, const Mismatch& mismatch);

// Finds the first element of `tensor` that is not allowed. Returns false if there is none.
bool find_mismatch(const program::Program& program, std::uint32_t tensor, const Bounds& bounds,
                   std::span<const std::byte> expected, std::span<const std::byte> got, Mismatch& mismatch);

// The results that one launch of a case may have, with its initial data of `round`. Use it for several comparisons.
class AllowedResults {
 public:
  AllowedResults(const Case& one, std::span<const std::int64_t> symbols, std::uint64_t round = 0);
  // Does not draw the initial data again: `start` is initial_arguments(one, round).
  AllowedResults(const Case& one, std::span<const std::int64_t> symbols, std::uint64_t round,
                 const Contents& start);
  ~AllowedResults() { recycle(std::move(bounds_)); }
  AllowedResults(const AllowedResults&) = delete;
  AllowedResults& operator=(const AllowedResults&) = delete;
  // Returns a description of the first mismatch, or nothing.
  std::string compare(const Contents& got) const;

 private:
  const Case& case_;  // must outlive this
  std::vector<std::int64_t> symbols_;
  std::uint64_t round_;
  std::vector<Bounds> bounds_;
};
// Does the same for a single comparison.
std::string compare_results(const Case& one, std::span<const std::int64_t> symbols, const Contents& got,
                            std::uint64_t round = 0);
std::string compare_results(const Case& one, std::span<const std::int64_t> symbols, const Contents& got,
                            std::uint64_t round, const Contents& start);

}  // namespace yoke::conformance
