// SPDX-License-Identifier: Apache-2.0
// plugin_api/program/src/region.h: which elements an access may touch, as exact intervals and sets of them.
#pragma once

#include <yoke/program/access.h>
#include <yoke/program/program.h>

#include <cstdint>
#include <optional>
#include <vector>

namespace yoke::program {

// Ascending, apart from each other.
using IndexSet = std::vector<Interval>;

// Exactly the values that the index takes; nothing when they are too scattered to list.
std::optional<IndexSet> values_of(const Program& program, const Statement& statement, const Affine& affine);

// The part of `set` inside [0, dim).
IndexSet clipped(const IndexSet& set, std::uint64_t dim);

// A product of one set per dimension.
using Region = std::vector<IndexSet>;

Region whole(const Tensor& tensor);

// What has been written of one tensor: a union of regions.
class Coverage {
 public:
  void add(Region region);
  // Conservative: a union too ragged to decide counts as not covering.
  bool covers(const Region& region) const;

 private:
  std::vector<Region> regions_;
};

// A loop that the indices do not tell apart: two values of it may write one element. Nothing: all are told
// apart.
std::optional<std::uint32_t> colliding_loop(const Statement& statement);

// The elements that a target without element indices writes; nothing if they are not surely known.
std::optional<Region> written_region(const Program& program, const Statement& statement);

}  // namespace yoke::program
