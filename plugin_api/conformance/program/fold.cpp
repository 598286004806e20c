// SPDX-License-Identifier: Apache-2.0
// plugin_api/conformance/program/fold.cpp: sums and products whose order the backend chooses.
#include <algorithm>
#include <cmath>

#include "bound.h"
#include "error_units.h"
#include "number.h"

namespace yoke::conformance {

using program::Op;
using program::Type;

namespace {

Bound nan_bound() {
  return bound_of(Type::kF64, {std::numeric_limits<double>::quiet_NaN(), 0});
}

Bound range(double low, double high, bool nan) {
  Bound bound;
  bound.low = low;
  bound.high = high;
  bound.nan = nan;
  return bound;
}

}  // namespace

Fold::Fold(Op op, Type type) : op_(op), type_(type) {
  const program::Reduce reduce = op == Op::kAdd   ? program::Reduce::kSum
                                 : op == Op::kMul ? program::Reduce::kProd
                                 : op == Op::kMin ? program::Reduce::kMin
                                 : op == Op::kMax ? program::Reduce::kMax
                                 : op == Op::kOr  ? program::Reduce::kAny
                                                  : program::Reduce::kAll;
  folded_ = bound_of(type, program::neutral(reduce, type));
  if (op == Op::kMul) {
    low_ = 1;
    high_ = 1;
    magnitude_ = 1;
  }
}

void Fold::add(const Bound& value) {
  if (!program::is_float(type_) || (op_ != Op::kAdd && op_ != Op::kMul)) {
    const Bound* pair[] = {&folded_, &value};
    folded_ = apply_bound(op_, type_, pair);
    folded_.zero_is_signed = false;
    return;
  }
  count_ += 1;
  if (value.is_nan()) {
    nan_ = true;
    return;
  }
  maybe_nan_ = maybe_nan_ || value.nan;
  op_ == Op::kAdd ? add_float(value) : add_factor(settled(value));
}

void Fold::add_float(const Bound& value) {
  if (std::isinf(value.low) || std::isinf(value.high)) {
    if (value.is_point()) {
      (value.low > 0 ? plus_infinity_ : minus_infinity_) = true;
    } else {
      maybe_nan_ = true;
      magnitude_ = kInfinity;
    }
    return;
  }
  low_ += value.low;
  high_ += value.high;
  magnitude_ += std::max(std::fabs(value.low), std::fabs(value.high));
  points_ = points_ && value.is_point();
  if (points_) {
    lowest_bit_ = std::min(lowest_bit_, mantissa_bits(value.low).lowest);
  }
}

void Fold::add_terms(const SumTerms& terms) {
  low_ += terms.low;
  high_ += terms.high;
  magnitude_ += terms.magnitude;
  count_ += terms.count;
  lowest_bit_ = std::min(lowest_bit_, terms.lowest_bit);
  points_ = points_ && terms.points;
  nan_ = nan_ || terms.nan;
  plus_infinity_ = plus_infinity_ || terms.plus_infinity;
  minus_infinity_ = minus_infinity_ || terms.minus_infinity;
}

Bound Fold::sum() const {
  if (nan_ || (plus_infinity_ && minus_infinity_)) {
    return nan_bound();
  }
  if (maybe_nan_ || !(magnitude_ <= largest(type_) / 2)) {
    return anything(type_);
  }
  if (plus_infinity_ || minus_infinity_) {
    return bound_of(type_, {plus_infinity_ ? kInfinity : -kInfinity, 0});
  }
  // Every partial sum is a multiple of the lowest bit and at most the sum of the magnitudes.
  if (points_ &&
      (magnitude_ == 0 || magnitude_ <= power_of_two(std::min(lowest_bit_ + digits(type_), 1023)))) {
    return rounded_to(type_, range(low_, high_, false));
  }
  const double own = type_ == Type::kF64 ? 2 : 1;  // this computation uses f64 itself
  // Below the smallest normal number, a sum with an unrounded product is wrong by up to half of the smallest number.
  const double smallest = points_ ? 0 : own / 2 * count_ * unit_at(type_, 0);
  const double error = (kSumUnits * own * half_unit(type_) + 0x1p-53) * 1.01 * count_ * magnitude_ + smallest;
  return rounded_to(type_, range(low_ - error, high_ + error, false));
}

void Fold::add_factor(const Bound& value) {
  if (value.low <= 0 && value.high >= 0 && !value.is_point()) {
    maybe_nan_ = true;
    return;
  }
  if (value.low == 0) {
    zero_ = true;
    return;
  }
  const double values[] = {low_ * value.low, low_ * value.high, high_ * value.low, high_ * value.high};
  low_ = *std::min_element(std::begin(values), std::end(values));
  high_ = *std::max_element(std::begin(values), std::end(values));
  const double larger = std::max(std::fabs(value.low), std::fabs(value.high));
  const double smaller = std::min(std::fabs(value.low), std::fabs(value.high));
  magnitude_ *= std::max(1.0, larger);
  smallest_ *= std::min(1.0, smaller);
  points_ = points_ && value.is_point();
  if (points_ && std::isfinite(value.low)) {
    const int span = mantissa_bits(value.low).span;
    bits_ += span > 1 ? span : 0;  // powers of two add no bits to a product
  }
}

Bound Fold::prod() const {
  if (nan_) {
    return nan_bound();
  }
  // Some order may be out of range or compute 0 * infinity.
  if (maybe_nan_ || !(magnitude_ <= largest(type_) / 2) || smallest_ < smallest_normal(type_) * 2) {
    return anything(type_);
  }
  if (zero_) {
    return range(0, 0, false);
  }
  if (points_ && bits_ <= digits(type_)) {
    return rounded_to(type_, range(low_, high_, false));
  }
  const double own = type_ == Type::kF64 ? 2 : 1;
  const double relative = kProductUnits * own * half_unit(type_) * 1.01 * count_;
  return rounded_to(type_,
                    range(low_ - relative * std::fabs(low_), high_ + relative * std::fabs(high_), false));
}

Bound Fold::result() const {
  if (!program::is_float(type_) || (op_ != Op::kAdd && op_ != Op::kMul)) {
    return folded_;
  }
  return op_ == Op::kAdd ? sum() : prod();
}

}  // namespace yoke::conformance
