// SPDX-License-Identifier: Apache-2.0
// tests/unit/passes/optimize_test.cpp: all passes on the shape of program that training emits.
#include "pass_text.h"

namespace yoke::passes {
namespace {

using program::Op;
using program::Program;
using program::Statement;

// A two-layer net with cross entropy, one statement per operation, as a tensor library writes it.
const char* const kSymbols = "symbol row in 0..60000 step 100";
const char* const kTraining =
    "  arg images : u8[60000, 784] in\n"
    "  arg labels : u8[60000] in\n"
    "  arg w1 : f32[500, 784] in\n"
    "  arg b1 : f32[500] in\n"
    "  arg w2 : f32[10, 500] in\n"
    "  arg b2 : f32[10] in\n"
    "  arg loss : f32[] out\n"
    "  arg dw1 : f32[500, 784] out\n"
    "  arg db1 : f32[500] out\n"
    "  arg dw2 : f32[10, 500] out\n"
    "  arg db2 : f32[10] out\n"
    "  temp batch : u8[100, 784]\n"
    "  temp cast : f32[100, 784]\n"
    "  temp x : f32[100, 784]\n"
    "  temp y : u8[100]\n"
    "  temp w1t : f32[784, 500]\n"
    "  temp z1 : f32[100, 500]\n"
    "  temp b1b : f32[100, 500]\n"
    "  temp a1 : f32[100, 500]\n"
    "  temp zero : f32[100, 500]\n"
    "  temp h1 : f32[100, 500]\n"
    "  temp z2 : f32[100, 10]\n"
    "  temp logits : f32[100, 10]\n"
    "  temp top : f32[100]\n"
    "  temp shifted : f32[100, 10]\n"
    "  temp e : f32[100, 10]\n"
    "  temp s : f32[100]\n"
    "  temp ls : f32[100]\n"
    "  temp logp : f32[100, 10]\n"
    "  temp onehot : f32[100, 10]\n"
    "  temp picked : f32[100, 10]\n"
    "  temp row_loss : f32[100]\n"
    "  temp total : f32[]\n"
    "  temp e_again : f32[100, 10]\n"
    "  temp p : f32[100, 10]\n"
    "  temp dz2 : f32[100, 10]\n"
    "  temp dh1 : f32[100, 500]\n"
    "  temp mask : bool[100, 500]\n"
    "  temp dz1 : f32[100, 500]\n"
    "  temp unused : f32[100, 784]\n"
    "  batch[n, i] = images[row + n, i]\n"
    "  cast[n, i] = f32(batch[n, i])\n"
    "  x[n, i] = cast[n, i] * (1.0 / 255.0)\n"
    "  y[n] = labels[row + n]\n"
    "  w1t[i, o] = w1[o, i]\n"
    "  z1[n, o] = sum[i] x[n, i] * w1t[i, o]\n"
    "  b1b[n, o] = b1[o]\n"
    "  a1[n, o] = z1[n, o] + b1b[n, o]\n"
    "  zero[n, o] = 0.0\n"
    "  h1[n, o] = max(a1[n, o], zero[n, o])\n"
    "  z2[n, o] = sum[i] h1[n, i] * w2[o, i]\n"
    "  logits[n, o] = z2[n, o] + b2[o]\n"
    "  top[n] = max[o] logits[n, o]\n"
    "  shifted[n, o] = logits[n, o] - top[n]\n"
    "  e[n, o] = exp(shifted[n, o])\n"
    "  s[n] = sum[o] e[n, o]\n"
    "  ls[n] = log(s[n])\n"
    "  logp[n, o] = shifted[n, o] - ls[n]\n"
    "  onehot[n, o] = f32(i64(y[n]) == o)\n"
    "  picked[n, o] = logp[n, o] * onehot[n, o]\n"
    "  row_loss[n] = sum[o] picked[n, o]\n"
    "  total[] = sum[n] row_loss[n]\n"
    "  loss[] = -total[] / 100.0\n"
    "  e_again[n, o] = exp(shifted[n, o])\n"
    "  p[n, o] = e_again[n, o] / s[n]\n"
    "  dz2[n, o] = (p[n, o] - onehot[n, o]) * (1.0 / 100.0)\n"
    "  db2[o] = sum[n] dz2[n, o]\n"
    "  dw2[o, i] = sum[n] dz2[n, o] * h1[n, i]\n"
    "  dh1[n, i] = sum[o] dz2[n, o] * w2[o, i]\n"
    "  mask[n, o] = h1[n, o] > zero[n, o]\n"
    "  dz1[n, o] = select(mask[n, o], dh1[n, o], zero[n, o])\n"
    "  db1[o] = sum[n] dz1[n, o]\n"
    "  unused[n, i] = sum[o] dz1[n, o] * w1[o, i]\n"
    "  dw1[o, i] = sum[n] dz1[n, o] * x[n, i]\n";

TEST(Optimize, ATrainingStepIsContractionsWithWhatABackendCanAbsorbBehindThem) {
  expect_turns(optimize, kTraining,
               "  arg images : u8[60000, 784] in\n"
               "  arg labels : u8[60000] in\n"
               "  arg w1 : f32[500, 784] in\n"
               "  arg b1 : f32[500] in\n"
               "  arg w2 : f32[10, 500] in\n"
               "  arg b2 : f32[10] in\n"
               "  arg loss : f32[] out\n"
               "  arg dw1 : f32[500, 784] out\n"
               "  arg db1 : f32[500] out\n"
               "  arg dw2 : f32[10, 500] out\n"
               "  arg db2 : f32[10] out\n"
               "  temp x : f32[100, 784]\n"
               "  temp z1 : f32[100, 500]\n"
               "  temp h1 : f32[100, 500]\n"
               "  temp z2 : f32[100, 10]\n"
               "  temp logits : f32[100, 10]\n"
               "  temp top : f32[100]\n"
               "  temp shifted : f32[100, 10]\n"
               "  temp e : f32[100, 10]\n"
               "  temp s : f32[100]\n"
               "  temp ls : f32[100]\n"
               "  temp onehot : f32[100, 10]\n"
               "  temp row_loss : f32[100]\n"
               "  temp total : f32[]\n"
               "  temp dz2 : f32[100, 10]\n"
               "  temp dh1 : f32[100, 500]\n"
               "  temp dz1 : f32[100, 500]\n"
               "  x[n, i] = f32(images[row + n, i]) * 0.003921569\n"
               "  z1[n, o] = sum[i] x[n, i] * w1[o, i]\n"
               "  h1[n, o] = max(z1[n, o] + b1[o], 0)\n"
               "  z2[n, o] = sum[i] h1[n, i] * w2[o, i]\n"
               "  logits[n, o] = z2[n, o] + b2[o]\n"
               "  top[n] = max[o] logits[n, o]\n"
               "  shifted[n, o] = logits[n, o] - top[n]\n"
               "  e[n, o] = exp(shifted[n, o])\n"
               "  s[n] = sum[o] e[n, o]\n"
               "  ls[n] = log(s[n])\n"
               "  onehot[n, o] = f32(i64(labels[row + n]) == o)\n"
               "  row_loss[n] = sum[o] (shifted[n, o] - ls[n]) * onehot[n, o]\n"
               "  total[] = sum[n] row_loss[n]\n"
               "  loss[] = -total[] / 100.0\n"
               "  dz2[n, o] = (e[n, o] / s[n] - onehot[n, o]) * 0.01\n"
               "  db2[o] = sum[n] dz2[n, o]\n"
               "  dw2[o, i] = sum[n] dz2[n, o] * h1[n, i]\n"
               "  dh1[n, i] = sum[o] dz2[n, o] * w2[o, i]\n"
               "  dz1[n, o] = select(h1[n, o] > 0, dh1[n, o], 0)\n"
               "  db1[o] = sum[n] dz1[n, o]\n"
               "  dw1[o, i] = sum[n] dz1[n, o] * x[n, i]\n",
               kSymbols);
}

TEST(Optimize, OperandsOfContractionsStayPlainReads) {
  const Program program = optimize(program_of(program_text(kTraining, kSymbols)));
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

TEST(Optimize, KeepsTheInterface) {
  const Program before =
      program_of(program_text("  arg unused : f32[4] in\n"
                              "  arg x : f32[4] in\n"
                              "  arg y : f32[4] out\n"
                              "  temp t : f32[4]\n"
                              "  t[i] = x[i]\n"
                              "  y[i] = t[i]\n",
                              "symbol s in 0..5, symbol unused_too in 3..9 step 2"));
  const Program after = optimize(before);
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

TEST(Optimize, OneThousandStatementsTakeLittleTime) {
  std::string body = "  arg x : f32[4] in\n  arg y : f32[4] out\n";
  std::string statements;
  std::string last = "x";
  for (int i = 0; i < 1000; ++i) {
    const std::string name = "t" + std::to_string(i);
    body += "  temp " + name + " : f32[4]\n";
    statements += "  " + name + "[i] = " + last + "[i] * x[i]\n";
    last = name;
  }
  const Program program =
      optimize(program_of(program_text(body + statements + "  y[i] = " + last + "[i]\n")));
  EXPECT_LT(program.statements.size(), 50U);
}

}  // namespace
}  // namespace yoke::passes
