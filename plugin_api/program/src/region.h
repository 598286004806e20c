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

// The limit of an index's magnitude, so that sums and differences of two indices fit in i64.
inline constexpr std::int64_t kMaxIndex = std::int64_t{1} << 61;

// A product of one set per dimension.
using Region = std::vector<IndexSet>;

Region whole(const Tensor& tensor);

// A superset of the elements of `tensor` that the access may touch; if not `clips`, also of those out of range.
Region touched(const Program& program, const Statement& statement, const Access& access, const Tensor& tensor,
               bool clips = true);

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
