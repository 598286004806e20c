// SPDX-License-Identifier: Apache-2.0
// tests/unit/passes/optimize_test.cpp: all passes on a typical training program.
#include "pass_text.h"

namespace yoke::passes {
namespace {

using program::Op;
using program::Program;
using program::Statement;

// A two-layer network with cross entropy, one statement per operation, as a tensor library generates it.
const char* const kSymbols = "symbol row in 0..60000 step 100";
const char* const kArguments =
    "arg images : u8[60000, 784] in; arg labels : u8[60000] in; arg w1 : f32[500, 784] in; "
    "arg b1 : f32[500] in; arg w2 : f32[10, 500] in; arg b2 : f32[10] in; arg loss : f32[] out; "
    "arg dw1 : f32[500, 784] out; arg db1 : f32[500] out; arg dw2 : f32[10, 500] out; "
    "arg db2 : f32[10] out";
const char* const kTraining =
    "temp batch : u8[100, 784]; temp cast : f32[100, 784]; temp x : f32[100, 784]; temp y : u8[100]; "
    "temp w1t : f32[784, 500]; temp z1 : f32[100, 500]; temp b1b : f32[100, 500]; "
    "temp a1 : f32[100, 500]; temp zero : f32[100, 500]; temp h1 : f32[100, 500]; "
    "temp z2 : f32[100, 10]; temp logits : f32[100, 10]; temp top : f32[100]; "
    "temp shifted : f32[100, 10]; temp e : f32[100, 10]; temp s : f32[100]; temp ls : f32[100]; "
    "temp logp : f32[100, 10]; temp onehot : f32[100, 10]; temp picked : f32[100, 10]; "
    "temp row_loss : f32[100]; temp total : f32[]; temp e_again : f32[100, 10]; temp p : f32[100, 10]; "
    "temp dz2 : f32[100, 10]; temp dh1 : f32[100, 500]; temp mask : bool[100, 500]; "
    "temp dz1 : f32[100, 500]; temp unused : f32[100, 784];"
    "batch[n, i] = images[row + n, i]; "
    "cast[n, i] = f32(batch[n, i]); "
    "x[n, i] = cast[n, i] * (1.0 / 255.0); "
    "y[n] = labels[row + n]; "
    "w1t[i, o] = w1[o, i]; "
    "z1[n, o] = sum[i] x[n, i] * w1t[i, o]; "
    "b1b[n, o] = b1[o]; "
    "a1[n, o] = z1[n, o] + b1b[n, o]; "
    "zero[n, o] = 0.0; "
    "h1[n, o] = max(a1[n, o], zero[n, o]); "
    "z2[n, o] = sum[i] h1[n, i] * w2[o, i]; "
    "logits[n, o] = z2[n, o] + b2[o]; "
    "top[n] = max[o] logits[n, o]; "
    "shifted[n, o] = logits[n, o] - top[n]; "
    "e[n, o] = exp(shifted[n, o]); "
    "s[n] = sum[o] e[n, o]; "
    "ls[n] = log(s[n]); "
    "logp[n, o] = shifted[n, o] - ls[n]; "
    "onehot[n, o] = f32(i64(y[n]) == o); "
    "picked[n, o] = logp[n, o] * onehot[n, o]; "
    "row_loss[n] = sum[o] picked[n, o]; "
    "total[] = sum[n] row_loss[n]; "
    "loss[] = -total[] / 100.0; "
    "e_again[n, o] = exp(shifted[n, o]); "
    "p[n, o] = e_again[n, o] / s[n]; "
    "dz2[n, o] = (p[n, o] - onehot[n, o]) * (1.0 / 100.0); "
    "db2[o] = sum[n] dz2[n, o]; "
    "dw2[o, i] = sum[n] dz2[n, o] * h1[n, i]; "
    "dh1[n, i] = sum[o] dz2[n, o] * w2[o, i]; "
    "mask[n, o] = h1[n, o] > zero[n, o]; "
    "dz1[n, o] = select(mask[n, o], dh1[n, o], zero[n, o]); "
    "db1[o] = sum[n] dz1[n, o]; "
    "unused[n, i] = sum[o] dz1[n, o] * w1[o, i]; "
    "dw1[o, i] = sum[n] dz1[n, o] * x[n, i]";

TEST(Optimize, StopsWhenNoPassChangesTheProgram) {
  // t is large, but is no longer needed at the peak, when u and v are.
  const program::Program program = program_of(program_text(
      "arg x : f32[1024, 1024] in; arg r : f32[1024] out; arg s : f32[1024] out; "
      "arg y : f32[1024, 1024] out; temp t : f32[1024, 1024]; temp u : f32[1024, 1024]; "
      "temp v : f32[1024, 1024]; t[i, j] = exp(x[i, j]); r[i] = max[j] t[j, i]; s[i] = sum[j] t[j, i]; "
      "u[i, j] = sin(x[i, j]); v[i, j] = u[-i + 1023, j] * cos(u[i, j]); "
      "y[i, j] = v[-i + 1023, j] * cos(v[i, j])"));
  EXPECT_LE(optimize(program).report.sweeps, 4U);
}

TEST(Optimize, TrainingStepBecomesContractionsWithEpilogues) {
  expect_turns(
      optimized, kArguments, kTraining,
      "temp x : f32[100, 784]; temp z1 : f32[100, 500]; temp z2 : f32[100, 10]; temp top : f32[100]; "
      "temp e : f32[100, 10]; temp s : f32[100]; temp ls : f32[100]; temp row_loss : f32[100]; "
      "temp dh1 : f32[100, 500];"
      "x[n, i] = f32(images[row + n, i]) * 0.003921569; "
      "@fused[n] {z1[n, o] = sum[i] x[n, i] * w1[o, i]; "
      "z1[n, o] = max(z1[n, o] + b1[o], 0); }; "
      "@fused[n] {z2[n, o] = sum[i] z1[n, i] * w2[o, i]; "
      "z2[n, o] = z2[n, o] + b2[o]; "
      "top[n] = max[o] z2[n, o]; "
      "z2[n, o] = z2[n, o] - top[n]; "
      "e[n, o] = exp(z2[n, o]); "
      "s[n] = sum[o] e[n, o]; "
      "ls[n] = log(s[n]); "
      "row_loss[n] = sum[o] (z2[n, o] - ls[n]) * f32(i64(labels[row + n]) == o); "
      "e[n, o] = (e[n, o] / s[n] - f32(i64(labels[row + n]) == o)) * 0.01; }; "
      "loss[] = sum[n] row_loss[n]; "
      "loss[] = -loss[] / 100.0; "
      "db2[o] = sum[n] e[n, o]; "
      "dw2[o, i] = sum[n] e[n, o] * z1[n, i]; "
      "@fused[n] {dh1[n, i] = sum[o] e[n, o] * w2[o, i]; "
      "z1[n, o] = select(z1[n, o] > 0, dh1[n, o], 0); }; "
      "db1[o] = sum[n] z1[n, o]; "
      "dw1[o, i] = sum[n] z1[n, o] * x[n, i]",
      kSymbols);
}

TEST(Optimize, OperandsOfContractionsArePlainReads) {
  const Program program =
      optimized(program_of(program_text(std::string(kArguments) + "; " + kTraining, kSymbols)));
  std::size_t contractions = 0;
  for (const Statement& statement : program.statements) {
    if (statement.reduce_loops.size() == 1 && statement.loops.size() == 3) {
      ++contractions;
      ASSERT_EQ(statement.value.op, Op::kMul) << program::print(program, statement);
      EXPECT_EQ(statement.value.args[0].op, Op::kRead) << program::print(program, statement);
      EXPECT_EQ(statement.value.args[1].op, Op::kRead) << program::print(program, statement);
    }
  }
  EXPECT_EQ(contractions, 5U);
}

TEST(Optimize, RepeatBlocksAreOptimizedInsideAndAround) {
  expect_turns(optimized, "arg x : f32[4] in; arg w : f32[10, 4] in; arg y : f32[4] out",
               "temp a : f32[4]; temp h : f32[4]; temp u : f32[4]; temp s : f32[4]; a[i] = x[i] * 1.0; "
               "h[i] = a[i]; s[i] = 0; repeat r in 0..5 {s[i] = s[i] + w[r, i]; }; "
               "repeat t in 0..10 {u[i] = tanh(h[i]); h[i] = u[i] * w[t, i]; }; y[i] = h[i]",
               "y[i] = x[i]; repeat t in 0..10 {y[i] = tanh(y[i]) * w[t, i]; }");
}

TEST(Optimize, KeepsTheInterface) {
  const Program before = program_of(
      program_text("arg unused : f32[4] in; arg x : f32[4] in; arg y : f32[4] out; temp t : f32[4]; "
                   "t[i] = x[i]; y[i] = t[i]",
                   "symbol s in 0..5, symbol unused_too in 3..9 step 2"));
  const Program after = optimized(before);
  EXPECT_EQ(after.name, "p");
  ASSERT_EQ(after.symbols.size(), 2U);
  EXPECT_EQ(after.symbols[1].name, "unused_too");
  ASSERT_EQ(after.arguments().size(), 3U);
  for (std::size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(after.tensors[after.arguments()[i]].name, before.tensors[before.arguments()[i]].name);
    EXPECT_EQ(after.tensors[after.arguments()[i]].role, before.tensors[before.arguments()[i]].role);
  }
  EXPECT_EQ(after.statements.size(), 1U);
}

// x - t becomes x - x in one sweep and 0 in the next one. So what reads z[i] vanishes, then what computes it.
constexpr const char* kVanishing = "t[i] = x[i]; y[i] = (x[i] - t[i]) * z[i]";
constexpr const char* kVanishingTensors =
    "arg x : i32[4] in; arg v : i32[4, 5] in; arg y : i32[4] out; temp t : i32[4]; temp z : i32[4]; ";

TEST(Optimize, SweepsUntilNoPassChangesTheProgram) {
  const Program after = optimized(
      program_of(program_text(kVanishingTensors + std::string("z[i] = sum[j] v[i, j]; ") + kVanishing)));
  ASSERT_EQ(after.statements.size(), 1U) << program::print(after);
  EXPECT_EQ(after.statements[0].value.op, Op::kConst);
}

TEST(Optimize, MovesStatementsToRegionsWhenNothingElseChanges) {
  // Next to the statement of a, the one that writes w would prevent that a is computed in the sum.
  const Program after = optimized(program_of(
      program_text(kVanishingTensors +
                   std::string("arg w : f32[4] inout; arg s : f32[] out; temp a : f32[4]; a[i] = exp(w[i]); "
                               "z[i] = max[j] v[i, j] * i32(a[i]); s[] = sum[i] a[i]; w[i] = w[i] * 0.5; ") +
                   kVanishing)));
  EXPECT_FALSE(after.find_tensor("a")) << program::print(after);
}

TEST(Optimize, LongProgramIsOptimizedInTime) {
  std::string body = "arg x : f32[4] in; arg y : f32[4] out";
  std::string statements;
  std::string last = "x";
  for (int i = 0; i < 1000; ++i) {
    const std::string name = "t" + std::to_string(i);
    body += "; temp " + name + " : f32[4]";
    statements += "; " + name + "[i] = " + last + "[i] * x[i]";
    last = name;
  }
  const Program program = optimized(program_of(program_text(body + statements + "; y[i] = " + last + "[i]")));
  EXPECT_LT(program.statements.size(), 50U);
}

}  // namespace
}  // namespace yoke::passes
