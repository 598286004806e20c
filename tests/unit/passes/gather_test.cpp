// SPDX-License-Identifier: Apache-2.0
// tests/unit/passes/gather_test.cpp: which statements move up to a region, and which must not.
#include "pass_text.h"

namespace yoke::passes {
namespace {

TEST(Gather, ScalarsThatMoveOutOfTheWayDoNotEnterRepeatBlocks) {
  const std::string block = "repeat t in 0..10 {u[i] = exp(a[t, i]); y[t, i] = sin(b[t, i]); }; ";
  const std::string m = "m[i] = m[i] * 0.5 + y[0, i]; ";
  const std::string s = "s[] = exp(u[0]) + 1.0; ";
  const std::string w = "w[i] = w[i] - m[i] * s[] / (m[i] + s[])";
  expect_turns(optimized,
               "arg a : f32[10, 8] in; arg b : f32[10, 8] in; arg m : f32[8] inout; "
               "arg w : f32[8] inout; "
               "temp u : f32[8]; temp y : f32[10, 8]; temp s : f32[]",
               block + m + s + w, block + s + "@fused[i] {" + m + w + "; }");
}

TEST(Gather, ElementThatIsWrittenAfterTheWholeStaysAfterIt) {
  const std::string z = "z[i] = exp(g[i]); ";
  const std::string w = "w[i] = w[i] - g[i] * 0.5 / (g[i] + 1.0); ";
  expect_turns(optimized, "arg g : f32[8] in; arg r : f32[] in; arg z : f32[8] out; arg w : f32[8] inout",
               z + "z[0] = exp(r[]); " + w, "@fused[i] {" + z + w + "}; z[0] = exp(r[])");
}

TEST(Gather, LaterWriteOfATensorStaysAfterAnEarlierOne) {
  expect_keeps(optimized,
               "arg x : f32[8, 8] in; arg q : f32[8, 16] in; arg y : f32[8, 8] out; arg z : f32[16, 8] out",
               "y[i, j] = exp(x[i, j]); z[i, j] = q[j, i]; z[i, j] for[i:8] = y[i, j] * x[i, j]");
}

TEST(Gather, StatementThatFollowsARegionMayCostLoops) {
  expect_turns(optimized,
               "arg x : f32[8, 8] in; arg q : f32[8, 8] in; arg l : f32[] out; arg s : f32[8] out; "
               "arg y : f32[8, 8] out; arg u : f32[8, 8] out",
               "u[i, j] = exp(x[i, j]); s[i] = sum[j] u[i, j]; l[] = max[i, j] q[i, j]; "
               "y[i, j] = u[i, j] * x[i, j]",
               "@fused[i] {u[i, j] = exp(x[i, j]); s[i] = sum[j] u[i, j]; y[i, j] = u[i, j] * x[i, j]; }; "
               "l[] = max[i, j] q[i, j]");
}

// In the following two tests, t is live at the peak of memory, and l[] is the statement that no region takes.
const std::string kPeak = "t[i, j] = max[k] a[i, k] * a[j, k]; l[] = max[i, j] t[i, j] * t[j, i]; ";
const std::string kPeakTensors = "arg a : f32[32, 8] in; arg l : f32[] out; temp t : f32[32, 32]; ";

TEST(Gather, StatementThatTakesTooMuchMemoryDoesNotPreventOthersOfItsRegion) {
  // s takes the memory of c.
  const std::string m = "c[n] = max[k] b[n, k]; m[n] = max[k] x[n, k]; ";
  const std::string u = "u[n, k] = exp(q[n, k] - m[n]); ";
  const std::string s = "s[n] = sum[k] x[n, k] * m[n] * c[n]; ";
  const std::string text =
      program_text(kPeakTensors +
                   "arg b : f32[8, 9] in; arg q : f32[8, 64] in; arg x : f32[8, 64] in; arg z : f32[] out; "
                   "temp c : f32[8]; temp m : f32[8]; "
                   "temp u : f32[8, 64]; temp s : f32[8]; " +
                   m + kPeak + u + s + "z[] = sum[n, k] u[n, k] * u[-n + 7, k] * s[n] * l[]");
  const std::string optimal = program::print(optimized(program_of(text)));
  EXPECT_LT(optimal.find("s[n] = sum"), optimal.find("t[i, j] = max")) << optimal;
  EXPECT_LT(optimal.find("t[i, j] = max"), optimal.find("u[n, k] = exp")) << optimal;
}

TEST(Gather, OperandThatIsReadAtThePeakIsNotFreedByAMove) {
  // Next to m, u would take memory at the peak, at which v is still read.
  const std::string text = program_text(
      kPeakTensors +
      "arg b : f32[8, 2, 9] in; arg x : f32[8, 2] in; arg w : f32[8, 8] in; arg y : f32[8, 8] out; "
      "arg z : f32[] out; arg l2 : f32[] out; temp m : f32[8]; temp m2 : f32[8]; temp u : f16[8, 2]; "
      "temp v : f32[8, 2]; v[n, k] = max[i] b[n, k, i]; m[n] = max[k] x[n, k] * v[n, 0]; "
      "t[i, j] = max[k] a[i, k] * a[j, k] * v[k, 0]; l[] = max[i, j] t[i, j] * t[j, i] * v[0, 1]; "
      "u[n, k] = f16(exp(x[n, k] - m[n]) * v[n, k]); z[] = sum[n, k] f32(u[n, k] * u[-n + 7, k]) * m[n] * "
      "l[]; "
      "m2[n] = max[k] w[n, k]; l2[] = sum[i] m2[i]; y[n, k] = w[n, k] - m2[n]");
  const std::string optimal = program::print(optimized(program_of(text)));
  EXPECT_NE(optimal.find("    m2[n] = max[k] w[n, k]\n    y[n, k]"), std::string::npos) << optimal;
  EXPECT_LT(optimal.find("t[i, j] = max"), optimal.find("u[n, k] = exp")) << optimal;
}

}  // namespace
}  // namespace yoke::passes
