// SPDX-License-Identifier: Apache-2.0
// tests/unit/passes/common_test.cpp: equal statements over unchanged inputs are computed once.
#include "pass_text.h"

namespace yoke::passes {
namespace {

TEST(CommonStatements, LoopNamesDoNotMatter) {
  expect_turns(eliminate_common, "arg x : f32[4, 8] in; arg y : f32[4] out",
               "temp a : f32[4]; temp b : f32[4]; a[i] = sum[k] exp(x[i, k]); "
               "b[n] = sum[m] exp(x[n, m]); y[i] = a[i] / b[i]",
               "temp a : f32[4]; a[i] = sum[k] exp(x[i, k]); y[i] = a[i] / a[i]");
}

TEST(CommonStatements, TemporaryIsReplacedByAnArgumentWithTheSameValue) {
  expect_turns(eliminate_common, "arg x : f32[4] in; arg y : f32[4] out; arg z : f32[4] out",
               "temp a : f32[4]; a[i] = exp(x[i]); z[i] = a[i] * 2.0; y[i] = exp(x[i])",
               "y[i] = exp(x[i]); z[i] = y[i] * 2.0");
}

TEST(CommonStatements, TemporaryIsReplacedByAnEarlierArgumentWithTheSameValue) {
  expect_turns(eliminate_common, "arg x : f32[4] in; arg y : f32[4] out; arg z : f32[4] out",
               "temp a : f32[4]; y[i] = exp(x[i]); a[i] = exp(x[i]); z[i] = a[i] * 2.0",
               "y[i] = exp(x[i]); z[i] = y[i] * 2.0");
}

TEST(CommonStatements, SecondArgumentWithTheSameReductionIsACopy) {
  expect_turns(eliminate_common, "arg x : f32[4, 8] in; arg y : f32[4] out; arg z : f32[4] out",
               "y[i] = sum[k] x[i, k]; z[i] = sum[k] x[i, k]", "y[i] = sum[k] x[i, k]; z[i] = y[i]");
}

TEST(CommonStatements, RepeatedStatementIsRemoved) {
  expect_turns(eliminate_common, "arg x : f32[4] in; arg y : f32[4] out",
               "y[i] = exp(x[i]); y[i] = exp(x[i])", "y[i] = exp(x[i])");
}

TEST(CommonStatements, StatementsWithAChangedInputAreKept) {
  expect_keeps(eliminate_common, "arg x : f32[4] inout; arg y : f32[4] out",
               "temp a : f32[4]; temp b : f32[4]; a[i] = exp(x[i]); x[i] = x[i] + 1.0; "
               "b[i] = exp(x[i]); y[i] = a[i] + b[i]");
}

TEST(CommonStatements, InPlaceStatementsAreKept) {
  expect_keeps(eliminate_common, "arg x : f32[4] inout", "x[i] = x[i] + 1.0; x[i] = x[i] + 1.0");
}

TEST(CommonStatements, KeptIfTheFirstResultIsOverwrittenWhileTheSecondIsLive) {
  expect_keeps(eliminate_common, "arg x : f32[4] in; arg y : f32[4] out",
               "temp a : f32[4]; temp b : f32[4]; a[i] = exp(x[i]); b[i] = exp(x[i]); "
               "a[i] = a[i] + b[i]; y[i] = a[i] * b[i]");
}

TEST(CommonStatements, KeptIfTheFirstResultIsOverwrittenBeforeTheSecond) {
  expect_keeps(eliminate_common, "arg x : f32[4] in; arg y : f32[4] out",
               "temp a : f32[4]; temp b : f32[4]; a[i] = exp(x[i]); a[i] = a[i] + 1.0; "
               "b[i] = exp(x[i]); y[i] = a[i] * b[i]");
}

TEST(CommonStatements, KeptIfTheArgumentIsReadBeforeTheSecond) {
  expect_keeps(eliminate_common, "arg x : f32[4] in; arg y : f32[4] inout; arg z : f32[4] out",
               "temp a : f32[4]; a[i] = exp(x[i]); z[i] = a[i] * y[i]; y[i] = exp(x[i])");
}

TEST(CommonStatements, KeptIfTheArgumentIsWrittenAgainWhileTheTemporaryIsLive) {
  expect_keeps(eliminate_common, "arg x : f32[4] in; arg y : f32[4] out; arg z : f32[4] out",
               "temp a : f32[4]; a[i] = exp(x[i]); y[i] = exp(x[i]); y[i] = y[i] + 1.0; z[i] = a[i] * 2.0");
}

TEST(CommonStatements, EqualContentsWrittenInPartsHaveTheSameValue) {
  const std::string arguments = "arg x : f32[4] in; arg y : f32[8] out; arg z : f32[8] out; ";
  const std::string write = "t[i] = 1.0; t[i + 4] for[i:4] = x[i]; ";
  expect_turns(
      eliminate_common, arguments + "temp t : f32[8]",
      "temp a : f32[8]; temp b : f32[8]; " + write + "a[i] = exp(t[i]); " + write +
          "b[i] = exp(t[i]); y[i] = a[i] * t[i]; z[i] = b[i] - t[i]",
      "temp a : f32[8]; " + write + "a[i] = exp(t[i]); " + write + "y[i] = a[i] * t[i]; z[i] = a[i] - t[i]");
}

TEST(CommonStatements, EqualPartsOfDifferentTensorsAreKept) {
  expect_keeps(eliminate_common, "arg x : f32[4] in; arg y : f32[8] out; arg z : f32[8] out",
               "temp t : f32[8]; temp u : f32[8]; t[i] = 1.0; u[i] = 2.0; t[i + 4] for[i:4] = x[i]; "
               "u[i + 4] for[i:4] = x[i]; y[i] = exp(t[i]); z[i] = exp(u[i])");
}

TEST(CommonStatements, AccumulatingStatementsAreKept) {
  expect_keeps(eliminate_common, "arg x : f32[4] in; arg y : f32[4] inout; arg z : f32[4] inout",
               "y[i] += exp(x[i]); z[i] += exp(x[i])");
}

TEST(CommonStatements, StatementsWithDifferentAccumulatorsAreKept) {
  expect_keeps(eliminate_common, "arg x : f32[4, 8] in; arg y : f32[4] out; arg z : f32[4] out",
               "y[i] = sum[k] x[i, k]; z[i] = sum:f64[k] x[i, k]");
}

TEST(CommonStatements, StatementsWithDifferentReductionsAreKept) {
  expect_keeps(eliminate_common, "arg x : f32[4, 8] in; arg y : f32[4] out; arg z : f32[4] out",
               "y[i] = sum[k] x[i, k]; z[i] = max[k] x[i, k]");
}

TEST(CommonStatements, ThirdIsReplacedByTheSecondIfTheFirstResultIsOverwritten) {
  expect_turns(eliminate_common, "arg x : f32[4] in; arg y : f32[4] out",
               "temp a : f32[4]; temp b : f32[4]; temp c : f32[4]; a[i] = exp(x[i]); a[i] = a[i] + 1.0; "
               "b[i] = exp(x[i]); c[i] = exp(x[i]); y[i] = a[i] * b[i] - c[i]",
               "temp a : f32[4]; temp b : f32[4]; a[i] = exp(x[i]); a[i] = a[i] + 1.0; "
               "b[i] = exp(x[i]); y[i] = a[i] * b[i] - b[i]");
}

TEST(CommonStatements, DifferentGuardsAndDivisorsAreKept) {
  const std::string arguments =
      "arg x : f32[4] in; arg z : f32[4] in; arg y : f32[4] out; arg v : f32[4] out; arg w : f32[4] out";
  expect_keeps(eliminate_common, arguments,
               "y[i] = sum[k:2] (x[i + k] * z[i] else 1.0); v[i] = sum[k:2] (x[i + k] * z[i] else 2.0); "
               "w[i] = sum[k:2] (x[(i + k) / 2] * z[i] else 1.0)");
  // An `else` of its own keeps the first read from the guard.
  expect_keeps(eliminate_common, arguments,
               "y[i] = sum[k:2] (x[i + k] * z[i] else 1.0); v[i] = sum[k:2] ((x[i + k] else 0) * z[i] else "
               "1.0); w[i] = 0.0");
  expect_turns(
      eliminate_common, arguments,
      "y[i] = sum[k:2] (x[i + k] * z[i] else 1.0); v[i] = sum[k:2] (z[i] * x[i + k] else 1.0); w[i] = 0.0",
      "y[i] = sum[k:2] (x[i + k] * z[i] else 1.0); v[i] = y[i]; w[i] = 0.0");
}

TEST(CommonStatements, StatementsInAHintAreKept) {
  expect_keeps(eliminate_common, "arg x : f32[4] in; arg y : f32[4] out; arg z : f32[4] out",
               "y[i] = exp(x[i]); @softmax { z[i] = exp(x[i]); }");
}

}  // namespace
}  // namespace yoke::passes
