// SPDX-License-Identifier: Apache-2.0
// plugins/codegen/axes.h: merges loops, and finds accesses to neighboring elements.
#pragma once

#include <yoke/program/program.h>

#include <cstdint>
#include <optional>
#include <vector>

#include "group.h"

namespace yoke::codegen {

// Adjacent loops that every access of a group treats as one. The last loop carries the index of all; the
// others are 0.
struct Axis {
  std::vector<std::uint32_t> loops;
  std::uint64_t extent = 1;
};

// An access whose element is a sum of multiples of the loops, and is always in range.
struct Linear {
  const Touch* touch = nullptr;
  std::vector<std::int64_t> coefficients;  // by loop
};

struct Axes {
  std::vector<Axis> axes;  // loops with more than one iteration, outermost first
  std::vector<Linear> linear;
  // How many neighboring elements of the last axis a thread computes; 1: no vectors.
  std::uint32_t lanes = 1;

  // Whether neighboring iterations of the last axis access neighboring elements.
  bool is_vector(const Linear& one) const;
};

// With a boundary, no axis has loops on both sides of it, and the lanes divide the last axis. Without one,
// the last vector may be incomplete, but only if there is a single axis.
Axes axes_of(const program::Program& program, const Group& group, std::optional<std::size_t> boundary);

}  // namespace yoke::codegen
