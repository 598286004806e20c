// SPDX-License-Identifier: Apache-2.0
// tests/unit/passes/regions_test.cpp: which statements become a region, and which loops it names.
#include <yoke/program/memory.h>

#include "pass_text.h"

namespace yoke::passes {
namespace {

TEST(Regions, ElementwiseStatementsNameAllLoops) {
  expect_turns(form_regions, "arg x : f32[4, 8] in; arg y : f32[4, 8] out; arg z : f32[4, 8] out",
               "y[i, j] = exp(x[i, j]); z[k, l] = y[k, l] * x[k, l]",
               "@fused[i, j] {y[i, j] = exp(x[i, j]); z[i, j] = y[i, j] * x[i, j]; }");
}

TEST(Regions, ReductionsNameTheRows) {
  expect_turns(form_regions, "arg x : f32[4, 8] in; arg y : f32[4, 8] out",
               "temp m : f32[4]; temp s : f32[4]; m[n] = max[k] x[n, k]; "
               "y[i, j] = exp(x[i, j] - m[i]); s[a] = sum[b] y[a, b]; y[i, j] = y[i, j] / s[i]",
               "temp m : f32[4]; temp s : f32[4]; @fused[n] {m[n] = max[k] x[n, k]; "
               "y[n, j] = exp(x[n, j] - m[n]); s[n] = sum[b] y[n, b]; y[n, j] = y[n, j] / s[n]; }");
}

TEST(Regions, SumsAlongColumnsStayOutside) {
  expect_turns(form_regions, "arg x : f32[4, 8] in; arg y : f32[4, 8] out; arg s : f32[8] out",
               "temp t : f32[4, 8]; t[i, j] = exp(x[i, j]); y[i, j] = t[i, j] * x[i, j]; "
               "s[j] = sum[i] y[i, j]",
               "temp t : f32[4, 8]; @fused[i, j] {t[i, j] = exp(x[i, j]); y[i, j] = t[i, j] * x[i, j]; }; "
               "s[j] = sum[i] y[i, j]");
}

constexpr const char* kLayer =
    "arg x : f32[4, 8] in; arg w : f32[8, 5] in; arg b : f32[5] in; arg y : f32[4, 5] out";

TEST(Regions, ProductStartsARegionWithItsEpilogue) {
  expect_turns(
      form_regions, std::string(kLayer) + "; arg u : f32[4, 8] out",
      "u[n, k] = x[n, k] * x[n, k]; y[n, m] = sum[k] u[n, k] * w[k, m]; y[n, m] = max(y[n, m] + b[m], 0)",
      "u[n, k] = x[n, k] * x[n, k]; @fused[n] {y[n, m] = sum[k] u[n, k] * w[k, m]; "
      "y[n, m] = max(y[n, m] + b[m], 0); }");
}

TEST(Regions, RowsOfAProductMayStartAtASymbolOrANumber) {
  const std::string arguments =
      "arg x : f32[20, 8] in; arg w : f32[8, 5] in; arg y : f32[4, 5] out; temp z : f32[4, 5]";
  const std::string product = "z[n, m] = sum[k] x[row + n + 2, k] * w[k, m]; ";
  expect_turns(form_regions, arguments, product + "y[n, m] = max(z[n, m], 0)",
               "@fused[n] {" + product + "y[n, m] = max(z[n, m], 0); }", "symbol row in 0..16 step 4");
  for (const std::string row : {"x[2 * n, k]", "(x[(n) / 2, k] else 0)", "(x[r[n], k] else 0)"}) {
    expect_keeps(form_regions, arguments + "; arg r : i32[4] in",
                 "z[n, m] = sum[k] " + row + " * w[k, m]; y[n, m] = max(z[n, m], 0)");
  }
}

TEST(Regions, ProductWhoseResultIsNotUsedNextStaysAlone) {
  expect_keeps(form_regions, std::string(kLayer) + "; arg m : f32[4] out",
               "y[n, m2] = sum[k] x[n, k] * w[k, m2]; m[n] = max[k] x[n, k]");
  expect_keeps(form_regions, std::string(kLayer) + "; arg z : f32[4, 4] out",
               "y[n, m] = sum[k] x[n, k] * w[k, m]; z[n, l] = sum[m] y[n, m] * y[l, m]");
}

TEST(Regions, RegionOfAProductDoesNotNameItsColumns) {
  expect_keeps(form_regions, std::string(kLayer) + "; arg z : f32[5, 4] out",
               "y[n, m] = sum[k] x[n, k] * w[k, m]; z[m, n] = y[n, m] + b[m]");
}

TEST(Regions, RowsOfAProductLeadItsTarget) {
  const std::string arguments =
      "arg x : f32[2, 4, 8] in; arg w : f32[8, 6] in; arg z : f32[4, 4, 3] out; "
      "temp y : f32[2, 4, 6]";
  expect_turns(form_regions, arguments,
               "y[i, n, m] = sum[k] x[i, n, k] * w[k, m]; y[i, n, m] = max(y[i, n, m], 0); "
               "z[2*i + h, n, d] for[i:2, h:2] = y[i, n, 3*h + d]",
               "@fused[i, n] {y[i, n, m] = sum[k] x[i, n, k] * w[k, m]; y[i, n, m] = max(y[i, n, m], 0); }; "
               "z[2*i + h, n, d] for[i:2, h:2] = y[i, n, 3*h + d]");
}

TEST(Regions, RowsOfAProductEndWhereSeveralLoopsIndexItsTarget) {
  const std::string product = "y[a, 2*i + h, n, m] for[i:2, h:2] = sum[k] x[a, i, h, n, k] * w[k, m]; ";
  expect_turns(form_regions,
               "arg x : f32[5, 2, 2, 3, 8] in; arg w : f32[8, 6] in; arg z : f32[5, 4, 3, 6] out; "
               "temp y : f32[5, 4, 3, 6]",
               product + "z[a, b, n, m] = max(y[a, b, n, m], 0)",
               "@fused[a] {" + product + "z[a, b, n, m] = max(y[a, b, n, m], 0); }");
}

TEST(Regions, LastDimensionOfAProductIsNotARow) {
  const std::string product = "y[n, m] = sum[k, l] x[n, m, k] * w[l, k]; ";
  expect_turns(form_regions,
               "arg x : f32[4, 3, 8] in; arg w : f32[5, 8] in; arg z : f32[4, 3] out; temp y : f32[4, 3]",
               product + "z[n, m] = max(y[n, m], 0)",
               "@fused[n] {" + product + "z[n, m] = max(y[n, m], 0); }");
}

TEST(Regions, RowsOfAProductMayFollowALoopOfOneIteration) {
  const std::string arguments =
      "arg x : f32[1, 4, 8] in; arg w : f32[8, 6] in; arg y : f32[1, 4, 6] out; arg z : f32[4, 6] out";
  const std::string product = "y[o, n, m] = sum[k] x[o, n, k] * w[k, m]; ";
  const std::string same = "y[o, n, m] = max(y[o, n, m], 0); ";
  expect_turns(form_regions, arguments, product + same + "z[n, m] = 1.0",
               "@fused[o, n] {" + product + same + "}; z[n, m] = 1.0");
  expect_turns(form_regions, arguments, product + "z[n, m] = max(y[0, n, m], 0)",
               "@fused[n] {" + product + "z[n, m] = max(y[0, n, m], 0); }");
}

TEST(Regions, ScattersStayOutside) {
  expect_keeps(
      form_regions,
      "arg x : f32[2, 4, 8] in; arg n : i32[4] in; arg y : f32[2, 4, 8] out; arg w : f32[2, 9, 8] inout",
      "y[h, b, d] = exp(x[h, b, d]); w[h, n[b], d] += y[h, b, d]");
}

TEST(Regions, LoopsAlongTheColumnsOfAReductionEndARegion) {
  expect_keeps(form_regions,
               "arg c : f32[8] in; arg x : f32[4, 8, 9] in; arg b : f32[8] out; arg y : f32[4, 8] out",
               "b[j] = exp(c[j]); y[i, j] = sum[k] x[i, j, k] * b[j]");
  // Each column has one element.
  expect_turns(form_regions,
               "arg c : f32[8] in; arg x : f32[1, 8] in; arg b : f32[8] out; arg y : f32[1, 8] out",
               "b[j] = exp(c[j]); y[i, j] = x[i, j] * b[j]",
               "@fused[j] {b[j] = exp(c[j]); y[i, j] = x[i, j] * b[j]; }");
}

TEST(Regions, LoopInTheMiddleOfATargetIsNamed) {
  expect_turns(form_regions,
               "arg c : f32[8] in; arg x : f32[2, 8, 4] in; arg t : f32[8] out; arg y : f32[2, 8, 4] out",
               "t[i] = exp(c[i]); y[a, i, j] = x[a, i, j] * t[i]",
               "@fused[i] {t[i] = exp(c[i]); y[a, i, j] = x[a, i, j] * t[i]; }");
}

TEST(Regions, FirstOperandThatIsReadAgainDecidesOnLoops) {
  // By the second one, l would correspond to i, and k to j.
  expect_turns(form_regions,
               "arg a : f32[8, 8] in; arg b : f32[8, 8] in; arg y : f32[8, 8] out; arg z : f32[8, 8] out",
               "y[i, j] = exp(a[i, j]) * b[i, j]; z[k, l] = a[k, l] + b[l, k]",
               "@fused[i, j] {y[i, j] = exp(a[i, j]) * b[i, j]; z[i, j] = a[i, j] + b[j, i]; }");
}

TEST(Regions, LoopsOfAReductionCorrespondToNoOther) {
  expect_turns(form_regions,
               "arg a : f32[8, 8, 2] in; arg b : f32[8, 8] in; arg y : f32[8, 8] out; arg z : f32[8] out",
               "y[i, j] = exp(a[i, j, 0]) * b[i, j]; z[k] = sum[l] a[l, k, 1] * b[k, l]",
               "@fused[i] {y[i, j] = exp(a[i, j, 0]) * b[i, j]; z[i] = sum[l] a[l, i, 1] * b[i, l]; }");
}

TEST(Regions, StatementsThatShareNothingStayApart) {
  expect_keeps(form_regions, "arg a : f32[4] inout; arg b : f32[4] inout; arg rate : f32[] in",
               "a[i] = a[i] * rate[]; b[i] = b[i] * rate[]");
}

TEST(Regions, ElementsOfOtherIterationsEndARegion) {
  const char* const arguments = "arg x : f32[4, 4] in; arg y : f32[4, 4] out";
  expect_keeps(form_regions, arguments,
               "temp t : f32[4, 4]; t[i, j] = exp(x[i, j]); y[i, j] = t[j, i] + t[i, j]");
  expect_keeps(form_regions, arguments, "temp t : f32[4]; t[i] = exp(x[i, 0]); y[i, j] = t[j] + x[i, j]");
  // A statement reads elements that a later statement writes in other iterations.
  expect_keeps(form_regions, "arg x : f32[4] inout; arg y : f32[4] out",
               "y[i] = x[-i + 3]; x[i] = x[i] * 2.0");
  // Only the outer loop can be shared.
  expect_turns(form_regions, arguments,
               "temp t : f32[4, 4]; t[i, j] = exp(x[i, j]); y[i, j] = t[i, -j + 3] + t[i, j]",
               "temp t : f32[4, 4]; @fused[i] {t[i, j] = exp(x[i, j]); y[i, j] = t[i, -j + 3] + t[i, j]; }");
}

TEST(Regions, ElementsOfAnIndexTensorEndARegion) {
  expect_keeps(form_regions, "arg x : f32[4] in; arg y : f32[4] out",
               "temp t : i32[4]; t[i] = i32(x[i]); y[i] = (x[t[-i + 3]] else 0)");
  expect_turns(form_regions, "arg x : f32[4] in; arg y : f32[4] out",
               "temp t : i32[4]; t[i] = i32(x[i]); y[i] = (x[t[i]] else 0)",
               "temp t : i32[4]; @fused[i] {t[i] = i32(x[i]); y[i] = (x[t[i]] else 0); }");
}

TEST(Regions, OtherLoopsGetNewNamesWhereTheyWouldClash) {
  expect_turns(form_regions, "arg x : f32[4, 8] in; arg y : f32[4, 8] out; arg j2 : f32[4] out",
               "j2[j] = max[i] x[j, i]; y[i, j] = x[i, j] - j2[i]",
               "@fused[j] {j2[j] = max[i] x[j, i]; y[j, j3] = x[j, j3] - j2[j]; }");
  // The statement has a loop i2 already, or gets one.
  expect_turns(form_regions, "arg x : f32[4, 8, 8] in; arg m : f32[4] out; arg y : f32[4, 8, 8] out",
               "m[i] = max[j] x[i, j, 0]; y[k, i, i2] = x[k, i, i2] - m[k]",
               "@fused[i] {m[i] = max[j] x[i, j, 0]; y[i, i3, i2] = x[i, i3, i2] - m[i]; }");
  expect_turns(form_regions, "arg x : f32[4, 8, 9] in; arg m : f32[4, 8] out; arg y : f32[4, 8, 9] out",
               "m[i, i2] = max[j] x[i, i2, j]; y[k, l, i] = x[k, l, i] - m[k, l]",
               "@fused[i, i2] {m[i, i2] = max[j] x[i, i2, j]; y[i, i2, i3] = x[i, i2, i3] - m[i, i2]; }");
}

TEST(Regions, FewerLoopsAreTakenIfThatSavesMore) {
  // The row sum reads the large tensors, which stay in a cache if they share a region.
  expect_turns(form_regions, "arg x : f32[4, 8] in; arg s : f32[4] out",
               "temp t : f32[4, 8]; temp u : f32[4, 8]; t[i, j] = exp(x[i, j]); u[i, j] = t[i, j] * x[i, j]; "
               "s[i] = sum[j] t[i, j] * u[i, j]",
               "temp t : f32[4, 8]; temp u : f32[4, 8]; @fused[i] {t[i, j] = exp(x[i, j]); "
               "u[i, j] = t[i, j] * x[i, j]; s[i] = sum[j] t[i, j] * u[i, j]; }");
  // To add the last statement would save only four bytes per row.
  expect_turns(form_regions,
               "arg x : f32[4, 64] in; arg a : f32[4] in; arg s : f32[4] out; arg y : f32[4, 64] out",
               "temp t : f32[4, 64]; t[i, j] = exp(x[i, j] * a[i]); y[i, j] = t[i, j] * x[i, j]; "
               "s[i] = a[i] * 2.0",
               "temp t : f32[4, 64]; @fused[i, j] {t[i, j] = exp(x[i, j] * a[i]); "
               "y[i, j] = t[i, j] * x[i, j]; }; s[i] = a[i] * 2.0");
}

TEST(Regions, NamedHintsAndOtherRoundsStayOutside) {
  expect_keeps(form_regions, "arg x : f32[4] in; arg y : f32[4] out; arg z : f32[4] out",
               "@softmax {y[i] = exp(x[i]); }; z[i] = y[i] * x[i]");
  expect_turns(
      form_regions, "arg x : f32[9, 4] in; arg h : f32[10, 4] out; arg z : f32[4] out",
      "temp u : f32[4]; h[0, i] = x[0, i]; z[i] = x[0, i]; repeat t in 0..9 {u[i] = h[t, i] * x[t, i]; "
      "h[t + 1, i] = tanh(u[i]); }",
      "temp u : f32[4]; @fused[i] {h[0, i] = x[0, i]; z[i] = x[0, i]; }; "
      "repeat t in 0..9 {@fused[i] {u[i] = h[t, i] * x[t, i]; h[t + 1, i] = tanh(u[i]); }; }");
}

TEST(Regions, RegionsHaveAtMost64Statements) {
  std::string body = "y[i] = x[i]";
  for (int i = 0; i < 99; ++i) {
    body += "; y[i] = sin(y[i]) + x[i]";
  }
  const program::Program program =
      form_regions(program_of(program_text("arg x : f32[4] in; arg y : f32[4] out; " + body)));
  ASSERT_EQ(program.hints.size(), 2U);
  const auto in_first = std::count_if(program.statements.begin(), program.statements.end(),
                                      [](const auto& one) { return one.hint == 0; });
  EXPECT_LE(in_first, 64);
  EXPECT_GE(in_first, 36);
}

TEST(Regions, OptimizeFormsRegionsAgain) {
  const char* const text =
      "arg x : f32[4] in; arg y : f32[4] out; temp t : f32[4]; "
      "@fused[i] {t[i] = x[i] * 1.0; y[i] = exp(t[i]); }";
  const Optimized result = optimize(program_of(program_text(text)));
  EXPECT_TRUE(result.program.hints.empty()) << program::print(result.program);
  EXPECT_EQ(result.program.statements.size(), 1U) << "a region must not be a barrier to the passes";
}

TEST(Regions, StatementsMoveUpToRegions) {
  const std::string arguments =
      "arg x : f32[8, 8] in; arg l : f32[] out; arg y : f32[8, 8] out; temp m : f32[8]";
  expect_turns(optimized, arguments, "m[n] = max[k] x[n, k]; l[] = sum[i] m[i]; y[n, k] = x[n, k] - m[n]",
               "@fused[n] {m[n] = max[k] x[n, k]; y[n, k] = x[n, k] - m[n]; }; l[] = sum[i] m[i]");
  expect_keeps(optimized, arguments,
               "m[n] = max[k] x[n, k]; l[] = sum[i] m[i]; y[n, k] = x[n, k] - m[n] * l[]");
}

TEST(Regions, ScalarStatementsMoveOutOfTheWay) {
  const std::string arguments =
      "arg w : f32[8] inout; arg m : f32[8] inout; arg g : f32[8] in; arg r : f32[] in; arg l : f32[] inout";
  const std::string with_scalar = arguments + "; temp s : f32[]";
  expect_turns(optimized, with_scalar,
               "m[i] = m[i] * 0.5 + g[i]; s[] = exp(r[]) + 1.0; w[i] = w[i] - m[i] * s[] / (m[i] + s[])",
               "s[] = exp(r[]) + 1.0; @fused[i] {m[i] = m[i] * 0.5 + g[i]; "
               "w[i] = w[i] - m[i] * s[] / (m[i] + s[]); }");
  // A scalar stays behind what it needs, and behind those who need its old value.
  expect_keeps(optimized, with_scalar,
               "m[i] = m[i] * 0.5 + g[i]; s[] = exp(m[0]) + 1.0; w[i] = w[i] - m[i] * s[] / (m[i] + s[])");
  expect_turns(optimized, arguments,
               "l[] = exp(r[]); m[i] = m[i] * l[] + g[i]; l[] = 1.0; w[i] = w[i] - m[i] * 0.5 / (m[i] + 1.0)",
               "l[] = exp(r[]); @fused[i] {m[i] = m[i] * l[] + g[i]; "
               "w[i] = w[i] - m[i] * 0.5 / (m[i] + 1.0); }; l[] = 1.0");
}

TEST(Regions, ProductsInRepeatBlocksNameTheirRows) {
  const std::string arguments = "arg x : f32[4, 8] in; arg w : f32[8, 8] in; arg h : f32[6, 4, 8] out";
  expect_turns(form_regions, arguments + "; temp u : f32[6, 4, 8]",
               "h[0, n, i] = x[n, i]; repeat t in 0..5 {u[t, n, i] = sum[k] h[t, n, k] * w[k, i]; "
               "h[t + 1, n, i] = tanh(u[t, n, i]); }",
               "h[0, n, i] = x[n, i]; repeat t in 0..5 {@fused[n] {u[t, n, i] = sum[k] h[t, n, k] * w[k, i]; "
               "h[t + 1, n, i] = tanh(u[t, n, i]); }; }");
}

TEST(Regions, StatementsDoNotMoveIfThatTakesMoreMemory) {
  // u fits the region of m, but would need memory at the same time as t.
  const std::string text =
      "arg x : f32[8, 8] in; arg l : f32[] out; arg z : f32[8] out; temp m : f32[8]; temp t : "
      "f32[8, 8]; "
      "temp u : f32[8, 8]; m[n] = max[k] x[n, k]; t[i, j] = sum[k] x[i, k] * x[j, k]; l[] = max[i, j] "
      "t[i, "
      "j]; "
      "u[n, k] = exp(x[n, k] - m[n]); z[k] = sum[n] u[n, k] * u[k, n]";
  const program::Program program = optimized(program_of(program_text(text)));
  EXPECT_LE(program::plan_memory(program::lifetimes(program)).byte_count, 64U + 256U)
      << program::print(program);
}

TEST(Regions, OneMoveThatTakesMoreMemoryDoesNotPreventOthers) {
  // At its old place, u needs memory after t; next to m, at the same time. If u is small, only the memory
  // after the move is too much.
  for (const std::string columns : {"2", "64"}) {
    const std::string text =
        "arg x : f32[8, " + columns +
        "] in; arg a : f32[32, 8] in; arg w : f32[8, 8] in; arg l : f32[] out; arg z : f32[] out; "
        "arg k : f32[] out; arg l2 : f32[] out; arg y : f32[8, 8] out; temp m : f32[8]; "
        "temp t : f32[32, 32]; temp u : f32[8, " +
        columns +
        "]; temp m2 : f32[8]; m[n] = max[k2] x[n, k2]; t[i, j] = max[k2] a[i, k2] * a[j, k2] * m[k2]; "
        "l[] = max[i, j] t[i, j] * t[j, i]; u[n, k2] = exp(x[n, k2] - m[n]); "
        "z[] = sum[n, k2] u[n, k2] * u[-n + 7, k2]; k[] = min[n] m[n] * l[]; "
        "m2[n] = max[k2] w[n, k2]; l2[] = sum[i] m2[i]; y[n, k2] = w[n, k2] - m2[n]";
    const std::string optimal = program::print(optimized(program_of(program_text(text))));
    EXPECT_NE(optimal.find("    m2[n] = max[k2] w[n, k2]\n    y[n, k2]"), std::string::npos) << optimal;
    EXPECT_LT(optimal.find("t[i, j] = max"), optimal.find("u[n, k2] = exp")) << optimal;
  }
}

TEST(Regions, StatementsThatWouldCostLoopsDoNotMove) {
  expect_turns(
      optimized,
      "arg x : f32[8, 8] in; arg q : f32[8, 8] in; arg l : f32[] out; arg s : f32[8] out; "
      "arg y : f32[8, 8] out; arg z : f32[8, 8] out",
      "y[i, j] = exp(x[i, j]); z[i, j] = y[i, j] * x[i, j]; l[] = max[i, j] q[i, j]; "
      "s[i] = sum[j] y[i, j] * z[i, j]",
      "@fused[i, j] {y[i, j] = exp(x[i, j]); z[i, j] = y[i, j] * x[i, j]; }; l[] = max[i, j] q[i, j]; "
      "s[i] = sum[j] y[i, j] * z[i, j]");
}

TEST(Regions, ReportCountsSavedBytes) {
  // t is neither stored nor loaded, and x is loaded only once.
  const char* const text =
      "arg x : f32[4, 8] in; arg y : f32[4] out; arg z : f32[4] out; temp t : f32[4, 8]; "
      "t[i, j] = exp(x[i, j]); y[i] = sum[j] t[i, j] * x[i, j]; z[i] = max[j] t[i, j]";
  const Optimized result = optimize(program_of(program_text(text)), Explain::kYes);
  EXPECT_EQ(result.report.regions, 1U);
  EXPECT_EQ(result.report.grouped, 3U);
  EXPECT_EQ(result.report.saved_bytes, 4U * 8U * 4U * 4U);
  ASSERT_GE(result.report.notes.size(), 3U);
  EXPECT_NE(result.report.notes.rbegin()[2].text.find("3 statements"), std::string::npos);
}

TEST(Regions, ReportCountsOperandsOfOneLoop) {
  // y is loaded one time fewer, and so is b.
  const char* const text =
      "arg x : f32[4, 8] in; arg b : f32[4] in; arg y : f32[4, 8] out; arg z : f32[4, 8] out; "
      "y[i, j] = exp(x[i, j]) * b[i]; z[i, j] = y[i, j] + b[i]";
  EXPECT_EQ(optimize(program_of(program_text(text))).report.saved_bytes, 4U * 8U * 4U + 4U * 4U);
}

TEST(Regions, ReportCountsValuesInRepeatBlocksAsStored) {
  // u is loaded two times fewer. A value that another round reads has to be stored.
  const char* const text =
      "arg x : f32[9, 4] in; arg y : f32[9, 4] out; arg z : f32[9, 4] out; temp u : f32[4]; "
      "repeat t in 0..9 {u[i] = exp(x[t, i]); y[t, i] = sin(u[i]); z[t, i] = cos(u[i]); }";
  EXPECT_EQ(optimize(program_of(program_text(text))).report.saved_bytes, 2U * 4U * 4U);
}

TEST(Regions, ArgumentsAreFinalWhereTheRegionEnds) {
  const char* const text =
      "arg x : f32[4, 8] in; arg y : f32[4] out; arg z : f32[4] out; "
      "y[i] = sum[j] x[i, j]; z[i] = max[j] x[i, j] * y[i]";
  const Optimized result = optimize(program_of(program_text(text)));
  EXPECT_EQ(result.final_after, (std::vector<std::uint32_t>{0, 2, 2}));
}

}  // namespace
}  // namespace yoke::passes
