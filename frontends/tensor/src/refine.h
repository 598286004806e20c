// SPDX-License-Identifier: Apache-2.0
// frontends/tensor/src/refine.h: common loops over two shapes with the same number of elements.
#pragma once

#include <yoke/tensor.h>

#include <cstdint>
#include <optional>
#include <vector>

namespace yoke::detail {

// Loops, outermost first, such that the index along every axis
// of both shapes is a sum of coefficient * loop index.
struct Refinement {
  struct Term {
    std::size_t loop;
    std::int64_t coefficient;
  };
  Dims loops;
  std::vector<std::vector<Term>> source;  // one per axis; axes of size 1 have no terms
  std::vector<std::vector<Term>> result;

  // Whether every axis of the result is a single loop. If so,
  // the result can be read from the source in place.
  bool is_view() const;
};

// Returns nullopt if the shapes have no common loops, such as [4, 6] and [3, 8].
std::optional<Refinement> refine(const Dims& source, const Dims& result);

}  // namespace yoke::detail
