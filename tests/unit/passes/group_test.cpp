// SPDX-License-Identifier: Apache-2.0
// tests/unit/passes/group_test.cpp: the passes work within repeat blocks and hints, and do not move
// statements into them or out of them.
#include "pass_text.h"

namespace yoke::passes {
namespace {

const std::string kRows = "arg w : f32[10, 4] in; arg y : f32[10, 4] out";

TEST(FuseInRepeatBlocks, ValuesOfTheSameRoundAreSubstituted) {
  expect_turns(fuse, kRows,
               "temp a : f32[4]; temp b : f32[4]; repeat t in 0..10 {a[i] = exp(w[t, i]); "
               "b[i] = a[i] * 3.0; y[t, i] = sin(b[i]); }",
               "repeat t in 0..10 {y[t, i] = sin(exp(w[t, i]) * 3.0); }");
}

TEST(FuseInRepeatBlocks, AValueOfThisRoundMayEnterARowThatIsWrittenForTheNext) {
  expect_turns(
      fuse, kRows,
      "temp h : f32[11, 4]; temp a : f32[4]; h[0, i] = 1.0; repeat t in 0..10 {a[i] = tanh(h[t, i]); "
      "h[t + 1, i] = a[i] * w[t, i]; y[t, i] = h[t + 1, i]; }",
      "temp h : f32[11, 4]; h[0, i] = 1.0; repeat t in 0..10 {"
      "h[t + 1, i] = tanh(h[t, i]) * w[t, i]; y[t, i] = h[t + 1, i]; }");
  // A product may read the row before the one that it writes.
  expect_turns(fuse, kRows + "; arg u : f32[4, 4] in",
               "temp h : f32[11, 4]; temp a : f32[4]; h[0, i] = 1.0; repeat t in 0..10 {a[i] = h[t, i]; "
               "h[t + 1, i] = sum[k] a[k] * u[i, k]; y[t, i] = h[t + 1, i]; }",
               "temp h : f32[11, 4]; h[0, i] = 1.0; repeat t in 0..10 {"
               "h[t + 1, i] = sum[k] h[t, k] * u[i, k]; y[t, i] = h[t + 1, i]; }");
}

TEST(FuseInRepeatBlocks, AWriteToAnotherRowDoesNotPreventFusion) {
  expect_turns(
      fuse, kRows,
      "temp h : f32[11, 4]; temp a : f32[4]; h[0, i] = 1.0; repeat t in 0..10 {a[i] = tanh(h[t, i]); "
      "h[t + 1, i] = w[t, i]; y[t, i] = a[i] + h[t + 1, i]; }",
      "temp h : f32[11, 4]; h[0, i] = 1.0; repeat t in 0..10 {"
      "h[t + 1, i] = w[t, i]; y[t, i] = tanh(h[t, i]) + h[t + 1, i]; }");
  // Nor do the other operands.
  expect_turns(fuse, kRows + "; arg x : f32[4] in; arg z : f32[9, 4, 4] in; arg n : i32[4] in",
               "temp h : f32[11, 4]; temp a : f32[4]; h[0, i] = 1.0; repeat t in 0..10 {"
               "a[i] = tanh(h[t, i]) + x[i] * (z[t, i, n[i]] else 0); "
               "h[t + 1, i] = w[t, i]; y[t, i] = a[i] + h[t + 1, i]; }",
               "temp h : f32[11, 4]; h[0, i] = 1.0; repeat t in 0..10 {h[t + 1, i] = w[t, i]; "
               "y[t, i] = tanh(h[t, i]) + x[i] * (z[t, i, n[i]] else 0) + h[t + 1, i]; }");
  // The same row.
  expect_keeps(
      fuse, kRows,
      "temp h : f32[11, 4]; temp a : f32[4]; h[0, i] = 1.0; h[1, i] = 2.0; repeat t in 0..9 {"
      "a[i] = tanh(h[t + 1, i]); h[t + 1, i] = w[t, i]; y[t, i] = a[i] + h[t, i]; h[t + 2, i] = 1.0; "
      "}; y[9, i] = w[9, i]");
  // Rows that other iterations write.
  expect_keeps(fuse, kRows,
               "temp h : f32[5]; temp a : f32[4]; h[i] = 1.0; repeat t in 0..10 {a[i] = tanh(h[i + 1]); "
               "h[i] for[i:4] = w[t, i]; y[t, i] = a[i] + h[i + 1]; }");
  // All rows.
  expect_keeps(fuse, kRows,
               "temp h : f32[4]; temp a : f32[4]; h[i] = 1.0; repeat t in 0..10 {a[i] = tanh(h[i]); "
               "h[i] = w[t, i]; y[t, i] = a[i] + h[i]; }");
}

TEST(FuseInRepeatBlocks, AValueThatIsReadAfterTheBlockStays) {
  expect_keeps(
      fuse, kRows + "; arg z : f32[4] out",
      "temp a : f32[4]; repeat t in 0..10 {a[i] = exp(w[t, i]); y[t, i] = a[i] * 2.0; }; z[i] = a[i] + 1.0");
}

TEST(FuseInRepeatBlocks, AValueOfTheRoundBeforeStays) {
  expect_keeps(
      fuse, kRows,
      "temp a : f32[4]; a[i] = 1.0; repeat t in 0..10 {y[t, i] = a[i] * 2.0; a[i] = exp(w[t, i]); }");
}

TEST(FuseInRepeatBlocks, OnlyConstantsAndScalarsEnterABlock) {
  const std::string arguments = kRows + "; arg x : f32[4] in; arg s : f32[] inout";
  expect_turns(fuse, arguments, "temp a : f32[4]; a[i] = 2.0; repeat t in 0..10 {y[t, i] = w[t, i] * a[i]; }",
               "repeat t in 0..10 {y[t, i] = w[t, i] * 2.0; }");
  expect_turns(fuse, arguments,
               "temp a : f32[4]; a[i] = -s[]; repeat t in 0..10 {y[t, i] = w[t, i] * a[i]; }; s[] = 0",
               "repeat t in 0..10 {y[t, i] = w[t, i] * -s[]; }; s[] = 0");
  expect_keeps(fuse, arguments,
               "temp a : f32[4]; a[i] = exp(x[i]); repeat t in 0..10 {y[t, i] = w[t, i] * a[i]; }");
  // The block writes the scalar after the value is read.
  expect_keeps(fuse, arguments,
               "temp a : f32[4]; a[i] = -s[]; repeat t in 0..10 {y[t, i] = w[t, i] * a[i]; s[] = w[t, 0]; }");
  expect_keeps(fuse, arguments,
               "temp a : f32[4]; a[i] = 2.0; repeat t in 0..10 {@group {y[t, i] = w[t, i] * a[i]; }; }");
}

TEST(FuseInRepeatBlocks, ScalarsDoNotEnterAContraction) {
  expect_keeps(fuse, kRows + "; arg v : f32[4, 4] in; arg s : f32[] in",
               "temp a : f32[4]; a[i] = s[]; repeat t in 0..10 {y[t, i] = sum[k] a[i] * v[i, k]; }");
}

// The rounds together may write all of the temporary; the verifier cannot prove that for an argument.
TEST(FuseInRepeatBlocks, CopiesIntoArgumentsStay) {
  expect_keeps(fuse, kRows + "; arg z : f32[4] inout",
               "temp h : f32[4]; repeat t in 0..10 {h[i] = max[k:3] w[t, i]; z[i] = h[i]; "
               "y[t, i] = exp(h[i]); }");
  expect_keeps(fuse, "arg x : f32[2, 2] in; arg y : f32[2, 2] out",
               "temp t : f32[2, 2]; repeat r in 0..2 {t[r, r] = x[r, r]; t[r, -r + 1] = x[r, 0]; "
               "t[-r + 1, r] = x[0, r]; t[-r + 1, -r + 1] = x[1, 1]; y[i, j] = t[i, j]; }");
}

TEST(FuseInRepeatBlocks, IndicesThatTheRoundsWriteTogetherMayBeRead) {
  const std::string arguments = "arg a : i32[2, 2] in; arg x : f32[4] in; arg z : f32[2, 2] out";
  const std::string first = "temp m : i32[2]; repeat t in 0..2 {m[t] = a[t, 0]; m[-t + 1] = a[t, 1]; ";
  expect_turns(fuse, arguments, "temp n : i32[2]; " + first + "n[i] = m[i]; z[t, i] = (x[n[i]] else 0); }",
               first + "z[t, i] = (x[m[i]] else 0); }");
}

TEST(FuseInRepeatBlocks, CopyAfterTheBlockBecomesItsResult) {
  expect_turns(fuse, kRows + "; arg z : f32[4] out",
               "temp h : f32[4]; h[i] = max[k:3] w[0, i]; repeat t in 0..10 {y[t, i] = exp(h[i]); "
               "h[i] = max[k:3] w[t, i]; }; z[i] = h[i]",
               "z[i] = max[k:3] w[0, i]; repeat t in 0..10 {y[t, i] = exp(z[i]); z[i] = max[k:3] w[t, i]; }");
}

TEST(Fuse, ValuesThatAGuardMostlyDiscardsAreStored) {
  const std::string arguments = "arg x : f32[4] in; arg y : f32[16] out";
  expect_keeps(fuse, arguments, "temp a : f32[4]; a[i] = exp(x[i]); y[i] = (a[i - 4] else 0)");
  // A copy costs no more than the read.
  expect_turns(fuse, arguments, "temp a : f32[4]; a[i] = x[i]; y[i] = (a[i - 4] else 0)",
               "y[i] = (x[i - 4] else 0)");
  expect_turns(fuse, "arg x : f32[4] in; arg y : f32[8] out",
               "temp a : f32[4]; a[i] = exp(x[i]); y[i] = (a[i - 4] else 0)",
               "y[i] = (exp(x[i - 4]) else 0)");
}

TEST(FuseInHints, ValuesOfTheSameHintAreSubstituted) {
  const std::string arguments = "arg x : f32[4, 8] in; arg y : f32[4] out";
  expect_turns(fuse, arguments,
               "temp a : f32[4, 8]; temp b : f32[4]; @group {a[i, j] = exp(x[i, j]); b[i] = sum[j] a[i, j]; "
               "y[i] = b[i]; }",
               "@group {y[i] = sum[j] exp(x[i, j]); }");
  expect_turns(fuse, kRows,
               "temp a : f32[4]; repeat t in 0..10 {@group {a[i] = exp(w[t, i]); y[t, i] = a[i] * 2.0; }; }",
               "repeat t in 0..10 {@group {y[t, i] = exp(w[t, i]) * 2.0; }; }");
}

TEST(FuseInHints, NothingMovesIntoAHintOrOutOfIt) {
  const std::string arguments = "arg x : f32[4] in; arg y : f32[4] out";
  expect_keeps(fuse, arguments, "temp a : f32[4]; a[i] = 2.0; @group {y[i] = a[i] * x[i]; }");
  expect_keeps(fuse, arguments, "temp a : f32[4]; @group {a[i] = exp(x[i]); }; y[i] = a[i] * 2.0");
  expect_keeps(fuse, arguments, "temp a : f32[4]; @one {a[i] = exp(x[i]); }; @two {y[i] = a[i] * 2.0; }");
  expect_keeps(fuse, arguments, "temp a : f32[4]; a[i] = exp(x[i]) + 1.0; @group {y[i] = a[i]; }");
  expect_keeps(fuse, kRows,
               "temp a : f32[4]; repeat t in 0..10 {a[i] = exp(w[t, i]); @group {y[t, i] = a[i] * 2.0; }; }");
}

TEST(CommonInGroups, EqualStatementsOfOneRoundAreComputedOnce) {
  expect_turns(eliminate_common, kRows,
               "temp a : f32[4]; temp b : f32[4]; repeat t in 0..10 {a[i] = exp(w[t, i]); "
               "b[i] = exp(w[t, i]); y[t, i] = a[i] * b[i]; }",
               "temp a : f32[4]; repeat t in 0..10 {a[i] = exp(w[t, i]); y[t, i] = a[i] * a[i]; }");
  // The block overwrites h, which both read, only for the next round.
  expect_turns(eliminate_common, kRows,
               "temp h : f32[4]; temp a : f32[4]; temp b : f32[4]; h[i] = 1.0; repeat t in 0..10 {"
               "a[i] = exp(h[i]); b[i] = exp(h[i]); h[i] = h[i] * w[t, i]; y[t, i] = a[i] * b[i]; }",
               "temp h : f32[4]; temp a : f32[4]; h[i] = 1.0; repeat t in 0..10 {"
               "a[i] = exp(h[i]); h[i] = h[i] * w[t, i]; y[t, i] = a[i] * a[i]; }");
  expect_turns(eliminate_common, "arg x : f32[4] in; arg y : f32[4] out",
               "temp a : f32[4]; temp b : f32[4]; @group {a[i] = exp(x[i]); b[i] = exp(x[i]); "
               "y[i] = a[i] * b[i]; }",
               "temp a : f32[4]; @group {a[i] = exp(x[i]); y[i] = a[i] * a[i]; }");
}

TEST(CommonInGroups, ValuesThatABlockOverwritesAreNotMerged) {
  expect_keeps(eliminate_common, kRows,
               "temp h : f32[4]; temp a : f32[4]; temp b : f32[4]; temp c : f32[4]; temp d : f32[4]; "
               "h[i] = 1.0; b[i] = exp(h[i]); repeat t in 0..10 {a[i] = exp(h[i]); c[i] = sin(a[i]); "
               "d[i] = sin(b[i]); y[t, i] = c[i] * d[i]; h[i] = h[i] * w[t, i]; }");
  // Rounds differ.
  expect_keeps(eliminate_common, kRows,
               "temp h : f32[4]; temp a : f32[4]; temp b : f32[4]; h[i] = 1.0; repeat t in 0..10 {"
               "a[i] = exp(h[i]); h[i] = a[i] * w[t, i]; b[i] = exp(h[i]); y[t, i] = a[i] * b[i]; }");
}

TEST(CommonInGroups, EqualStatementsOfDifferentGroupsAreKept) {
  expect_keeps(eliminate_common, kRows + "; arg x : f32[4] in",
               "temp a : f32[4]; temp b : f32[4]; a[i] = exp(x[i]); repeat t in 0..10 {b[i] = exp(x[i]); "
               "y[t, i] = a[i] * b[i]; }");
}

TEST(DeadInGroups, OverwrittenValuesAreRemoved) {
  expect_turns(remove_dead_statements, "arg x : f32[4] in; arg y : f32[4] out",
               "@group {y[i] = exp(x[i]); y[i] = sin(x[i]); }", "@group {y[i] = sin(x[i]); }");
  expect_turns(
      remove_dead_statements, kRows,
      "temp h : f32[4]; repeat t in 0..10 {h[i] = exp(w[t, i]); h[i] = sin(w[t, i]); y[t, i] = h[i]; }",
      "temp h : f32[4]; repeat t in 0..10 {h[i] = sin(w[t, i]); y[t, i] = h[i]; }");
  // Only a statement without a use reads it.
  expect_turns(
      remove_dead_statements, "arg x : f32[4] in; arg y : f32[4] out",
      "temp h : f32[4]; temp a : f32[4]; @group {h[i] = exp(x[i]); a[i] = h[i] * 2.0; y[i] = x[i]; }",
      "@group {y[i] = x[i]; }");
  expect_turns(
      remove_dead_statements, kRows + "; arg z : f32[10, 4] out",
      "temp h : f32[4]; temp a : f32[4]; repeat t in 0..10 {h[i] = exp(w[t, i]); a[i] = h[i] * 2.0; "
      "z[t, i] = w[t, i]; h[i] = sin(w[t, i]); y[t, i] = h[i]; }",
      "temp h : f32[4]; repeat t in 0..10 {z[t, i] = w[t, i]; h[i] = sin(w[t, i]); y[t, i] = h[i]; }");
  // The next round reads it.
  expect_keeps(remove_dead_statements, kRows,
               "temp h : f32[4]; h[i] = 1.0; repeat t in 0..10 {y[t, i] = h[i]; h[i] = exp(w[t, i]); }");
}

}  // namespace
}  // namespace yoke::passes
