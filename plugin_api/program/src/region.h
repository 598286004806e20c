// SPDX-License-Identifier: Apache-2.0
// plugin_api/program/src/region.h: the set of elements that an access may touch, as products of intervals.
#pragma once

#include <yoke/program/access.h>
#include <yoke/program/program.h>

#include <cstdint>
#include <optional>
#include <vector>

namespace yoke::program {

// Ascending intervals that neither overlap nor touch.
using IndexSet = std::vector<Interval>;

// The exact set of values of the index; empty if it consists of too many intervals.
std::optional<IndexSet> values_of(const Program& program, const Statement& statement, const Affine& affine);

// The limit of an index's magnitude, so that sums and differences of two indices fit in i64.
inline constexpr std::int64_t kMaxIndex = std::int64_t{1} << 61;

// The quotients of the values that the divisor divides.
IndexSet divided(const IndexSet& set, std::int64_t divisor);

// The part of `set` inside [0, dim).
IndexSet clipped(const IndexSet& set, std::uint64_t dim);

// A product of one set per dimension.
using Region = std::vector<IndexSet>;

Region whole(const Tensor& tensor);

// The elements of one tensor that have been written: a union of regions.
class Coverage {
 public:
  void add(Region region);
  // Conservative: returns false if the union is too fragmented to decide.
  bool covers(const Region& region) const;

 private:
  std::vector<Region> regions_;
};

// A loop such that two iterations that differ in it may write the same
// element; empty if there is no such loop.
std::optional<std::uint32_t> colliding_loop(const Statement& statement);

// The exact set of elements that the statement writes; empty if it is not a product of sets or depends on a
// symbol. Precondition: the target has no element index.
std::optional<Region> written_region(const Program& program, const Statement& statement);

}  // namespace yoke::program
