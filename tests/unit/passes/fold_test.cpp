// SPDX-License-Identifier: Apache-2.0
// tests/unit/passes/fold_test.cpp: constant folding keeps every bit.
#include "pass_text.h"

namespace yoke::passes {
namespace {

// A statement over tensors of the given type, before and after folding.
void expect_folds(const std::string& type, const std::string& before, const std::string& after) {
  SCOPED_TRACE(type);
  const std::string vector = " : " + type + "[4] ";
  expect_turns(fold_constants,
               "arg x" + vector + "in; arg z" + vector + "in; arg c : bool[4] in; arg y" + vector + "out",
               "y[i] = " + before, "y[i] = " + after);
}

void expect_stays(const std::string& type, const std::string& value) {
  expect_folds(type, value, value);
}

TEST(FoldConstants, MatchesTheReferenceExecutor) {
  expect_folds("f32", "x[i] * (2.0 + 3.0)", "x[i] * 5.0");
  expect_folds("f32", "x[i] + 0.1 * 3.0", "x[i] + 0.3");  // the f32 result rounds to 0.3
  expect_folds("f64", "x[i] + 0.1 * 3.0", "x[i] + 0.30000000000000004");
  expect_folds("f16", "x[i] + 0.1 * 3.0", "x[i] + 0.2998046875");
  expect_folds("f32", "x[i] * exp(0.0 * 2.0)", "x[i]");
  expect_folds("f32", "select(1.0 < 2.0, x[i], z[i])", "x[i]");
  expect_folds("f32", "x[i] * f32(7 / 2)", "x[i] * 3.0");
}

TEST(FoldConstants, IntegersWrapAndDivisionByZeroIsZero) {
  expect_folds("u8", "x[i] + 200 * 2", "x[i] + 144");
  expect_folds("i32", "x[i] + 2147483647 * 2", "x[i] + -2");
  expect_folds("i64", "x[i] ^ (9007199254740993 + 0)", "x[i] ^ 9007199254740993");
  expect_folds("i32", "x[i] / 0", "0");
  expect_folds("i32", "x[i] % 0", "0");
  expect_folds("i32", "x[i] % 1", "0");
  expect_folds("i32", "0 / x[i]", "0");
  expect_folds("i32", "x[i] - x[i]", "0");
  expect_folds("i32", "x[i] * 0", "0");
  expect_folds("i32", "x[i] + 3 + 4", "x[i] + 7");
  expect_folds("u8", "x[i] & 255", "x[i]");
  expect_folds("u8", "max(x[i], 0)", "x[i]");
  expect_folds("u8", "max(x[i], 255)", "255");
  expect_folds("i32", "x[i] << 0", "x[i]");
  expect_folds("i32", "~~x[i]", "x[i]");
  expect_folds("i32", "-(-x[i])", "x[i]");
  expect_folds("i32", "abs(-x[i])", "abs(x[i])");
  expect_stays("u8", "abs(-x[i])");
}

TEST(FoldConstants, FloatIdentitiesHoldForMinusZeroAndNan) {
  expect_folds("f32", "x[i] - 0.0", "x[i]");
  expect_folds("f32", "x[i] + -0.0", "x[i]");
  expect_folds("f32", "-0.0 + x[i]", "x[i]");
  expect_folds("f32", "x[i] * 1.0", "x[i]");
  expect_folds("f32", "x[i] / 1.0", "x[i]");
  expect_folds("f32", "max(x[i], -inf)", "x[i]");
  expect_folds("f32", "min(x[i], x[i])", "x[i]");
  expect_folds("f32", "-(-x[i])", "x[i]");
  expect_folds("f32", "fma(x[i], 1.0, z[i])", "x[i] + z[i]");
  expect_folds("f32", "select(c[i], x[i], x[i])", "x[i]");
  expect_folds("f32", "x[i] / 8.0", "x[i] * 0.125");
  expect_folds("f16", "x[i] / -4.0", "x[i] * -0.25");
  expect_folds("f32", "select(x[i] < x[i], z[i], x[i])", "x[i]");
}

TEST(FoldConstants, InexactIdentitiesAreNotApplied) {
  expect_stays("f32", "x[i] + 0.0");   // -0.0 + 0.0 is 0.0
  expect_stays("f32", "x[i] - -0.0");  // -0.0 - -0.0 is 0.0
  expect_stays("f32", "0.0 - x[i]");
  expect_stays("f32", "x[i] * 0.0");  // wrong for NaN, infinities and -0.0
  expect_stays("f32", "x[i] - x[i]");
  expect_stays("f32", "x[i] / x[i]");
  expect_stays("f32", "x[i] / 3.0");
  expect_stays("f32", "max(x[i], 0.0)");
  expect_stays("f32", "select(x[i] == x[i], x[i], z[i])");
  expect_stays("f32", "x[i] + 1.0 + 2.0");
  expect_stays("f32", "x[i] * (inf - inf)");  // a literal does not keep the bits of a NaN
}

TEST(FoldConstants, ZeroIsAddedOnlyToWhatMayBeMinusZero) {
  expect_folds("f32", "abs(x[i]) + z[i] + 0.0", "abs(x[i]) + z[i]");
  expect_folds("f32", "x[i] + exp(z[i]) + 0.0", "x[i] + exp(z[i])");
  expect_folds("f32", "x[i] * x[i] + 0.0", "x[i] * x[i]");
  expect_folds("f32", "f32(i) + 0.0", "f32(i)");
  expect_folds("f32", "select(c[i], abs(x[i]), abs(z[i])) + 0.0", "select(c[i], abs(x[i]), abs(z[i]))");
  expect_stays("f32", "x[i] + z[i] + 0.0");
  expect_stays("f32", "x[i] * z[i] + 0.0");
  expect_stays("f16", "f16(f32(x[i]) - 1.0) + 0.0");
  expect_stays("f32", "select(c[i], x[i], abs(z[i])) + 0.0");
  expect_stays("f32", "select(c[i], abs(x[i]), z[i]) + 0.0");
}

TEST(FoldConstants, LosslessCastsAreRemoved) {
  expect_folds("f32", "f32(f64(x[i]))", "x[i]");
  expect_folds("f16", "f16(f32(x[i]) * 1.0)", "x[i]");
  expect_folds("u8", "u8(i64(x[i]))", "x[i]");
  expect_folds("i32", "i32(i64(x[i]) + 0)", "x[i]");
  expect_stays("f64", "f64(f32(x[i]))");
  expect_stays("i32", "i32(f32(x[i]))");
  expect_stays("i32", "i32(u8(f64(x[i])))");  // a float saturates, an integer wraps around
}

TEST(FoldConstants, KnownConditionsAreRemoved) {
  expect_folds("f32", "select(c[i] && true, x[i], z[i])", "select(c[i], x[i], z[i])");
  expect_folds("f32", "select(c[i] && false, x[i], z[i])", "z[i]");
  expect_folds("f32", "select(c[i] || 1 < 2, x[i], z[i])", "x[i]");
  expect_folds("f32", "select(!!c[i], x[i], z[i])", "select(c[i], x[i], z[i])");
}

TEST(FoldConstants, ElseThatNeverOrAlwaysAppliesIsRemoved) {
  expect_turns(fold_constants, "arg x : f32[12] in; arg y : f32[4] out",
               "y[i] = (x[row + i] else 0) + (x[i - 4] else -3.0) + (x[row + i + 1] else 0)",
               "y[i] = x[row + i] + -3.0 + (x[row + i + 1] else 0)", "symbol row in 0..12 step 4");
}

TEST(FoldConstants, DivisionsThatAreAlwaysOrNeverExactAreRemoved) {
  expect_turns(
      fold_constants, "arg x : f32[12] in; arg y : f32[4] out",
      "y[i] = (x[(3*row + 6*i) / 3] else 0) + (x[(2*i + 1) / 4] else -3.0) + (x[(i - 4) / 2] else 5.0) + "
      "(x[(2*i + 2) / 2] else 0) + (x[(2*i - 2) / 2] else 0) + (x[(i) / 2] else 0)",
      "y[i] = x[row + 2*i] + -3.0 + 5.0 + x[i + 1] + (x[i - 1] else 0) + (x[(i) / 2] else 0)",
      "symbol row in 0..6");
}

TEST(FoldConstants, GuardsThatNeverOrAlwaysApplyAreRemoved) {
  const std::string arguments = "arg x : i32[4] in; arg z : i32[4] in; arg y : i32[4] out";
  expect_turns(fold_constants, arguments, "y[i] = (x[i] * z[i] else 7) + (x[i] * z[i + 4] else 7)",
               "y[i] = x[i] * z[i] + 7");
  expect_turns(fold_constants, arguments, "y[i] = (x[i + 4] * z[i] else 7)", "y[i] = 7");
  expect_turns(fold_constants, arguments, "y[i] = ((x[i + 1] else 3) else 7)", "y[i] = (x[i + 1] else 3)");
  expect_turns(fold_constants, arguments, "y[i] = ((x[i + 1] else 3) * z[i] else 7)",
               "y[i] = (x[i + 1] else 3) * z[i]");
  expect_turns(fold_constants, arguments, "y[i] = (x[i + 1] * 1 else 7)", "y[i] = (x[i + 1] else 7)");
  expect_turns(fold_constants, arguments, "y[i] = (z[i] + x[(2*i + 2) / 2] else 7)",
               "y[i] = (z[i] + x[i + 1] else 7)");
  expect_turns(fold_constants, arguments, "y[i] = (-(-(x[i + 1] * z[i + 2])) else 7)",
               "y[i] = (x[i + 1] * z[i + 2] else 7)");
  // Without its read, the guard would not apply.
  expect_keeps(fold_constants, arguments, "y[i] = (select(false, x[i + 1], z[i + 2]) else 7)");
  expect_keeps(fold_constants, arguments, "y[i] = (z[i] + x[i + 1] * 0 else 7)");
  expect_keeps(fold_constants, arguments, "y[i] = (z[i] + (x[i + 1] - x[i + 1]) else 7)");
  expect_turns(fold_constants, arguments, "y[i] = (x[i + 1] + z[i] * 0 else 7)", "y[i] = (x[i + 1] else 7)");
}

TEST(FoldConstants, SymbolWithOneValueBecomesAConstant) {
  expect_turns(fold_constants, "arg x : f32[4] in; arg y : f32[4] out", "y[i] = x[i] * f32(s)",
               "y[i] = x[i] * 7.0", "symbol s in 7..9 step 5");
  expect_keeps(fold_constants, "arg y : i64[4] out", "y[i] = s", "symbol s in 0..9223372036854775807");
}

TEST(FoldConstants, RandomBitsOfConstantsAreFolded) {
  const program::Program result =
      fold_constants(program_of(program_text("arg y : u32[4] out; y[i] = random_bits(1, 2, 3)")));
  EXPECT_EQ(result.statements.at(0).value.op, program::Op::kConst);
}

}  // namespace
}  // namespace yoke::passes
