// SPDX-License-Identifier: Apache-2.0
// tests/mutant/handmade/strip/values.h: strips of 64 values and the operations on them.
#pragma once

#include <yoke/program/program.h>

#include <array>
#include <cstddef>
#include <cstdint>

namespace yoke::strip {

namespace program = yoke::program;
using program::Op;
using program::Type;

inline constexpr std::size_t kStrip = 64;

// Floats of every type are kept as f64, integers and bool as i64. Each value fits its type.
struct Strip {
  std::array<double, kStrip> real;
  std::array<std::int64_t, kStrip> whole;
};

// The nearest value of the type.
double rounded(Type type, double value);
std::int64_t wrapped(Type type, std::int64_t value);

void convert(Type from, Type to, std::size_t count, const Strip& value, Strip& out);
// `args` have the type `type`, for select the last two.
void apply(Op op, Type type, std::size_t count, const std::array<Strip, 3>& args, Strip& out);
// Element k of the strip is `step` elements after element k - 1.
void load(Type type, std::size_t count, const void* first, std::int64_t step, Strip& out);
void store(Type type, std::size_t count, const Strip& value, void* first, std::int64_t step);

// IEEE 754-2019 minimum and maximum.
double extreme(double x, double y, bool is_max);

}  // namespace yoke::strip
