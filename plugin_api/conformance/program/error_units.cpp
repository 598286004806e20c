// SPDX-License-Identifier: Apache-2.0
// plugin_api/conformance/program/error_units.cpp: the table of error budgets.
#include "error_units.h"

#include <algorithm>
#include <cmath>

namespace yoke::conformance {

using program::Op;
using program::Type;

namespace {

constexpr std::string_view kOpenCl = "OpenCL C 3.0, full profile, table of relative errors in ULP";
constexpr std::string_view kOpenClRounded = "OpenCL C 3.0, rounded up to a whole unit";
constexpr std::string_view kDouble = "OpenCL C 3.0: at most this for f32, and one unit for f64";
constexpr std::string_view kComposed = "1 / (1 + exp(-x)): exp, a sum and a division";

constexpr ErrorUnits kTable[] = {
    {Op::kDiv, 3, 1, kDouble},          {Op::kRecip, 3, 1, kDouble},      {Op::kSqrt, 3, 1, kDouble},
    {Op::kRsqrt, 3, 3, kOpenClRounded}, {Op::kExp, 4, 4, kOpenClRounded}, {Op::kExp2, 4, 4, kOpenClRounded},
    {Op::kExpm1, 4, 4, kOpenClRounded}, {Op::kLog, 4, 4, kOpenClRounded}, {Op::kLog2, 4, 4, kOpenClRounded},
    {Op::kLog1p, 4, 4, kOpenClRounded}, {Op::kPow, 16, 16, kOpenCl},      {Op::kSin, 4, 4, kOpenCl},
    {Op::kCos, 4, 4, kOpenCl},          {Op::kTanh, 5, 5, kOpenCl},       {Op::kSigmoid, 8, 8, kComposed},
    {Op::kErf, 16, 16, kOpenCl},        {Op::kErfc, 16, 16, kOpenCl},
};

int lowest_exponent(Type type) {
  return type == Type::kF64 ? -1022 : type == Type::kF16 ? -14 : -126;
}

}  // namespace

std::span<const ErrorUnits> error_table() {
  return kTable;
}

double error_units(Op op, Type type) {
  for (const ErrorUnits& row : kTable) {
    if (row.op == op) {
      return type == Type::kF64 ? row.f64 : row.f32;
    }
  }
  return 0;
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
