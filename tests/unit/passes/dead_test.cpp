// SPDX-License-Identifier: Apache-2.0
// tests/unit/passes/dead_test.cpp: removal of statements whose results are not read.
#include "pass_text.h"

namespace yoke::passes {
namespace {

TEST(DeadStatements, AreRemovedWithTheirTemporaries) {
  expect_turns(remove_dead_statements, "arg x : f32[4] in; arg y : f32[4] out",
               "temp t : f32[4]; temp u : f32[4]; temp never : f32[9]; "
               "t[i] = exp(x[i]); u[i] = t[i] + 1.0; y[i] = x[i]",
               "y[i] = x[i]");
}

TEST(DeadStatements, UnusedTemporariesAreRemovedEvenIfAllStatementsAreLive) {
  expect_turns(remove_dead_statements, "arg x : f32[4] in; arg y : f32[4] out",
               "temp never : f32[9]; y[i] = x[i]", "y[i] = x[i]");
  expect_turns(remove_dead_statements, "arg x : f32[4] in; arg y : f32[4] out",
               "temp never : f32[9]; temp t : f32[4]; t[i] = exp(x[i]); y[i] = t[i]",
               "temp t : f32[4]; t[i] = exp(x[i]); y[i] = t[i]");
}

TEST(DeadStatements, StatementBeforeAWholeWriteIsRemoved) {
  expect_turns(remove_dead_statements, "arg x : f32[2, 4] in; arg y : f32[4, 2] out",
               "y[i, j] = 1.0; y[3 - i, j] for[i:4] = x[j, i]", "y[-i + 3, j] for[i:4] = x[j, i]");
}

TEST(DeadStatements, StatementBeforeAPartialWriteIsKept) {
  expect_keeps(remove_dead_statements, "arg x : f32[4] in; arg y : f32[8] out",
               "y[i] = 1.0; y[i + 4] for[i:4] = x[i]");
}

TEST(DeadStatements, StatementBeforeAnAccumulatingWriteIsKept) {
  expect_keeps(remove_dead_statements, "arg x : f32[4] in; arg y : f32[4] out", "y[i] = 1.0; y[i] += x[i]");
}

TEST(DeadStatements, AccumulationIntoADeadTemporaryIsRemoved) {
  expect_turns(remove_dead_statements, "arg x : f32[4] in; arg n : i32[4] in; arg y : f32[] out",
               "temp t : f32[9]; t[i] = 0.0; t[n[i]] += x[i]; y[] = sum[i] x[i]", "y[] = sum[i] x[i]");
}

TEST(DeadStatements, InoutArgumentIsLiveAtTheEnd) {
  expect_keeps(remove_dead_statements, "arg x : f32[4] in; arg w : f32[4] inout", "w[i] = w[i] - x[i]");
}

TEST(DeadStatements, StatementBeforeAWholeWriteOfAnInoutArgumentIsRemoved) {
  expect_turns(remove_dead_statements, "arg x : f32[4] in; arg w : f32[4] inout", "w[i] *= 2.0; w[i] = x[i]",
               "w[i] = x[i]");
}

TEST(DeadStatements, IndexTensorsAreLive) {
  expect_keeps(remove_dead_statements, "arg x : f32[4] in; arg w : f32[9] inout; arg y : f32[4] out",
               "temp n : i32[4]; temp m : i32[4]; n[i] = i32(x[i]); "
               "m[i] = i32(exp(x[i])); w[n[i]] += x[i]; y[i] = (w[m[i]] else 0)");
}

TEST(DeadStatements, SelfCopyIsRemoved) {
  expect_turns(remove_dead_statements, "arg w : f32[4] inout", "w[i] = exp(w[i]); w[i] = w[i]",
               "w[i] = exp(w[i])");
}

TEST(DeadStatements, SumsAndCopiesOfOtherElementsAreKept) {
  expect_keeps(remove_dead_statements, "arg w : f32[4] inout", "w[i] = sum[k:8] w[i]");
  expect_keeps(remove_dead_statements, "arg w : f32[8] inout", "w[i + 4] for[i:4] = w[i]");
}

TEST(DeadStatements, EmptyHintIsRemoved) {
  expect_turns(remove_dead_statements, "arg x : f32[4] in; arg y : f32[] out",
               "temp t : f32[4]; @layer_norm { t[i] = x[i] * 2.0; }; @softmax { "
               "y[] = sum[i] x[i]; }",
               "@softmax { y[] = sum[i] x[i]; }");
}

}  // namespace
}  // namespace yoke::passes
