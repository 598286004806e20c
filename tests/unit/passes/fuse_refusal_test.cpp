// SPDX-License-Identifier: Apache-2.0
// tests/unit/passes/fuse_refusal_test.cpp: each reason why an elementwise temporary stays.
#include "pass_text.h"

namespace yoke::passes {
namespace {

TEST(FuseRefuses, AComputedOperandOfAContraction) {
  expect_keeps(fuse,
               "  arg x : f32[4, 8] in\n"
               "  arg w : f32[5, 8] in\n"
               "  arg y : f32[4, 5] out\n"
               "  temp t : f32[4, 8]\n"
               "  t[n, i] = max(x[n, i], 0.0)\n"
               "  y[n, o] = sum[i] t[n, i] * w[o, i]\n");
  expect_keeps(fuse,
               "  arg x : u8[4, 8] in\n"
               "  arg w : f32[5, 8] in\n"
               "  arg y : f32[4, 5] out\n"
               "  temp t : f32[4, 8]\n"
               "  t[n, i] = f32(x[n, i])\n"
               "  y[n, o] = sum[i] t[n, i] * w[o, i]\n");
  expect_keeps(fuse,
               "  arg x : f16[4, 8] in\n"
               "  arg w : f16[5, 8] in\n"
               "  arg y : f32[4, 5] out\n"
               "  temp t : f16[4, 8]\n"
               "  t[n, i] = -x[n, i]\n"
               "  y[n, o] = sum[i] f32(t[n, i]) * f32(w[o, i])\n");
}

TEST(FuseRefuses, ACopyThatWouldMakeAContractionUnlikeOne) {
  // A padded or gathered operand, and a strided or overlapping one.
  expect_keeps(fuse,
               "  arg x : f32[4, 6] in\n"
               "  arg w : f32[5, 8] in\n"
               "  arg y : f32[4, 5] out\n"
               "  temp t : f32[4, 8]\n"
               "  t[n, i] = (x[n, i - 1] else 0)\n"
               "  y[n, o] = sum[i] t[n, i] * w[o, i]\n");
  expect_keeps(fuse,
               "  arg x : f32[4, 12] in\n"
               "  arg w : f32[5, 3] in\n"
               "  arg y : f32[10, 5] out\n"
               "  temp t : f32[10, 3]\n"
               "  t[n, i] = x[0, n + i]\n"
               "  y[n, o] = sum[i] t[n, i] * w[o, i]\n");
  // The summed loop would be missing in one operand.
  expect_keeps(fuse,
               "  arg b : f32[5] in\n"
               "  arg w : f32[4, 8] in\n"
               "  arg y : f32[4, 5] out\n"
               "  temp t : f32[5, 8]\n"
               "  t[o, i] = b[o]\n"
               "  y[n, o] = sum[i] w[n, i] * t[o, i]\n");
}

TEST(FuseRefuses, ToComputeAnElementAgainForEveryStepOfAnotherLoop) {
  expect_keeps(fuse,
               "  arg x : f32[4] in\n"
               "  arg y : f32[4, 5] out\n"
               "  temp t : f32[4]\n"
               "  t[i] = x[i] * 2.0\n"
               "  y[i, j] = t[i]\n");
  expect_keeps(fuse,
               "  arg x : f32[8] in\n"
               "  arg y : f32[6] out\n"
               "  temp t : f32[8]\n"
               "  t[i] = x[i] * 2.0\n"
               "  y[i] = max[k:3] t[i + k]\n");
}

TEST(FuseRefuses, ToComputeAnElementForEachOfItsReaders) {
  expect_keeps(fuse,
               "  arg x : f32[4] in\n"
               "  arg y : f32[4] out\n"
               "  arg z : f32[4] out\n"
               "  temp t : f32[4]\n"
               "  t[i] = x[i] * 2.0\n"
               "  y[i] = t[i] + 1.0\n"
               "  z[i] = t[i] - 1.0\n");
  expect_keeps(fuse,
               "  arg x : f32[4] in\n"
               "  arg y : f32[4] out\n"
               "  temp t : f32[4]\n"
               "  t[i] = x[i] * 2.0\n"
               "  y[i] = t[i] * tanh(t[i])\n");
}

TEST(FuseRefuses, ATransposeThatSeveralWouldReadAgainstTheOrderOfMemory) {
  expect_keeps(fuse,
               "  arg x : f32[8, 4] in\n"
               "  arg y : f32[4, 8] out\n"
               "  arg z : f32[4, 8] out\n"
               "  temp t : f32[4, 8]\n"
               "  t[i, j] = x[j, i]\n"
               "  y[i, j] = t[i, j] + 1.0\n"
               "  z[i, j] = t[i, j] - 1.0\n");
}

TEST(FuseRefuses, WhereAnInputIsOverwrittenInBetween) {
  expect_keeps(fuse,
               "  arg w : f32[4] inout\n"
               "  arg y : f32[4] out\n"
               "  temp t : f32[4]\n"
               "  t[i] = w[i] * 2.0\n"
               "  w[i] = w[i] + 1.0\n"
               "  y[i] = t[i] - w[i]\n");
}

TEST(FuseRefuses, WhereTheConsumerWouldReadOtherElementsOfItsTarget) {
  expect_keeps(fuse,
               "  arg w : f32[4] inout\n"
               "  temp t : f32[4]\n"
               "  t[i] = w[i] * 2.0\n"
               "  w[i] = t[-i + 3]\n");
  expect_keeps(fuse,
               "  arg w : f32[4] inout\n"
               "  temp t : f32[4]\n"
               "  t[i] = w[i] * 2.0\n"
               "  w[i] += sum[j] t[j]\n");
}

TEST(FuseRefuses, ToTakeALoopOutOfAScatter) {
  expect_keeps(fuse,
               "  arg x : f32[4] in\n"
               "  arg o : i32[9] in\n"
               "  arg w : f32[9] inout\n"
               "  temp n : i32[4]\n"
               "  n[i] = o[3]\n"
               "  w[n[i]] += x[i]\n");
}

TEST(FuseRefuses, AnElseThatMeansSomethingElse) {
  // Outside of the slice is still inside of x.
  expect_keeps(fuse,
               "  arg x : f32[20] in\n"
               "  arg y : f32[9] out\n"
               "  temp t : f32[8]\n"
               "  t[i] = x[i + 5]\n"
               "  y[i] = (t[i - 1] else 2.0)\n");
  expect_keeps(fuse,
               "  arg x : f32[8] in\n"
               "  arg y : f32[9] out\n"
               "  temp t : f32[8]\n"
               "  t[i] = exp(x[i])\n"
               "  y[i] = (t[i - 1] else 2.0)\n");
  expect_keeps(fuse,
               "  arg y : f32[9] out\n"
               "  temp t : f32[8]\n"
               "  t[i] = 1.0\n"
               "  y[i] = (t[i - 1] else 2.0)\n");
  expect_keeps(fuse,
               "  arg b : f32[4] in\n"
               "  arg y : f32[9, 4] out\n"
               "  temp t : f32[8, 4]\n"
               "  t[i, j] = b[j]\n"
               "  y[i, j] = (t[i - 1, j] else 2.0)\n");
  expect_keeps(fuse,
               "  arg x : f32[9] in\n"
               "  arg n : i32[8] in\n"
               "  arg y : f32[9] out\n"
               "  temp t : f32[8]\n"
               "  t[i] = (x[n[i]] else 0)\n"
               "  y[i] = (t[i - 1] else 0)\n");
  // Outside of t would be outside of x, but also of n.
  expect_keeps(fuse,
               "  arg x : f32[9, 8] in\n"
               "  arg n : i32[8] in\n"
               "  arg y : f32[9] out\n"
               "  temp t : f32[8]\n"
               "  t[i] = (x[n[i], i] else 0)\n"
               "  y[i] = (t[i - 1] else 0)\n");
  // x is longer: the element behind the last of t exists in it.
  expect_keeps(fuse,
               "  arg x : f32[20] in\n"
               "  arg y : f32[8] out\n"
               "  temp t : f32[8]\n"
               "  t[i] = x[i]\n"
               "  y[i] = (t[i + 1] else 2.0)\n");
}

TEST(FuseRefuses, WhatIsNoWholeElementwiseTemporary) {
  expect_keeps(fuse,  // partly written
               "  arg x : f32[4] in\n"
               "  arg y : f32[8] out\n"
               "  temp t : f32[8]\n"
               "  t[i] for[i:4] = exp(x[i])\n"
               "  t[i + 4] for[i:4] = sin(x[i])\n"
               "  y[i] = t[i] + 1.0\n");
  expect_keeps(fuse,  // an argument
               "  arg x : f32[4] in\n"
               "  arg t : f32[4] out\n"
               "  arg y : f32[4] out\n"
               "  t[i] = exp(x[i])\n"
               "  y[i] = t[i] + 1.0\n");
  expect_keeps(fuse,  // a reduction
               "  arg x : f32[4, 8] in\n"
               "  arg y : f32[4] out\n"
               "  temp t : f32[4]\n"
               "  t[i] = sum[j] x[i, j]\n"
               "  y[i] = t[i] + 1.0\n");
}

TEST(FuseRefuses, ToTakeAHintApart) {
  expect_keeps(fuse,
               "  arg x : f32[4, 8] in\n"
               "  arg y : f32[4, 8] out\n"
               "  temp e : f32[4, 8]\n"
               "  temp s : f32[4]\n"
               "  temp t : f32[4, 8]\n"
               "  t[i, j] = x[i, j] * 2.0\n"
               "  @softmax {\n"
               "    e[i, j] = exp(t[i, j])\n"
               "    s[i] = sum[j] e[i, j]\n"
               "  }\n"
               "  y[i, j] = e[i, j] / s[i]\n");
}

TEST(FuseRefuses, ToGrowBeyondSixtyFourNodes) {
  std::string terms = "x[i]";
  for (int i = 0; i < 20; ++i) {
    terms += " * x[i]";
  }
  expect_keeps(fuse, "  arg x : f32[4] in\n  arg y : f32[4] out\n  temp t : f32[4]\n  t[i] = " + terms +
                         "\n  y[i] = t[i] + (" + terms + ")\n");
}

TEST(FuseRefuses, ToLetATemporaryBeAnArgumentThatIsStillRead) {
  expect_keeps(fuse,
               "  arg x : f32[4, 8] in\n"
               "  arg w : f32[4] inout\n"
               "  arg y : f32[4] out\n"
               "  temp t : f32[4]\n"
               "  t[i] = sum[j] x[i, j]\n"
               "  y[i] = w[i] - t[i]\n"
               "  w[i] = t[i]\n");
  expect_keeps(fuse,  // t goes on to another value
               "  arg x : f32[4, 8] in\n"
               "  arg y : f32[4] out\n"
               "  arg z : f32[4] out\n"
               "  temp t : f32[4]\n"
               "  t[i] = sum[j] x[i, j]\n"
               "  y[i] = t[i]\n"
               "  t[i] = t[i] + y[i]\n"
               "  z[i] = exp(t[i])\n");
  expect_keeps(fuse,  // y does
               "  arg x : f32[4, 8] in\n"
               "  arg y : f32[4] out\n"
               "  arg z : f32[4] out\n"
               "  temp t : f32[4]\n"
               "  t[i] = sum[j] x[i, j]\n"
               "  y[i] = t[i]\n"
               "  y[i] = y[i] * 2.0\n"
               "  z[i] = exp(t[i])\n");
}

}  // namespace
}  // namespace yoke::passes
