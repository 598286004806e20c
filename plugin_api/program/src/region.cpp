// SPDX-License-Identifier: Apache-2.0
// plugin_api/program/src/region.cpp: the set of elements that an access may touch, as products of intervals.
#include "region.h"

#include <algorithm>
#include <set>
#include <utility>

namespace yoke::program {
namespace {

__extension__ using Wide = __int128;

constexpr std::size_t kMaxIntervals = 4096;
constexpr int kMaxPieces = 1 << 16;

// The `count` values first, first + step, ...
struct Steps {
  Wide first;
  Wide step;
  Wide count;
};

Steps steps_of(const Program& program, std::span<const Loop> loops, const Affine::Term& term) {
  if (!term.is_symbol) {
    return {0, 1, loops[term.id].extent};
  }
  const Symbol& symbol = program.symbols[term.id];
  return {symbol.low, symbol.step, (Wide{symbol.high} - 1 - symbol.low) / symbol.step + 1};
}

Wide magnitude(Wide value) {
  return value < 0 ? -value : value;
}

// Sorts the intervals and merges those that overlap or touch.
void normalize(IndexSet& set) {
  std::sort(set.begin(), set.end(), [](const Interval& a, const Interval& b) { return a.low < b.low; });
  std::size_t kept = 0;
  for (const Interval& one : set) {
    if (kept > 0 && one.low - 1 <= set[kept - 1].high) {
      set[kept - 1].high = std::max(set[kept - 1].high, one.high);
    } else {
      set[kept++] = one;
    }
  }
  set.resize(kept);
}

bool contains(const IndexSet& set, const Interval& inner) {
  const auto after = std::upper_bound(set.begin(), set.end(), inner.low,
                                      [](std::int64_t low, const Interval& one) { return low < one.low; });
  return after != set.begin() && inner.high <= (after - 1)->high;
}

bool contains(const Region& region, const Region& inner) {
  for (std::size_t dim = 0; dim < region.size(); ++dim) {
    for (const Interval& one : inner[dim]) {
      if (!contains(region[dim], one)) {
        return false;
      }
    }
  }
  return true;
}

// Replaces `set` by the union of set + i * stride for i in [0, count); returns
// false if that has too many intervals.
bool spread(IndexSet& set, std::int64_t stride, std::int64_t count) {
  const auto reach = stride * (count - 1);
  const auto width = set[0].high - set[0].low;
  if (set.size() == 1 && magnitude(stride) <= Wide{width} + 1) {
    (reach < 0 ? set[0].low : set[0].high) += reach;
    return true;
  }
  if (Wide{count} * static_cast<std::int64_t>(set.size()) > static_cast<Wide>(kMaxIntervals)) {
    return false;
  }
  IndexSet result;
  for (std::int64_t i = 0; i < count; ++i) {
    for (const Interval& one : set) {
      result.push_back({one.low + i * stride, one.high + i * stride});
    }
  }
  normalize(result);
  set = std::move(result);
  return true;
}

// Splits one dimension after another where the set of some region in `by` begins or ends. Every region
// contains either all or nothing of a piece.
bool covered(const Region& region, std::size_t dim, const std::vector<const Region*>& by, int& pieces) {
  if (by.empty() || --pieces < 0) {
    return false;
  }
  if (dim == region.size()) {
    return true;
  }
  std::vector<std::int64_t> cuts;
  for (const Region* one : by) {
    for (const Interval& interval : (*one)[dim]) {
      cuts.push_back(interval.low);
      cuts.push_back(interval.high + 1);
    }
  }
  std::sort(cuts.begin(), cuts.end());
  cuts.erase(std::unique(cuts.begin(), cuts.end()), cuts.end());
  for (const Interval& interval : region[dim]) {
    std::int64_t low = interval.low;
    while (low <= interval.high) {
      const auto next = std::upper_bound(cuts.begin(), cuts.end(), low);
      const std::int64_t high = next == cuts.end() ? interval.high : std::min(interval.high, *next - 1);
      std::vector<const Region*> here;
      for (const Region* one : by) {
        if (contains((*one)[dim], {low, high})) {
          here.push_back(one);
        }
      }
      if (!covered(region, dim + 1, here, pieces)) {
        return false;
      }
      low = high + 1;
    }
  }
  return true;
}

struct Digit {
  std::uint32_t loop;
  Wide weight;
  Wide extent;
};

// The loops of one index that are not known to be independent yet, smallest weight first.
std::vector<Digit> open_digits(const Statement& statement, const Affine& affine,
                               const std::vector<bool>& known) {
  std::vector<Digit> digits;
  for (const Affine::Term& term : affine.terms) {
    if (!term.is_symbol && !known[term.id]) {
      digits.push_back({term.id, magnitude(term.coefficient), statement.loops[term.id].extent});
    }
  }
  std::sort(digits.begin(), digits.end(), [](const Digit& a, const Digit& b) { return a.weight < b.weight; });
  return digits;
}

// Whether different digits always give a different sum, as in a mixed-radix number: each weight exceeds the
// largest sum of all smaller digits.
bool is_injective(const std::vector<Digit>& digits) {
  Wide below = 0;
  for (const Digit& digit : digits) {
    if (digit.weight <= below) {
      return false;
    }
    below += digit.weight * (digit.extent - 1);
  }
  return true;
}

// The exact set of values of the index; empty if it consists of too many intervals.
std::optional<IndexSet> values_of(const Program& program, const Statement& statement, const Affine& affine) {
  struct Stride {
    std::int64_t stride;
    std::int64_t count;
  };
  std::int64_t start = affine.constant;
  std::vector<Stride> strides;
  for (const Affine::Term& term : affine.terms) {
    const Steps steps = steps_of(program, statement.loops, term);
    start += static_cast<std::int64_t>(term.coefficient * steps.first);
    if (steps.count > 1) {
      strides.push_back(
          {static_cast<std::int64_t>(term.coefficient * steps.step), static_cast<std::int64_t>(steps.count)});
    }
  }
  std::sort(strides.begin(), strides.end(),
            [](const Stride& a, const Stride& b) { return magnitude(a.stride) < magnitude(b.stride); });
  IndexSet set = {{start, start}};
  for (const Stride& one : strides) {
    if (!spread(set, one.stride, one.count)) {
      return std::nullopt;
    }
  }
  return set;
}

// The quotients of the values that the divisor divides.
IndexSet divided(const IndexSet& set, std::int64_t divisor) {
  const auto floor = [&](std::int64_t value) { return value / divisor - (value % divisor < 0 ? 1 : 0); };
  IndexSet result;
  for (const Interval& one : set) {
    const Interval part = {floor(one.low + divisor - 1), floor(one.high)};
    if (part.low <= part.high) {
      result.push_back(part);
    }
  }
  normalize(result);
  return result;
}

// The part of `set` inside [0, dim).
IndexSet clipped(const IndexSet& set, std::uint64_t dim) {
  IndexSet result;
  for (const Interval& one : set) {
    const Interval part = {std::max<std::int64_t>(one.low, 0),
                           std::min(one.high, static_cast<std::int64_t>(dim) - 1)};
    if (part.low <= part.high) {
      result.push_back(part);
    }
  }
  return result;
}

}  // namespace

std::optional<Interval> range_of(const Program& program, std::span<const Loop> loops, const Affine& affine) {
  Wide low = affine.constant;
  Wide high = affine.constant;
  Wide largest = magnitude(affine.constant);  // bounds every partial sum, in any order
  for (const Affine::Term& term : affine.terms) {
    const Steps steps = steps_of(program, loops, term);
    const Wide first = term.coefficient * steps.first;
    const Wide last = term.coefficient * (steps.first + steps.step * (steps.count - 1));
    low += std::min(first, last);
    high += std::max(first, last);
    largest += std::max(magnitude(first), magnitude(last));
    if (largest > kMaxIndex) {
      return std::nullopt;
    }
  }
  if (largest > kMaxIndex) {
    return std::nullopt;
  }
  return Interval{static_cast<std::int64_t>(low), static_cast<std::int64_t>(high)};
}

Region whole(const Tensor& tensor) {
  Region region;
  for (const std::uint64_t dim : tensor.dims) {
    region.push_back({{0, static_cast<std::int64_t>(dim) - 1}});
  }
  return region;
}

Region touched(const Program& program, const Statement& statement, const Access& access, const Tensor& tensor,
               bool clips) {
  Region region = whole(tensor);
  for (std::size_t dim = 0; dim < access.indices.size(); ++dim) {
    const Index& index = access.indices[dim];
    if (index.element_of) {
      continue;
    }
    const auto exact = values_of(program, statement, index.affine);
    const IndexSet set =
        divided(exact ? *exact : IndexSet{*range_of(program, statement, index.affine)}, index.divisor);
    region[dim] = clips ? clipped(set, tensor.dims[dim]) : set;
  }
  return region;
}

void Coverage::add(Region region) {
  for (const Region& one : regions_) {
    if (contains(one, region)) {
      return;
    }
  }
  std::erase_if(regions_, [&](const Region& one) { return contains(region, one); });
  regions_.push_back(std::move(region));
}

bool Coverage::covers(const Region& region) const {
  for (const IndexSet& set : region) {
    if (set.empty()) {
      return true;
    }
  }
  std::vector<const Region*> by;
  for (const Region& one : regions_) {
    if (contains(one, region)) {
      return true;
    }
    by.push_back(&one);
  }
  int pieces = kMaxPieces;
  return covered(region, 0, by, pieces);
}

std::vector<bool> independent_loops(const Statement& statement) {
  std::vector<bool> known(statement.loops.size());
  for (std::uint32_t i = 0; i < known.size(); ++i) {
    known[i] = statement.loops[i].extent == 1 || statement.reduces(i);
  }
  for (bool progress = true; progress;) {
    progress = false;
    for (const Index& index : statement.target.indices) {
      const auto digits = open_digits(statement, index.affine, known);
      if (!digits.empty() && is_injective(digits)) {
        for (const Digit& digit : digits) {
          known[digit.loop] = true;
        }
        progress = true;
      }
    }
  }
  return known;
}

std::optional<std::uint32_t> colliding_loop(const Statement& statement) {
  const std::vector<bool> known = independent_loops(statement);
  const auto open = std::find(known.begin(), known.end(), false);
  if (open == known.end()) {
    return std::nullopt;
  }
  return static_cast<std::uint32_t>(open - known.begin());
}

std::optional<Region> written_region(const Program& program, const Statement& statement) {
  Region region;
  std::set<std::pair<bool, std::uint32_t>> seen;
  for (const Index& index : statement.target.indices) {
    for (const Affine::Term& term : index.affine.terms) {
      const bool varies = steps_of(program, statement.loops, term).count > 1;
      // A symbol may have another value at launch; a loop or variable in two
      // indices writes a diagonal, not a product of sets.
      const bool is_launch_symbol = term.is_symbol && !program.symbols[term.id].is_variable;
      if (varies && (is_launch_symbol || !seen.insert({term.is_symbol, term.id}).second)) {
        return std::nullopt;
      }
    }
    auto set = values_of(program, statement, index.affine);
    if (!set) {
      return std::nullopt;
    }
    region.push_back(std::move(*set));
  }
  return region;
}

}  // namespace yoke::program
