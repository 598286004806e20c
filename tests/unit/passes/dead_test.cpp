// SPDX-License-Identifier: Apache-2.0
// tests/unit/passes/dead_test.cpp: what nobody reads is not computed.
#include "pass_text.h"

namespace yoke::passes {
namespace {

TEST(DeadStatements, GoWithTheTemporariesThatOnlyTheyUse) {
  expect_turns(remove_dead_statements,
               "  arg x : f32[4] in\n"
               "  arg y : f32[4] out\n"
               "  temp t : f32[4]\n"
               "  temp u : f32[4]\n"
               "  temp never : f32[9]\n"
               "  t[i] = exp(x[i])\n"
               "  u[i] = t[i] + 1.0\n"
               "  y[i] = x[i]\n",
               "  arg x : f32[4] in\n"
               "  arg y : f32[4] out\n"
               "  y[i] = x[i]\n");
}

TEST(DeadStatements, AWholeWriteEndsTheLifeOfWhatWasThere) {
  expect_turns(remove_dead_statements,
               "  arg x : f32[2, 4] in\n"
               "  arg y : f32[4, 2] out\n"
               "  y[i, j] = 1.0\n"
               "  y[3 - i, j] for[i:4] = x[j, i]\n",
               "  arg x : f32[2, 4] in\n"
               "  arg y : f32[4, 2] out\n"
               "  y[-i + 3, j] for[i:4] = x[j, i]\n");
}

TEST(DeadStatements, APartialWriteLeavesTheRestAlive) {
  expect_keeps(remove_dead_statements,
               "  arg x : f32[4] in\n"
               "  arg y : f32[8] out\n"
               "  y[i] = 1.0\n"
               "  y[i + 4] for[i:4] = x[i]\n");
}

TEST(DeadStatements, AnAccumulatingWriteReadsWhatWasThere) {
  expect_keeps(remove_dead_statements,
               "  arg x : f32[4] in\n"
               "  arg y : f32[4] out\n"
               "  y[i] = 1.0\n"
               "  y[i] += x[i]\n");
}

TEST(DeadStatements, AccumulationIntoADeadTemporaryGoes) {
  expect_turns(remove_dead_statements,
               "  arg x : f32[4] in\n"
               "  arg n : i32[4] in\n"
               "  arg y : f32[] out\n"
               "  temp t : f32[9]\n"
               "  t[i] = 0.0\n"
               "  t[n[i]] += x[i]\n"
               "  y[] = sum[i] x[i]\n",
               "  arg x : f32[4] in\n"
               "  arg n : i32[4] in\n"
               "  arg y : f32[] out\n"
               "  y[] = sum[i] x[i]\n");
}

TEST(DeadStatements, AnInoutArgumentIsReadAtTheEnd) {
  expect_keeps(remove_dead_statements,
               "  arg x : f32[4] in\n"
               "  arg w : f32[4] inout\n"
               "  w[i] = w[i] - x[i]\n");
}

TEST(DeadStatements, WhatAnInoutArgumentHeldIsDeadBehindAWholeWrite) {
  expect_turns(remove_dead_statements,
               "  arg x : f32[4] in\n"
               "  arg w : f32[4] inout\n"
               "  w[i] *= 2.0\n"
               "  w[i] = x[i]\n",
               "  arg x : f32[4] in\n"
               "  arg w : f32[4] inout\n"
               "  w[i] = x[i]\n");
}

TEST(DeadStatements, IndexTensorsOfGatherAndScatterAreRead) {
  expect_keeps(remove_dead_statements,
               "  arg x : f32[4] in\n"
               "  arg w : f32[9] inout\n"
               "  arg y : f32[4] out\n"
               "  temp n : i32[4]\n"
               "  temp m : i32[4]\n"
               "  n[i] = i32(x[i])\n"
               "  m[i] = i32(exp(x[i]))\n"
               "  w[n[i]] += x[i]\n"
               "  y[i] = (w[m[i]] else 0)\n");
}

TEST(DeadStatements, AStatementThatStoresWhatItReadGoes) {
  expect_turns(remove_dead_statements,
               "  arg w : f32[4] inout\n"
               "  w[i] = exp(w[i])\n"
               "  w[i] = w[i]\n",
               "  arg w : f32[4] inout\n"
               "  w[i] = exp(w[i])\n");
}

TEST(DeadStatements, AHintThatGroupsNothingGoesAndTheOthersStay) {
  expect_turns(remove_dead_statements,
               "  arg x : f32[4] in\n"
               "  arg y : f32[] out\n"
               "  temp t : f32[4]\n"
               "  @layer_norm {\n"
               "    t[i] = x[i] * 2.0\n"
               "  }\n"
               "  @softmax {\n"
               "    y[] = sum[i] x[i]\n"
               "  }\n",
               "  arg x : f32[4] in\n"
               "  arg y : f32[] out\n"
               "  @softmax {\n"
               "    y[] = sum[i] x[i]\n"
               "  }\n");
}

}  // namespace
}  // namespace yoke::passes
