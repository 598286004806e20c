// SPDX-License-Identifier: Apache-2.0
// frontends/tensor/src/refine.h: how the axes of two shapes with the same elements divide each other.
#pragma once

#include <yoke/tensor.h>

#include <cstdint>
#include <optional>
#include <vector>

namespace yoke::detail {

// Loops, outermost first, such that every axis of both shapes is a sum of coefficient * loop.
struct Refinement {
  struct Term {
    std::size_t loop;
    std::int64_t coefficient;
  };
  Dims loops;
  std::vector<std::vector<Term>> source;  // one per axis; axes of extent 1 have no terms
  std::vector<std::vector<Term>> result;

  // Every axis of the result is one loop: reading the source needs no memory.
  bool is_view() const;
};

// Nothing when the axes cut across each other ([4, 6] and [3, 8]).
std::optional<Refinement> refine(const Dims& source, const Dims& result);

}  // namespace yoke::detail
