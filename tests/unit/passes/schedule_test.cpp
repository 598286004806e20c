// SPDX-License-Identifier: Apache-2.0
// tests/unit/passes/schedule_test.cpp: the order of statements: epilogues after their reductions, little
// memory, and arguments that become final early.
#include "pass_text.h"

namespace yoke::passes {
namespace {

TEST(Schedule, EpilogueMovesUpToItsContraction) {
  expect_turns(schedule,
               "arg x : f32[4, 8] in; arg w : f32[5, 8] in; arg b : f32[5] in; arg m : f32[4] out; "
               "arg h : f32[4, 5] out",
               "temp z : f32[4, 5]; z[n, o] = sum[i] x[n, i] * w[o, i]; m[n] = max[i] x[n, i]; "
               "h[n, o] = max(z[n, o] + b[o], 0.0)",
               "temp z : f32[4, 5]; z[n, o] = sum[i] x[n, i] * w[o, i]; "
               "h[n, o] = max(z[n, o] + b[o], 0.0); m[n] = max[i] x[n, i]");
}

TEST(Schedule, ContractionMovesDownIfItsEpilogueCannotMoveUp) {
  expect_turns(schedule, "arg x : f32[4, 8] in; arg w : f32[5, 8] in; arg h : f32[4, 5] out",
               "temp m : f32[4]; temp z : f32[4, 5]; z[n, o] = sum[i] x[n, i] * w[o, i]; "
               "m[n] = max[i] x[n, i]; h[n, o] = z[n, o] - m[n]",
               "temp m : f32[4]; temp z : f32[4, 5]; m[n] = max[i] x[n, i]; "
               "z[n, o] = sum[i] x[n, i] * w[o, i]; h[n, o] = z[n, o] - m[n]");
}

TEST(Schedule, ContractionsThatShareAnEpilogueKeepTheirOrder) {
  expect_keeps(schedule, "arg x : f32[4, 8] in; arg w : f32[5, 8] in; arg h : f32[4, 5] out",
               "temp a : f32[4, 5]; temp b : f32[4, 5]; a[n, o] = sum[i] x[n, i] * w[o, i]; "
               "b[n, o] = sum[i] exp(x[n, i] * w[o, i]); h[n, o] = a[n, o] - b[n, o]");
}

TEST(Schedule, DependentStatementsAreNotReordered) {
  expect_keeps(schedule, "arg x : f32[4, 8] in; arg w : f32[5, 8] inout; arg h : f32[4, 5] out",
               "temp m : f32[4]; temp z : f32[4, 5]; z[n, o] = sum[i] x[n, i] * w[o, i]; "
               "m[n] = max[i] x[n, i]; w[o, i] = w[o, i] * m[0]; h[n, o] = z[n, o] - m[n] * w[0, 0]");
}

TEST(Schedule, InPlaceEpilogueIsKept) {
  expect_keeps(schedule, "arg x : f32[4, 8] in; arg w : f32[5, 8] in; arg b : f32[5] in; arg y : f32[4] out",
               "temp z : f32[4, 5]; z[n, o] = sum[i] x[n, i] * w[o, i]; "
               "z[n, o] = max(z[n, o] + b[o], 0.0); y[n] = max[o] z[n, o]");
}

TEST(Schedule, EpilogueMovesUpToAnAccumulation) {
  expect_turns(schedule, "arg x : f32[4, 8] in; arg m : f32[4] out; arg z : f32[4] inout",
               "z[n] += sum[k] x[n, k]; m[n] = max[k] x[n, k]; z[n] = max(z[n], 0.0)",
               "z[n] += sum[k] x[n, k]; z[n] = max(z[n], 0.0); m[n] = max[k] x[n, k]");
}

TEST(Schedule, AmongStatementsThatAllocateNothingThoseThatWriteArgumentsComeFirst) {
  const std::string arguments = "arg x : f32[4] in; arg y : f32[4] out; arg z : f32[4] out";
  const std::string temporaries = "temp u : f32[4]; temp t : f32[4]; u[i] = exp(x[i]); t[i] = sin(x[i]); ";
  expect_turns(schedule, arguments,
               temporaries + "u[i] = u[i] * t[-i + 3]; y[i] = t[i] + x[i]; z[i] = u[i] - t[i]",
               temporaries + "y[i] = t[i] + x[i]; u[i] = u[i] * t[-i + 3]; z[i] = u[i] - t[i]");
  // Also if what allocates less would be final later.
  const std::string large = "temp a : f32[64, 64]; a[i, j] = exp(w[j, i]); r[i] = sum[j] a[i, j]; ";
  expect_turns(schedule, arguments + "; arg w : f32[64, 64] in; arg r : f32[64] out",
               large + temporaries + "u[i] = u[i] * t[-i + 3]; y[i] = t[i] + x[i]; z[i] = u[i] - t[i]",
               large + temporaries + "y[i] = t[i] + x[i]; u[i] = u[i] * t[-i + 3]; z[i] = u[i] - t[i]");
}

TEST(Schedule, SmallValueIsComputedBeforeALargeOneIfThatTakesLessMemory) {
  const std::string a = "a[i, j] = exp(x[j, i]); ";
  const std::string b = "b[i] = sum[j] w[i, j]; r[i] = b[-i + 7] * b[i]; ";
  const std::string z = "z[i] = sum[j] a[i, j] * r[i]";
  expect_turns(schedule,
               "arg x : f32[64, 8] in; arg w : f32[8, 9] in; arg r : f32[8] out; arg z : f32[8] out",
               "temp a : f32[8, 64]; temp b : f32[8]; " + a + b + z,
               "temp a : f32[8, 64]; temp b : f32[8]; " + b + a + z);
}

TEST(Schedule, ChainThatWritesAnArgumentAndThenATemporaryWritesAnArgument) {
  const std::string first =
      "temp t : f32[4]; temp u : f32[4]; temp v : f32[4]; t[i] = sin(x[i]); u[i] = exp(x[i]); v[i] = "
      "cos(x[i]); ";
  const std::string u = "u[i] = u[i] * v[-i + 3]; ";
  const std::string chain = "y[i] = sum[j] w[i, j] * v[i]; t[i] = t[i] * y[i]; ";
  const std::string last = "z[i] = (u[i] - t[i]) * v[i]";
  expect_turns(schedule, "arg x : f32[4] in; arg w : f32[4, 8] in; arg y : f32[4] out; arg z : f32[4] out",
               first + u + chain + last, first + chain + u + last);
}

TEST(Schedule, AllOfALongEpilogueMovesUp) {
  const std::string z = "z[n] = sum[i] x[n, i]; ";
  const std::string m = "m[n] = max[i] x[n, i]; ";
  const std::string epilogue = "z[n] = sin(z[n]); z[n] = exp(z[n]); ";
  expect_turns(schedule, "arg x : f32[4, 8] in; arg m : f32[4] out; arg z : f32[4] out", z + m + epilogue,
               z + epilogue + m);
}

TEST(Schedule, OnlyAnElementwiseStatementIsAnEpilogue) {
  const std::string before = "y[n] = sum[i] x[n, i]; m[n] = max[i] x[n, i]; ";
  for (const std::string last : {"h[n] = sum[i] y[n] * x[n, i]", "h[n] += y[n]", "h[n] = y[-n + 3]",
                                 "y[n] for[n:2] = 3.0", "@layer {h[n] = y[n] * 2.0; h[n] = exp(h[n]); }"}) {
    expect_keeps(schedule,
                 "arg x : f32[4, 8] in; arg y : f32[4] out; arg m : f32[4] out; arg h : f32[4] inout",
                 before + last);
  }
}

TEST(Schedule, NothingMovesIntoAGroup) {
  // s would become final earlier, and use less memory, after the first statement of the group.
  const std::string large = "a[i, j] = exp(x[i, j]); h[i] = sum[j] x[i, j]; ";
  expect_keeps(schedule, "arg x : f32[8, 8] in; arg s : f32[8] out; arg y : f32[8] out",
               "temp a : f32[8, 8]; temp h : f32[8]; temp b : f32[8]; " + large +
                   "@group {b[i] = exp(h[i]) * a[i, 0]; h[i] = h[i] * 2.0; y[i] = b[i] * h[i]; }; "
                   "s[i] = sum[j] a[i, j] * b[i]");
}

// A long program in which every epilogue is far from its contraction.
TEST(Schedule, ManyEpiloguesMoveUp) {
  constexpr int kLayers = 700;
  std::string tensors = "arg x : f32[2, 2] in";
  std::string products;
  std::string epilogues;
  for (int i = 0; i < kLayers; ++i) {
    const std::string n = std::to_string(i);
    tensors += "; arg w" + n + " : f32[2, 2] in; arg h" + n + " : f32[2, 2] out; temp z" + n + " : f32[2, 2]";
    products += "; z" + n + "[i, j] = sum[k] x[i, k] * w" + n + "[k, j]";
    epilogues += "; h" + n + "[i, j] = max(z" + n + "[i, j], 0)";
  }
  const program::Program placed = schedule(program_of(program_text(tensors + products + epilogues)));
  ASSERT_EQ(placed.statements.size(), 2U * kLayers);
  for (std::size_t i = 0; i < placed.statements.size(); i += 2) {
    EXPECT_TRUE(placed.statements[i].reduce);
    EXPECT_EQ(placed.statements[i + 1].value.args[0].access.tensor, placed.statements[i].target.tensor);
  }
}

TEST(Schedule, GroupsMoveAsAWhole) {
  expect_turns(schedule,
               "arg x : f32[4, 8] in; arg w : f32[5, 8] in; arg y : f32[4, 5] out; arg s : f32[4] out",
               "temp e : f32[4, 8]; temp z : f32[4, 5]; z[n, o] = sum[i] x[n, i] * w[o, i]; "
               "@softmax { e[n, i] = exp(x[n, i]); s[n] = sum[i] e[n, i]; }; y[n, o] = max(z[n, o], s[n])",
               "temp e : f32[4, 8]; temp z : f32[4, 5]; "
               "@softmax { e[n, i] = exp(x[n, i]); s[n] = sum[i] e[n, i]; }; "
               "z[n, o] = sum[i] x[n, i] * w[o, i]; y[n, o] = max(z[n, o], s[n])");
}

TEST(Schedule, ValuesAreComputedWhereTheyAreNeededLast) {
  // Each pair of a large value and the sum that frees it becomes adjacent.
  expect_turns(schedule, "arg x : f32[64, 64] in; arg y : f32[64] out; arg z : f32[64] out",
               "temp a : f32[64, 64]; temp b : f32[64, 64]; a[i, j] = exp(x[j, i]); b[i, j] = sin(x[j, i]); "
               "y[i] = sum[j] a[i, j]; z[i] = sum[j] b[i, j]",
               "temp a : f32[64, 64]; temp b : f32[64, 64]; a[i, j] = exp(x[j, i]); y[i] = sum[j] a[i, j]; "
               "b[i, j] = sin(x[j, i]); z[i] = sum[j] b[i, j]");
}

TEST(Schedule, ArgumentsBecomeFinalEarlyIfThatCostsNoMemory) {
  expect_turns(schedule, "arg x : f32[64, 64] in; arg y : f32[64, 64] inout; arg z : f32[64] out",
               "temp a : f32[64, 64]; a[i, j] = exp(x[j, i]); z[i] = sum[j] a[i, j]; "
               "y[i, j] = y[i, j] * x[i, j]; z[i] += sum[j] y[j, i]",
               "temp a : f32[64, 64]; y[i, j] = y[i, j] * x[i, j]; a[i, j] = exp(x[j, i]); "
               "z[i] = sum[j] a[i, j]; z[i] += sum[j] y[j, i]");
}

}  // namespace
}  // namespace yoke::passes
