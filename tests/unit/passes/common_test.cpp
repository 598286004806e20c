// SPDX-License-Identifier: Apache-2.0
// tests/unit/passes/common_test.cpp: equal statements over unchanged inputs are computed once.
#include "pass_text.h"

namespace yoke::passes {
namespace {

TEST(CommonStatements, AreComputedOnceWhateverTheirLoopsAreCalled) {
  expect_turns(eliminate_common,
               "  arg x : f32[4, 8] in\n"
               "  arg y : f32[4] out\n"
               "  temp a : f32[4]\n"
               "  temp b : f32[4]\n"
               "  a[i] = sum[k] exp(x[i, k])\n"
               "  b[n] = sum[m] exp(x[n, m])\n"
               "  y[i] = a[i] / b[i]\n",
               "  arg x : f32[4, 8] in\n"
               "  arg y : f32[4] out\n"
               "  temp a : f32[4]\n"
               "  a[i] = sum[k] exp(x[i, k])\n"
               "  y[i] = a[i] / a[i]\n");
}

TEST(CommonStatements, ATemporaryMovesIntoTheArgumentThatHoldsTheSame) {
  expect_turns(eliminate_common,
               "  arg x : f32[4] in\n"
               "  arg y : f32[4] out\n"
               "  arg z : f32[4] out\n"
               "  temp a : f32[4]\n"
               "  a[i] = exp(x[i])\n"
               "  z[i] = a[i] * 2.0\n"
               "  y[i] = exp(x[i])\n",
               "  arg x : f32[4] in\n"
               "  arg y : f32[4] out\n"
               "  arg z : f32[4] out\n"
               "  y[i] = exp(x[i])\n"
               "  z[i] = y[i] * 2.0\n");
}

TEST(CommonStatements, TwoArgumentsShareAReductionByACopy) {
  expect_turns(eliminate_common,
               "  arg x : f32[4, 8] in\n"
               "  arg y : f32[4] out\n"
               "  arg z : f32[4] out\n"
               "  y[i] = sum[k] x[i, k]\n"
               "  z[i] = sum[k] x[i, k]\n",
               "  arg x : f32[4, 8] in\n"
               "  arg y : f32[4] out\n"
               "  arg z : f32[4] out\n"
               "  y[i] = sum[k] x[i, k]\n"
               "  z[i] = y[i]\n");
}

TEST(CommonStatements, TheSameStatementTwiceIsOneOfThem) {
  expect_turns(eliminate_common,
               "  arg x : f32[4] in\n"
               "  arg y : f32[4] out\n"
               "  y[i] = exp(x[i])\n"
               "  y[i] = exp(x[i])\n",
               "  arg x : f32[4] in\n"
               "  arg y : f32[4] out\n"
               "  y[i] = exp(x[i])\n");
}

TEST(CommonStatements, StayWhereAnInputChangedInBetween) {
  expect_keeps(eliminate_common,
               "  arg x : f32[4] inout\n"
               "  arg y : f32[4] out\n"
               "  temp a : f32[4]\n"
               "  temp b : f32[4]\n"
               "  a[i] = exp(x[i])\n"
               "  x[i] = x[i] + 1.0\n"
               "  b[i] = exp(x[i])\n"
               "  y[i] = a[i] + b[i]\n");
}

TEST(CommonStatements, StayWhereTheyReadWhatTheyWrite) {
  expect_keeps(eliminate_common,
               "  arg x : f32[4] inout\n"
               "  x[i] = x[i] + 1.0\n"
               "  x[i] = x[i] + 1.0\n");
}

TEST(CommonStatements, StayWhereTheFirstResultIsOverwrittenWhileTheSecondIsNeeded) {
  expect_keeps(eliminate_common,
               "  arg x : f32[4] in\n"
               "  arg y : f32[4] out\n"
               "  temp a : f32[4]\n"
               "  temp b : f32[4]\n"
               "  a[i] = exp(x[i])\n"
               "  b[i] = exp(x[i])\n"
               "  a[i] = a[i] + b[i]\n"
               "  y[i] = a[i] * b[i]\n");
}

TEST(CommonStatements, StayWhereTheFirstResultIsGoneBeforeTheSecondIsComputed) {
  expect_keeps(eliminate_common,
               "  arg x : f32[4] in\n"
               "  arg y : f32[4] out\n"
               "  temp a : f32[4]\n"
               "  temp b : f32[4]\n"
               "  a[i] = exp(x[i])\n"
               "  a[i] = a[i] + 1.0\n"
               "  b[i] = exp(x[i])\n"
               "  y[i] = a[i] * b[i]\n");
}

TEST(CommonStatements, StayWhereTheArgumentHoldsSomethingElseUntilThen) {
  expect_keeps(eliminate_common,
               "  arg x : f32[4] in\n"
               "  arg y : f32[4] inout\n"
               "  arg z : f32[4] out\n"
               "  temp a : f32[4]\n"
               "  a[i] = exp(x[i])\n"
               "  z[i] = a[i] * y[i]\n"
               "  y[i] = exp(x[i])\n");
}

TEST(CommonStatements, StayWhereTheyAccumulate) {
  expect_keeps(eliminate_common,
               "  arg x : f32[4] in\n"
               "  arg y : f32[4] inout\n"
               "  arg z : f32[4] inout\n"
               "  y[i] += exp(x[i])\n"
               "  z[i] += exp(x[i])\n");
}

TEST(CommonStatements, StayWhereAccumulatorsDiffer) {
  expect_keeps(eliminate_common,
               "  arg x : f32[4, 8] in\n"
               "  arg y : f32[4] out\n"
               "  arg z : f32[4] out\n"
               "  y[i] = sum[k] x[i, k]\n"
               "  z[i] = sum:f64[k] x[i, k]\n");
}

TEST(CommonStatements, StayInsideAHint) {
  expect_keeps(eliminate_common,
               "  arg x : f32[4] in\n"
               "  arg y : f32[4] out\n"
               "  arg z : f32[4] out\n"
               "  y[i] = exp(x[i])\n"
               "  @softmax {\n"
               "    z[i] = exp(x[i])\n"
               "  }\n");
}

}  // namespace
}  // namespace yoke::passes
