// SPDX-License-Identifier: Apache-2.0
// tests/unit/passes/recompute_test.cpp: values that are computed again, and results that take the place of an
// operand, to save memory.
#include "pass_text.h"

namespace yoke::passes {
namespace {

// `t` is needed before and after the statement during which the most memory is in use.
void expect_recomputes(const std::string& dims, const std::string& value, const std::string& last) {
  const std::string declared = " : f32" + dims;
  const std::string before =
      "temp t" + declared + "; temp u" + declared + "; temp v" + declared + "; t[i, j] = " + value +
      "; s[i] = sum[j] t[i, j]; u[i, j] = sin(x[i, j] * w[i, j]); v[i, j] = u[-i + 511, j] * cos(u[i, j]); ";
  expect_turns(
      recompute,
      "arg x" + declared + " in; arg w" + declared + " in; arg s : f32[512] out; arg y" + declared + " out",
      before + "y[i, j] = t[i, j] * v[i, j]", before + "y[i, j] = " + last + " * v[i, j]");
}

TEST(Recompute, LargeValueOfOneLiveOperandIsComputedAgainAfterThePeak) {
  expect_recomputes("[512, 1024]", "exp(x[i, j])", "exp(x[i, j])");
}

TEST(Recompute, KeepsSmallValuesAndThoseOfTwoLargeOperands) {
  expect_recomputes("[512, 16]", "exp(x[i, j])", "t[i, j]");
  expect_recomputes("[512, 1024]", "exp(x[i, j] + w[i, j])", "t[i, j]");
}

TEST(Recompute, KeepsAValueWhoseOperandWouldHaveToBeKept) {
  expect_keeps(
      recompute,
      "arg x : f32[512, 1024] in; arg w : f32[512, 1024] in; arg s : f32[512] out; arg y : f32[512, 1024] "
      "out",
      "temp a : f32[512, 1024]; temp t : f32[512, 1024]; temp u : f32[512, 1024]; "
      "temp v : f32[512, 1024]; a[i, j] = sin(x[i, j]); t[i, j] = exp(a[i, j]); s[i] = sum[j] t[i, j]; "
      "u[i, j] = cos(x[i, j] * w[i, j]); v[i, j] = u[-i + 511, j] * tanh(u[i, j]); y[i, j] = t[i, j] * v[i, "
      "j]");
}

// Two large values, u and v, are live during the last of these statements.
constexpr const char* kPeak = "u[i, j] = sin(x[i, j] * w[i, j]); v[i, j] = u[-i + 511, j] * cos(u[i, j]); ";
constexpr const char* kLarge = "temp t : f32[512, 1024]; temp u : f32[512, 1024]; temp v : f32[512, 1024]; ";

TEST(Recompute, ValueOutsideRegionsIsComputedAgainOutsideRegions) {
  const std::string before = std::string(kLarge) + "t[i, j] = exp(x[i, j]); s[j] = sum[i] t[i, j]; " + kPeak;
  expect_turns(recompute,
               "arg x : f32[512, 1024] in; arg w : f32[512, 1024] in; arg s : f32[1024] out; "
               "arg y : f32[512, 1024] out",
               before + "y[i, j] = t[i, j] * v[-i + 511, j]",
               before + "y[i, j] = exp(x[i, j]) * v[-i + 511, j]");
}

TEST(Recompute, KeepsAValueWhoseReadersCannotComputeItOrWouldRepeatIt) {
  const std::string before = std::string(kLarge) + "t[i, j] = exp(x[i, j]); s[i] = sum[j] t[i, j]; " + kPeak;
  for (const std::string last :
       {"x[i, j] = w[i, j]; y[i, j] = t[i, j] * v[i, j]",   // the operand is overwritten
        "y[i, j] = max[k:4] t[i, k] * v[i, j]",             // reads elements repeatedly
        "s[i] = sum[j] t[i, j] * b[j]; y[i, j] = v[i, j]",  // a contraction
        "repeat n in 0..3 {y[i, j] = t[i, j] * v[i, j]; }"}) {
    expect_keeps(recompute,
                 "arg x : f32[512, 1024] inout; arg w : f32[512, 1024] in; arg b : f32[1024] in; "
                 "arg s : f32[512] out; arg y : f32[512, 1024] out",
                 before + last);
  }
}

TEST(Recompute, KeepsAValueThatOnlyOneRegionUses) {
  expect_keeps(
      recompute, "arg x : f32[512, 1024] in; arg w : f32[512, 1024] in; arg y : f32[512, 1024] out",
      "temp t : f32[512, 1024]; temp s : f32[512]; temp u : f32[512, 1024]; t[i, j] = exp(x[i, j]); "
      "s[i] = sum[j] t[i, j]; u[i, j] = tanh(x[i, j] * w[i, j]); y[i, j] = t[i, j] / s[i] * u[i, j]");
}

TEST(Recompute, ValueThatIsNotReadFromThePeakOnChangesNothing) {
  const Optimized result = optimize(program_of(program_text(
      "arg x : f32[512, 1024] in; arg w : f32[512, 1024] in; arg s : f32[512, 1024] out; "
      "arg y : f32[512, 1024] out; temp t : f32[512, 1024]; temp u : f32[512, 1024]; temp v : f32[512, "
      "1024]; "
      "t[i, j] = exp(x[i, j]); s[i, j] = t[-i + 511, j] * t[i, j]; u[i, j] = sin(x[i, j] * w[i, j]); "
      "v[i, j] = u[-i + 511, j] * cos(u[i, j]); y[i, j] = v[-i + 511, j] * v[i, j]")));
  EXPECT_EQ(result.report.recomputed, 0U);
  EXPECT_LE(result.report.sweeps, 3) << "a pass that changes nothing must say so";
}

TEST(Share, ResultTakesThePlaceOfAnOperandThatIsReadForTheLastTime) {
  expect_turns(
      share, "arg x : f32[4, 8] in; arg b : f32[4] in; arg y : f32[] out",
      "temp t : f32[4]; temp u : f32[4]; temp v : f32[4]; t[i] = sum[j] x[i, j]; u[i] = t[i] + b[i]; "
      "v[i] = exp(u[i]) * u[i]; y[] = sum[i] v[i]",
      "temp t : f32[4]; t[i] = sum[j] x[i, j]; t[i] = t[i] + b[i]; t[i] = exp(t[i]) * t[i]; "
      "y[] = sum[i] t[i]");
  expect_turns(share, "arg x : f32[4, 8] in; arg y : f32[4] out",
               "temp t : f32[4]; t[i] = sum[j] x[i, j]; y[i] = max(t[i], 0)",
               "y[i] = sum[j] x[i, j]; y[i] = max(y[i], 0)");
}

TEST(Share, KeepsOperandsThatAreReadLaterOrElsewhereOrDiffer) {
  const std::string arguments = "arg x : f32[4, 8] in; arg y : f32[4] inout; arg z : f32[] out";
  const std::string sum = "temp t : f32[4]; t[i] = sum[j] x[i, j]; ";
  expect_keeps(share, arguments, sum + "y[i] = max(t[i], 0); z[] = sum[i] t[i]");
  expect_keeps(share, arguments, sum + "z[] = 0; y[i] = t[-i + 3]");
  expect_keeps(share, arguments, sum + "z[] = sum[i] y[i]; y[i] = max(t[i], 0)");
  expect_keeps(share, arguments, "temp n : i32[4]; n[i] = i32(x[i, 0]); z[] = 0; y[i] = f32(n[i])");
}

}  // namespace
}  // namespace yoke::passes
