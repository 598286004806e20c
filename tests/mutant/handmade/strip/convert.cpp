// SPDX-License-Identifier: Apache-2.0
// tests/mutant/handmade/strip/convert.cpp: casts of strips.
#include <cmath>

#include "../bugs.h"
#include "values.h"

namespace yoke::strip {

using handmade::bug;

namespace {

std::int64_t saturated(Type type, double value) {
  if (type == Type::kBool) {
    return value != 0 ? 1 : 0;  // NaN is true
  }
  if (std::isnan(value)) {
    return bug("nan_lowest") ? program::lowest_integer(type) : 0;
  }
  const auto low = static_cast<double>(program::lowest_integer(type));
  const auto high = static_cast<double>(program::highest_integer(type));
  return value <= low    ? program::lowest_integer(type)
         : value >= high ? program::highest_integer(type)
                         : static_cast<std::int64_t>(value);
}

}  // namespace

void convert(Type from, Type to, std::size_t count, const Strip& value, Strip& out) {
  for (std::size_t k = 0; k < count; ++k) {
    if (program::is_float(from)) {
      if (program::is_float(to)) {
        out.real[k] = rounded(to, value.real[k]);
      } else {
        // With the bug vector_cast only: a cast saturates.
        const bool wraps = bug("vector_cast") && to == Type::kU8 && count == kStrip;
        const std::int64_t whole = saturated(wraps ? Type::kI64 : to, value.real[k]);
        out.whole[k] = wraps ? wrapped(to, whole) : whole;
      }
    } else if (program::is_float(to)) {
      const bool is_direct = to != Type::kF64 && !bug("cast_twice");
      out.real[k] = rounded(to, is_direct ? static_cast<double>(static_cast<float>(value.whole[k]))
                                          : static_cast<double>(value.whole[k]));
    } else {
      out.whole[k] = wrapped(to, value.whole[k]);
    }
  }
}

}  // namespace yoke::strip
