// SPDX-License-Identifier: Apache-2.0
// plugin_api/conformance/program/borders.h: the values of each type at which kernels go wrong.
#pragma once

#include <yoke/program/program.h>

#include <cstdint>
#include <string>
#include <vector>

namespace yoke::conformance {

// Infinities, NaN, zeros, subnormals, halves, powers of two, limits of the integer types, ties of the 16-bit types. The
// most common ones come first. Empty for types that are not floats.
std::vector<double> float_borders(program::Type type);

// Limits of the type and of narrower types, and the neighbors of numbers that f32 and f64 cannot tell apart. Empty for
// floats and bool.
std::vector<std::int64_t> integer_borders(program::Type type);

inline std::string name_of(program::Type type) {
  return std::string(program::type_name(type));
}

}  // namespace yoke::conformance
