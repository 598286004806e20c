// SPDX-License-Identifier: Apache-2.0
// plugin_api/conformance/program/error_units.cpp: error budgets and the spacing of floats.
#include "error_units.h"

#include <algorithm>
#include <bit>
#include <cstdint>
#include <limits>

namespace yoke::conformance {

using program::Op;
using program::Type;

namespace {

int lowest_exponent(Type type) {
  return type == Type::kF64 ? -1022 : type == Type::kF16 ? -14 : -126;
}

}  // namespace

double error_units(Op op, Type type) {
  const program::OpInfo& info = program::op_info(op);
  return type == Type::kF64 ? info.f64_units : info.f32_units;
}

int digits(Type type) {
  return type == Type::kF64 ? 53 : type == Type::kF32 ? 24 : type == Type::kF16 ? 11 : 8;
}

double power_of_two(int exponent) {
  constexpr int kLowest = std::numeric_limits<double>::min_exponent - 1;
  if (exponent >= kLowest) {
    return std::bit_cast<double>(static_cast<std::uint64_t>(exponent - kLowest + 1) << 52U);
  }
  const int bit = exponent - kLowest + 52;  // of a subnormal number
  return bit < 0 ? 0 : std::bit_cast<double>(std::uint64_t{1} << static_cast<unsigned>(bit));
}

double largest(Type type) {
  switch (type) {
    case Type::kF64:
      return std::numeric_limits<double>::max();
    case Type::kF16:
      return 0x1.FFCp15;
    case Type::kBF16:
      return 0x1.FEp127;
    default:
      return 0x1.FFFFFEp127;
  }
}

double smallest_normal(Type type) {
  return power_of_two(lowest_exponent(type));
}

double half_unit(Type type) {
  return power_of_two(-digits(type));
}

double unit_at(Type type, double x) {
  // Subnormal numbers and 0 have the field 0.
  const auto field = static_cast<int>(std::bit_cast<std::uint64_t>(x) >> 52U & 0x7FFU);
  return power_of_two(std::max(field - 1023, lowest_exponent(type)) - digits(type) + 1);
}

}  // namespace yoke::conformance
