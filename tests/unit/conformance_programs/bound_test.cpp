// SPDX-License-Identifier: Apache-2.0
// tests/unit/conformance_programs/bound_test.cpp: correct results are
// within the bounds and wrong results are not.
#include <gtest/gtest.h>
#include <yoke/program/text.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <numeric>

#include "../../support/rounds.h"
#include "error_units.h"
#include "evaluate.h"
#include "generator.h"

namespace yoke::conformance {
namespace {

using program::Op;
using program::Type;

std::vector<Bounds> bounds_of(const program::Program& program, const Contents& start,
                              const std::vector<std::int64_t>& symbols) {
  return evaluate_bounds(program, std::vector<std::span<const std::byte>>(start.begin(), start.end()),
                         symbols);
}

TEST(Bounds, ContainTheReferenceResultAndAreMostlyExact) {
  std::uint64_t elements = 0;
  std::uint64_t exact = 0;
  std::uint64_t anything = 0;
  for (std::uint64_t index = 0; index < test::rounds(1500); ++index) {
    const Case one = generate_case(11, index, {0x3FE, false});
    const Contents start = initial_arguments(one);
    const Contents expected = reference_results(one, one.launches[0]);
    const std::vector<Bounds> bounds = bounds_of(one.program, start, one.launches[0]);
    const std::vector<std::uint32_t> arguments = one.program.arguments();
    for (std::size_t i = 0; i < arguments.size(); ++i) {
      Mismatch mismatch;
      ASSERT_FALSE(
          find_mismatch(one.program, arguments[i], bounds[arguments[i]], expected[i], expected[i], mismatch))
          << describe(one.program, mismatch) << "\n"
          << program::print(one.program);
      for (const Bound& bound : bounds[arguments[i]]) {
        ++elements;
        exact += !bound.unknown && (bound.is_nan() || bound.low == bound.high) ? 1U : 0U;
        anything += bound.unknown || (bound.low == -kInfinity && bound.high == kInfinity) ? 1U : 0U;
      }
    }
  }
  EXPECT_GT(exact, elements * 8 / 10);
  EXPECT_LT(anything, elements / 100);
}

// Expects that the bounds of `text` reject the results of the same program with
// `from` replaced by `to`, for nearly all data.
void expect_found(const std::string& text, const std::string& from, const std::string& to, DataKind kind) {
  std::string wrong = text;
  wrong.replace(wrong.find(from), from.size(), to);
  Case one;
  one.seed = 5;
  one.program = program::parse_and_verify(text).programs[0];
  for (std::size_t i = 0; i < one.program.tensors.size(); ++i) {
    one.data.push_back({one.program.tensors[i].name == "idx" ? DataKind::kIndex : kind, 8, -1});
  }
  Case wrong_case = one;
  wrong_case.program = program::parse_and_verify(wrong).programs[0];
  int found = 0;
  for (one.index = 0; one.index < 20; ++one.index) {
    wrong_case.index = one.index;
    found += compare_results(one, {}, reference_results(wrong_case, {})).empty() ? 0 : 1;
  }
  EXPECT_GE(found, 19) << text << "with " << to << " in place of " << from;
}

std::string program_of(const std::string& body) {
  return "yoke.program 1\nprogram p() {\n" + body + "}\n";
}

TEST(Bounds, RejectWrongResults) {
  const std::string gather = program_of(
      "  arg x : f32[8] in\n  arg idx : i32[300] in\n  arg y : f32[] out\n  y[] = sum[i] (x[idx[i]] else "
      "0)\n");
  const std::string product = program_of(
      "  arg a : f32[9, 500] in\n  arg b : f32[7, 500] in\n  arg y : f32[9, 7] out\n  y[i, j] = sum[k] a[i, "
      "k] * b[j, k]\n");
  for (const DataKind kind : {DataKind::kDyadic, DataKind::kUniform}) {
    expect_found(gather, "else 0", "else 1", kind);
    expect_found(product, "sum[k]", "sum[k:499]", kind);
    expect_found(program_of("  arg x : f32[600] in\n  arg y : f32[] out\n  y[] = sum[i:599] x[i]\n"), "x[i]",
                 "x[i + 1]", kind);
    expect_found(program_of("  arg x : f32[64] in\n  arg y : f32[64] out\n  y[i] = exp(x[i])\n"), "exp(x[i])",
                 "exp(x[i] * 1.00001)", kind);
    expect_found(program_of("  arg x : f16[64] in\n  arg y : f16[64] out\n  y[i] = tanh(x[i])\n"),
                 "tanh(x[i])", "tanh(x[i]) * 1.01", kind);
    expect_found(program_of("  arg x : f32[64] in\n  arg y : f32[] out\n  y[] = max[i] x[i]\n"), "max[i]",
                 "min[i]", kind);
  }
  // A sum of bf16 values in place of f32 values.
  expect_found(program_of("  arg x : bf16[400] in\n  arg y : f32[] out\n  y[] = sum:f32[i] x[i] * x[i]\n"),
               "x[i] * x[i]", "bf16(f32(x[i]) * 0.99)", DataKind::kUniform);
}

TEST(Bounds, OfPowersKnowWhichAreOneAlsoForNan) {
  const std::string arguments = "  arg x : f32[600] in\n  arg y : f32[600] out\n";
  for (const char* power : {"pow(x[i], 0)", "pow(1, x[i])"}) {
    expect_found(program_of(arguments + "  y[i] = " + power + "\n"), power,
                 std::string("select(x[i] == x[i], ") + power + ", nan)", DataKind::kSpecial);
  }
  expect_found(program_of(arguments + "  y[i] = pow(x[i], 2)\n"), "pow(x[i], 2)",
               "select(x[i] == x[i], pow(x[i], 2), 1)", DataKind::kSpecial);
  expect_found(program_of(arguments + "  y[i] = pow(x[i], 31)\n"), "pow(x[i], 31)", "pow(x[i], 31) * 1.00001",
               DataKind::kPositive);
}

TEST(Bounds, ContainSumsInAnyOrder) {
  Case one;
  one.seed = 2;
  one.program = program::parse_and_verify(
                    program_of("  arg x : f32[1000] in\n  arg y : f32[] out\n  y[] = sum[i] x[i]\n"))
                    .programs[0];
  one.data = {{DataKind::kUniform, 1, -1}, {DataKind::kDyadic, 1, -1}};
  const Contents start = initial_arguments(one);
  const std::vector<Bounds> bounds = bounds_of(one.program, start, {});
  std::vector<float> x(1000);
  std::memcpy(x.data(), start[0].data(), 4000);
  const float backwards = std::accumulate(x.rbegin(), x.rend(), 0.0F);
  float strided = 0;
  for (std::size_t lane = 0; lane < 8; ++lane) {
    float part = 0;
    for (std::size_t i = lane; i < x.size(); i += 8) {
      part += x[i];
    }
    strided += part;
  }
  const auto exact = static_cast<float>(std::accumulate(x.begin(), x.end(), 0.0));
  for (const float sum : {backwards, strided, exact}) {
    EXPECT_TRUE(allows(Type::kF32, bounds[1][0], {static_cast<double>(sum), 0}));
  }
  EXPECT_LT(bounds[1][0].high - bounds[1][0].low, 0.3);
}

TEST(Bounds, AreExactForExactData) {
  Fold sum(Op::kAdd, Type::kF32);
  for (int i = 0; i < 1000; ++i) {
    sum.add(bound_of(Type::kF32, {0.125 * (i % 7 - 3), 0}));
  }
  EXPECT_TRUE(sum.result().is_point());
  Fold inexact(Op::kAdd, Type::kF32);
  inexact.add(bound_of(Type::kF32, {0x1p24, 0}));
  inexact.add(bound_of(Type::kF32, {1, 0}));
  EXPECT_FALSE(inexact.result().is_point());
  Fold product(Op::kMul, Type::kF32);
  product.add(bound_of(Type::kF32, {0.5, 0}));
  product.add(bound_of(Type::kF32, {-2, 0}));
  EXPECT_TRUE(product.result().is_point());
}

// The second program gets the memory of the first one.
TEST(Bounds, DoNotDependOnThePreviousProgram) {
  for (const int count : {9000, 6000}) {
    const std::string dims = " : i32[" + std::to_string(count) + "] ";
    const program::Program program =
        program::parse_and_verify(program_of("  arg x" + dims + "in\n  arg y" + dims + "out\n  temp t" +
                                             dims + "\n  t[i] = x[i] + 1\n  y[i] = t[i] * 2\n"))
            .programs[0];
    Contents contents(2, std::vector<std::byte>(static_cast<std::size_t>(count) * 4));
    std::memcpy(contents[0].data(), &count, 4);
    std::vector<Bounds> bounds = bounds_of(program, contents, {});
    ASSERT_EQ(bounds[1].size(), static_cast<std::size_t>(count));
    EXPECT_EQ(bounds[1].front().integer, (count + 1) * 2);
    EXPECT_EQ(bounds[1].back().integer, 2);
    recycle(std::move(bounds));
  }
}

// A backend may add an unrounded product, which is finite where the rounded one is infinite.
TEST(Bounds, ContainProductsThatOverflowOnlyIfRounded) {
  for (const Type type : {Type::kF32, Type::kF64}) {
    const Bound factors[] = {bound_of(type, {-largest(type), 0}), bound_of(type, {2, 0})};
    const Bound* pointers[] = {&factors[0], &factors[1]};
    const Bound product = apply_bound(Op::kMul, type, pointers);
    EXPECT_TRUE(allows(type, settled(product), {-kInfinity, 0}));
    EXPECT_FALSE(allows(type, settled(product), {-largest(type), 0}));
    Fold sum(Op::kAdd, type);
    sum.add(product);
    sum.add(bound_of(type, {kInfinity, 0}));
    EXPECT_TRUE(allows(type, sum.result(), {kInfinity, 0}));
    EXPECT_TRUE(allows(type, sum.result(), {std::nan(""), 0}));
  }
}

// A backend may add an unrounded product that is below the smallest number; in f64 its rounding error is, too.
TEST(Bounds, ContainFusedProductsBelowTheSmallestNumber) {
  for (const Type type : {Type::kF32, Type::kF64}) {
    const double unit = unit_at(type, 0);
    const Bound factors[] = {bound_of(type, {unit, 0}), bound_of(type, {0.5, 0})};
    const Bound* pointers[] = {&factors[0], &factors[1]};
    const Bound product = apply_bound(Op::kMul, type, pointers);
    EXPECT_TRUE(settled(product).is_point());
    EXPECT_TRUE(allows(type, settled(product), {0, 0}));
    const Bound* terms[] = {&product, &factors[0]};
    const Bound sum = apply_bound(Op::kAdd, type, terms);
    EXPECT_TRUE(allows(type, sum, {unit, 0}));      // the product is rounded to 0
    EXPECT_TRUE(allows(type, sum, {2 * unit, 0}));  // 1.5 units, rounded once
    EXPECT_FALSE(allows(type, sum, {4 * unit, 0}));
  }
}

// The sum of x * w for 1, 0.5, 1, 0.5, ... times the smallest number, where fused operations round up to even.
template <class T>
void expect_fused_sum_of_smallest_numbers_is_allowed(const std::string& type_name) {
  constexpr std::size_t kCount = 8;
  const std::string count = std::to_string(kCount);
  const program::Program program =
      program::parse_and_verify(
          program_of("  arg x : " + type_name + "[" + count + "] in\n  arg w : " + type_name + "[" + count +
                     "] in\n  arg y : " + type_name + "[] out\n  y[] = sum[k] x[k] * w[k]\n"))
          .programs[0];
  const T unit = std::numeric_limits<T>::denorm_min();
  const std::vector<T> x(kCount, unit);
  std::vector<T> w(kCount, 1);
  T fused = 0;
  for (std::size_t i = 0; i < kCount; ++i) {
    w[i] = i % 2 == 0 ? T{1} : T{0.5};
    fused = std::fma(x[i], w[i], fused);
  }
  ASSERT_EQ(fused, kCount * unit);
  Contents contents(3, std::vector<std::byte>(kCount * sizeof(T)));
  contents[2].resize(sizeof(T));
  std::memcpy(contents[0].data(), x.data(), kCount * sizeof(T));
  std::memcpy(contents[1].data(), w.data(), kCount * sizeof(T));
  const Bound sum = bounds_of(program, contents, {})[2][0];
  const Type type = program.tensors[2].type;
  EXPECT_TRUE(allows(type, sum, {fused, 0})) << type_name << ": " << sum.low << " .. " << sum.high;
  EXPECT_TRUE(allows(type, sum, {kCount / 2 * unit, 0}));  // every product is rounded
  EXPECT_FALSE(allows(type, sum, {4 * kCount * unit, 0}));
}

TEST(Bounds, ContainFusedSumsOfSmallestNumbers) {
  expect_fused_sum_of_smallest_numbers_is_allowed<float>("f32");
  expect_fused_sum_of_smallest_numbers_is_allowed<double>("f64");
}

// The first value is infinite if the product is rounded; then it equals the second one and comes first.
TEST(Bounds, LeaveAnArgumentOpenIfAnEarlierOneMayEqualTheBest) {
  const program::Program program =
      program::parse_and_verify(
          program_of("  arg x : f32[2] in\n  arg w : f32[2] in\n  arg z : f32[2] in\n  arg y : i32[] out\n"
                     "  y[] = argmax[k] x[k] * w[k] - z[k]\n"))
          .programs[0];
  const float most = std::numeric_limits<float>::max();
  const float values[3][2] = {{most, std::numeric_limits<float>::infinity()}, {1.5F, 1}, {most, 1}};
  Contents contents(4, std::vector<std::byte>(8));
  for (std::size_t i = 0; i < 3; ++i) {
    std::memcpy(contents[i].data(), values[i], 8);
  }
  const std::vector<Bounds> bounds = bounds_of(program, contents, {});
  EXPECT_TRUE(allows(Type::kI32, bounds[3][0], {0, 0}));
  EXPECT_TRUE(allows(Type::kI32, bounds[3][0], {0, 1}));
}

TEST(Bounds, HandleNaNInfinityAndSignedZero) {
  const Bound zero = bound_of(Type::kF32, {-0.0, 0});
  EXPECT_TRUE(allows(Type::kF32, zero, {-0.0, 0}));
  EXPECT_FALSE(allows(Type::kF32, zero, {0.0, 0}));
  const Bound nan = bound_of(Type::kF32, {std::nan(""), 0});
  EXPECT_TRUE(allows(Type::kF32, nan, {std::nan(""), 0}));
  EXPECT_FALSE(allows(Type::kF32, nan, {0, 0}));
  Fold sum(Op::kAdd, Type::kF32);
  sum.add(bound_of(Type::kF32, {kInfinity, 0}));
  sum.add(bound_of(Type::kF32, {1, 0}));
  EXPECT_TRUE(allows(Type::kF32, sum.result(), {kInfinity, 0}));
  sum.add(bound_of(Type::kF32, {-kInfinity, 0}));
  EXPECT_TRUE(sum.result().is_nan());
}

TEST(ErrorUnits, HaveABudgetForEachInexactFunction) {
  for (std::size_t i = 0; i < program::kOpCount; ++i) {
    const Op op = static_cast<Op>(i);
    const program::OpInfo& info = program::op_info(op);
    if (info.family == program::Family::kFunction) {
      EXPECT_GT(error_units(op, Type::kF32), 0) << info.name;
      EXPECT_GT(error_units(op, Type::kF64), 0) << info.name;
    }
  }
  EXPECT_EQ(error_units(Op::kAdd, Type::kF32), 0);
  EXPECT_EQ(error_units(Op::kExp, Type::kF32), 4);
  EXPECT_EQ(unit_at(Type::kF32, 1.0), 0x1p-23);
  EXPECT_EQ(unit_at(Type::kF32, 0), 0x1p-149);
  EXPECT_EQ(largest(Type::kF64), std::numeric_limits<double>::max());
  EXPECT_EQ(largest(Type::kF32), static_cast<double>(std::numeric_limits<float>::max()));
  EXPECT_EQ(largest(Type::kF16), 65504);
  EXPECT_EQ(largest(Type::kBF16), 0x1.FEp127);
}

}  // namespace
}  // namespace yoke::conformance
