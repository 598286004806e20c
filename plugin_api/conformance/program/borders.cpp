// SPDX-License-Identifier: Apache-2.0
// plugin_api/conformance/program/borders.cpp: lists of border values, rounded to each type.
#include "borders.h"

#include <cmath>
#include <limits>

#include "error_units.h"
#include "number.h"
#include "scalar.h"

namespace yoke::conformance {

using program::Type;

std::vector<double> float_borders(Type type) {
  if (!program::is_float(type)) {
    return {};
  }
  constexpr double kInf = std::numeric_limits<double>::infinity();
  const double most = largest(type);
  const double normal = smallest_normal(type);
  const double step = std::ldexp(1.0, 1 - digits(type));  // from 1 to the next number
  std::vector<double> all = {0.0,
                             -0.0,
                             kInf,
                             -kInf,
                             std::numeric_limits<double>::quiet_NaN(),
                             most,
                             -most,
                             normal,
                             normal * step,
                             -3 * normal * step,
                             normal * (1 - step),
                             1,
                             -1,
                             0.5,
                             -0.5,
                             1.5,
                             2.5,
                             -2.5,
                             3,
                             -7,
                             1 + step,
                             1 - step / 2,
                             1 / step - 1,
                             1 / step + 0.5,
                             -2 / step,
                             0.1,
                             -20,
                             90,
                             255.5,
                             -33};
  for (const double value :
       {127.5, 128.0, 255.0, 256.0, 300.0, -1e-3, 719.0, -750.0, 65504.0, 65519.9, 65520.0, 65536.0, -65537.0,
        2147483520.0, 2147483647.0, 2147483648.0, -2147483648.0, -2147483904.0, 4294967040.0, 4294967295.0,
        4294967296.0, 9.2e18, 0x1p63, -0x1p63, -1.9e19, 1e38, 3.4e38, 3.39e38, -0.99, 0.4999,
        // Ties of the 16-bit types, and numbers just beyond them.
        1 + 0x1p-11, 1 + 0x3p-11, 1 + 0x1p-11 + 0x1p-23, 1 + 0x1p-11 + 0x1p-40, 1 + 0x1p-8, 1 + 0x3p-8,
        1 + 0x1p-8 + 0x1p-20, 0x1p-25, 0x3p-25, 0x1.01p-25, 0x1p-134, 0x3p-134, 0x1p-149, 1 + 0x1p-24,
        1 + 0x3p-24, 1 + 0x1p-24 + 0x1p-50}) {
    all.push_back(value);
  }
  for (double& value : all) {
    value = program::round_to_type(type, value);
  }
  return all;
}

std::vector<std::int64_t> integer_borders(Type type) {
  if (program::is_float(type) || type == Type::kBool) {
    return {};
  }
  const std::int64_t low = program::lowest_integer(type);
  const std::int64_t high = program::highest_integer(type);
  std::vector<std::int64_t> all = {low, high, 0,  -1, 1,  low + 1, high - 1, 2,  -2, 3,
                                   7,   -7,   31, 32, 33, 63,      64,       65, 8};
  for (const std::int64_t about : {std::int64_t{1} << 53, std::int64_t{1} << 24, std::int64_t{1} << 31,
                                   std::int64_t{1} << 32, -(std::int64_t{1} << 53), std::int64_t{128}}) {
    all.insert(all.end(), {about, about + 1, about - 1});
  }
  all.insert(all.end(),
             {high / 2 + 1, low / 2, -33, 10, 100, 255, 256, 300, 65536, 16777219, 9007199254740995, 46341});
  for (std::int64_t& value : all) {
    value = program::wrap_to_type(type, value);
  }
  return all;
}

}  // namespace yoke::conformance
