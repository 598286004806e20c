// SPDX-License-Identifier: Apache-2.0
// tests/mutant/handmade/board/reduction.cpp: how the terms, lanes and parts of a reduction are combined.
#include <algorithm>
#include <cmath>

#include "../bugs.h"
#include "warp.h"

namespace yoke::board {

using handmade::bug;
using program::Op;
using program::Reduce;

namespace {

constexpr std::int64_t kPart = 4096;  // terms of a part

bool is_arg(Reduce reduce) {
  return reduce == Reduce::kArgMax || reduce == Reduce::kArgMin;
}

Op operation(Reduce reduce) {
  switch (reduce) {
    case Reduce::kSum:
      return Op::kAdd;
    case Reduce::kProd:
      return Op::kMul;
    case Reduce::kMin:
      return Op::kMin;
    case Reduce::kMax:
      return Op::kMax;
    default:
      return reduce == Reduce::kAny ? Op::kOr : Op::kAnd;
  }
}

}  // namespace

void Warp::fold(Partial& to, Word value, std::int64_t index) const {
  if (is_arg(*statement_.reduce)) {
    to = combined(to, {value, index});
  } else {
    to.value = applied(operation(*statement_.reduce), accumulator_,
                       converted(statement_.value.type, accumulator_, value), to.value);
  }
}

Warp::Partial Warp::combined(const Partial& a, const Partial& b) const {
  if (!is_arg(*statement_.reduce)) {
    return {applied(operation(*statement_.reduce), accumulator_, a.value, b.value), -1};
  }
  if (a.index < 0 || b.index < 0) {
    return a.index < 0 ? b : a;
  }
  const auto beats = [&](Word x, Word y) {
    const bool is_max = *statement_.reduce == Reduce::kArgMax;
    if (!is_float(accumulator_)) {
      return is_max ? x.i > y.i : x.i < y.i;
    }
    if ((std::isnan(x.f) || std::isnan(y.f)) && (is_max || !bug("argmin_nan"))) {
      return std::isnan(x.f) && !std::isnan(y.f);
    }
    return is_max ? x.f > y.f : x.f < y.f;
  };
  // With the bug tree_tie only: a lane has every 32nd element, so `a` may have the later one.
  const bool b_is_first = b.index < a.index && !bug("tree_tie");
  const bool b_wins = beats(b.value, a.value) || (!beats(a.value, b.value) && b_is_first);
  return b_wins ? b : a;
}

// Whether any or all is decided in one of the lanes. With the bug warp_vote only: it must be decided in each.
bool Warp::is_decided(const Partials& partials) const {
  const bool is_any = *statement_.reduce == Reduce::kAny;
  return (is_any || *statement_.reduce == Reduce::kAll) &&
         std::any_of(partials.begin(), partials.end(),
                     [&](const Partial& one) { return (one.value.i != 0) == is_any; });
}

// Lane l takes every 32nd term of a part. The lanes of a part, and then the parts, are combined in pairs.
Warp::Partial Warp::reduced_by_lanes() {
  const auto combine_pairs = [&](std::span<Partial> values) {
    for (std::size_t n = values.size(); n > 1; n = bug("odd_tree") ? n / 2 : (n + 1) / 2) {
      for (std::size_t i = 0; i < n / 2; ++i) {
        values[i] = combined(values[i], values[n - 1 - i]);
      }
    }
    return values[0];
  };
  std::vector<Partial> parts;
  for (std::int64_t begin = 0; begin < terms_ && !launch_.is_cancelled; begin += kPart) {
    Partials lanes;
    lanes.fill(begin != 0 && bug("later_parts_zero") ? Partial{Word{.i = 0}, -1} : initial_);
    const std::int64_t end = std::min(terms_, begin + kPart);
    for (std::int64_t first = begin; first < end; first += kLanes) {
      const std::int64_t count = std::min(kLanes, end - first);
      Row values;
      Mask outside{};
      decode(statement_.reduce_loops, first, count);
      evaluate(statement_.value, values, outside);
      for (std::int64_t lane = 0; lane < count; ++lane) {
        fold(lanes[static_cast<std::size_t>(lane)], values[static_cast<std::size_t>(lane)], first + lane);
      }
    }
    Partial sum = combine_pairs(lanes);
    if (bug("narrow_partials") && !is_arg(*statement_.reduce)) {
      sum.value = converted(target_type_, accumulator_, converted(accumulator_, target_type_, sum.value));
    }
    parts.push_back(sum);
  }
  return parts.empty() ? initial_ : combine_pairs(parts);
}

Word Warp::result(const Partial& partial) const {
  return is_arg(*statement_.reduce) ? Word{.i = partial.index}
                                    : converted(accumulator_, target_type_, partial.value);
}

}  // namespace yoke::board
