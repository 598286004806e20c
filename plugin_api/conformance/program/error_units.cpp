// SPDX-License-Identifier: Apache-2.0
// plugin_api/conformance/program/error_units.cpp: error budgets and the spacing of floats.
#include "error_units.h"

#include <algorithm>
#include <cmath>

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

double largest(Type type) {
  const int exponent = type == Type::kF64 ? 1024 : type == Type::kF16 ? 16 : 128;
  return std::ldexp(1 - std::ldexp(1.0, -digits(type)), exponent);
}

double smallest_normal(Type type) {
  return std::ldexp(1.0, lowest_exponent(type));
}

double half_unit(Type type) {
  return std::ldexp(1.0, -digits(type));
}

double unit_at(Type type, double x) {
  int exponent = -2000;
  if (x != 0) {
    std::frexp(x, &exponent);
  }
  return std::ldexp(1.0, std::max(exponent - 1, lowest_exponent(type)) - digits(type) + 1);
}

}  // namespace yoke::conformance
