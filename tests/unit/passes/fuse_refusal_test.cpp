// SPDX-License-Identifier: Apache-2.0
// tests/unit/passes/fuse_refusal_test.cpp: elementwise temporaries that
// must not be substituted, one test per reason.
#include "pass_text.h"

namespace yoke::passes {
namespace {

TEST(FuseRefuses, ComputedOperandsOfContractions) {
  expect_keeps(fuse, "arg x : f32[4, 8] in; arg w : f32[5, 8] in; arg y : f32[4, 5] out",
               "temp t : f32[4, 8]; t[n, i] = max(x[n, i], 0.0); y[n, o] = sum[i] t[n, i] * w[o, i]");
  expect_keeps(fuse, "arg x : u8[4, 8] in; arg w : f32[5, 8] in; arg y : f32[4, 5] out",
               "temp t : f32[4, 8]; t[n, i] = f32(x[n, i]); y[n, o] = sum[i] t[n, i] * w[o, i]");
  expect_keeps(fuse, "arg x : f16[4, 8] in; arg w : f16[5, 8] in; arg y : f32[4, 5] out",
               "temp t : f16[4, 8]; t[n, i] = -x[n, i]; y[n, o] = sum[i] f32(t[n, i]) * f32(w[o, i])");
}

TEST(FuseRefuses, CopiesThatWouldBreakAContraction) {
  // A padded operand, and an overlapping one.
  expect_keeps(fuse, "arg x : f32[4, 6] in; arg w : f32[5, 8] in; arg y : f32[4, 5] out",
               "temp t : f32[4, 8]; t[n, i] = (x[n, i - 1] else 0); "
               "y[n, o] = sum[i] t[n, i] * w[o, i]");
  expect_keeps(fuse, "arg x : f32[4, 12] in; arg w : f32[5, 3] in; arg y : f32[10, 5] out",
               "temp t : f32[10, 3]; t[n, i] = x[0, n + i]; y[n, o] = sum[i] t[n, i] * w[o, i]");
  // Transposes in a sum that no library computes, because some reads are out of range.
  const std::string transposed = "temp t : f32[4, 8]; t[n, i] = x[i, n]; ";
  const std::string arguments =
      "arg x : f32[8, 4] in; arg w : f32[5, 8] in; arg m : i32[4] in; arg y : f32[4, 5] out";
  expect_keeps(fuse, arguments, transposed + "y[n, o] = sum[i] (t[n, i - 1] else 0) * w[o, i]");
  expect_keeps(fuse, arguments, transposed + "y[n, o] = sum[i] (t[m[n], i] * w[o, i] else 0)");
  // One operand would not contain the summed loop, or the rows of the product.
  expect_keeps(fuse, "arg b : f32[8] in; arg w : f32[5, 8] in; arg y : f32[4, 5] out",
               "temp t : f32[4, 8]; t[n, i] = b[i]; y[n, o] = sum[i] t[n, i] * w[o, i]");
  expect_keeps(fuse, "arg b : f32[5] in; arg w : f32[4, 8] in; arg y : f32[4, 5] out",
               "temp t : f32[5, 8]; t[o, i] = b[o]; y[n, o] = sum[i] w[n, i] * t[o, i]");
}

TEST(FuseRefuses, ToComputeAnElementInEveryIterationOfAnotherLoop) {
  expect_keeps(fuse, "arg x : f32[4] in; arg y : f32[4, 5] out",
               "temp t : f32[4]; t[i] = x[i] * 2.0; y[i, j] = t[i]");
  expect_keeps(fuse, "arg x : f32[8] in; arg y : f32[6] out",
               "temp t : f32[8]; t[i] = x[i] * 2.0; y[i] = max[k:3] t[i + k]");
  // A symbol is not a loop.
  expect_keeps(fuse, "arg x : f32[4, 8] in; arg y : f32[4, 8] out",
               "temp t : f32[4, 8]; t[i, j] = exp(x[i, j]); y[i, j] = t[row, j]", "symbol row in 0..4");
}

TEST(FuseRefuses, ToComputeAnElementInOverlappingWindows) {
  expect_keeps(fuse, "arg x : f32[8] in; arg y : f32[7] out",
               "temp t : f32[8]; t[i] = exp(x[i]); y[i] = max[k:2] t[i + k]");
  expect_keeps(fuse, "arg x : f32[8] in; arg n : i32[8] in; arg y : f32[8] out",
               "temp t : f32[8]; t[i] = exp(x[i]); y[i] = (t[n[i]] else 0)");
}

TEST(FuseRefuses, StridedCopiesAndCastsWithSeveralReaders) {
  // Neighbors in t are 16 elements apart in x.
  expect_keeps(fuse, "arg x : f32[4, 8, 16] in; arg y : f32[4, 8] out; arg z : f32[4, 8] out",
               "temp t : f32[4, 8]; t[i, j] = x[i, j, 3]; y[i, j] = t[i, j] + 1.0; z[i, j] = exp(t[i, j])");
  expect_turns(fuse, "arg x : f32[16, 4, 8] in; arg y : f32[4, 8] out; arg z : f32[4, 8] out",
               "temp t : f32[4, 8]; t[i, j] = x[3, i, j]; y[i, j] = t[i, j] + 1.0; z[i, j] = exp(t[i, j])",
               "y[i, j] = x[3, i, j] + 1.0; z[i, j] = exp(x[3, i, j])");
  // t has fewer bytes than x, or as many.
  expect_keeps(
      fuse, "arg x : f32[4, 8] in; arg y : f32[4, 8] out; arg z : bf16[4, 8] out",
      "temp t : bf16[4, 8]; t[i, j] = bf16(x[i, j]); y[i, j] = f32(t[i, j]) + 1.0; z[i, j] = exp(t[i, j])");
  expect_keeps(fuse, "arg x : i32[4, 8] in; arg y : f32[4, 8] out; arg z : f32[4, 8] out",
               "temp t : f32[4, 8]; t[i, j] = f32(x[i, j]); y[i, j] = t[i, j] + 1.0; z[i, j] = exp(t[i, j])");
  expect_turns(fuse, "arg x : u8[4, 8] in; arg y : f32[4, 8] out; arg z : f32[4, 8] out",
               "temp t : f32[4, 8]; t[i, j] = f32(x[i, j]); y[i, j] = t[i, j] + 1.0; z[i, j] = exp(t[i, j])",
               "y[i, j] = f32(x[i, j]) + 1.0; z[i, j] = exp(f32(x[i, j]))");
  // x is larger than t, and not needed anymore.
  expect_keeps(fuse, "arg a : bf16[64, 8] in; arg y : f32[8] out; arg z : f32[8] out; arg u : f32[8] out",
               "temp x : bf16[64, 8]; temp t : f32[8]; x[i, j] = exp(a[i, j]); t[j] = f32(x[0, j]); "
               "u[j] = sum[i] f32(x[i, j]); y[j] = t[j] + 1.0; z[j] = exp(t[j])");
  // The product would have factors of another type.
  expect_keeps(fuse,
               "arg x : bf16[4, 8] in; arg w : f32[8, 4] in; arg y : f32[4, 8] out; arg z : f32[4, 4] out",
               "temp t : f32[4, 8]; t[i, j] = f32(x[i, j]); y[i, j] = t[i, j] + 1.0; "
               "z[i, j] = sum[k] t[i, k] * w[k, j]");
}

// Backends recognize a convolution by the two loops in an index of the image.
TEST(FuseRefuses, ReshapeOfAnImageInAConvolution) {
  expect_keeps(fuse, "arg x : f32[2, 96] in; arg f : f32[5, 3, 3, 4] in; arg y : f32[2, 4, 2, 5] out",
               "temp t : f32[2, 6, 4, 4]; t[n, h, w, c] = x[n, 16*h + 4*w + c]; "
               "y[n, h, w, o] = sum[i, j, c] t[n, h + i, w + j, c] * f[o, i, j, c]");
}

TEST(FuseRefuses, ToComputeAnElementForEachReader) {
  expect_keeps(fuse, "arg x : f32[4] in; arg y : f32[4] out; arg z : f32[4] out",
               "temp t : f32[4]; t[i] = exp(x[i]); y[i] = t[i] + 1.0; z[i] = t[i] - 1.0");
  expect_keeps(fuse, "arg x : f32[4] in; arg y : f32[4] out",
               "temp t : f32[4]; t[i] = exp(x[i]); y[i] = t[i] * tanh(t[i])");
  // Cheap to compute, but one of the reads needs an element in every iteration of i.
  expect_keeps(fuse, "arg x : f32[4, 8] in; arg y : f32[4, 8] out",
               "temp t : f32[4, 8]; t[i, j] = x[i, j] + 1.0; y[i, j] = t[0, j] * t[i, j]");
  // Two large operands, and one that is not needed afterwards.
  expect_keeps(fuse, "arg x : f32[4] in; arg w : f32[4] in; arg y : f32[4] out; arg z : f32[4] out",
               "temp t : f32[4]; t[i] = x[i] * w[i]; y[i] = t[i] + 1.0; z[i] = t[i] - 1.0");
  expect_keeps(fuse, "arg x : f32[4, 8] in; arg y : f32[4] out; arg z : f32[4] out",
               "temp s : f32[4]; temp t : f32[4]; s[i] = sum[j] x[i, j]; t[i] = max(s[i], 0); "
               "y[i] = t[i] + 1.0; z[i] = t[i] - 1.0");
}

TEST(FuseRefuses, TransposeWithSeveralReaders) {
  expect_keeps(fuse, "arg x : f32[8, 4] in; arg y : f32[4, 8] out; arg z : f32[4, 8] out",
               "temp t : f32[4, 8]; t[i, j] = x[j, i]; y[i, j] = t[i, j] + 1.0; "
               "z[i, j] = t[i, j] - 1.0");
}

TEST(FuseRefuses, ProducersWithAnOverwrittenInput) {
  expect_keeps(fuse, "arg w : f32[4] inout; arg y : f32[4] out",
               "temp t : f32[4]; t[i] = w[i] * 2.0; w[i] = w[i] + 1.0; y[i] = t[i] - w[i]");
  // In a gather, the source or the index.
  for (const std::string statement : {"w[i] = x[i]", "n[i] = m[i]"}) {
    expect_keeps(fuse,
                 "arg w : f32[4] inout; arg n : i32[4] inout; arg x : f32[4] in; arg m : i32[4] in; "
                 "arg y : f32[4] out",
                 "temp t : f32[4]; t[i] = (w[n[i]] else 0); " + statement + "; y[i] = t[i] - x[i]");
  }
}

TEST(FuseRefuses, ConsumersThatWouldReadOtherElementsOfTheirTarget) {
  expect_keeps(fuse, "arg w : f32[4] inout", "temp t : f32[4]; t[i] = w[i] * 2.0; w[i] = t[-i + 3]");
  expect_keeps(fuse, "arg w : f32[4] inout", "temp t : f32[4]; t[i] = w[i] * 2.0; w[i] += sum[j] t[j]");
  expect_keeps(fuse, "arg x : i32[9] in; arg w : i32[4] inout",
               "temp t : i32[4]; t[i] = (x[w[-i + 3]] else 0); w[i] = t[i] + 1");
}

TEST(FuseRefuses, ReductionsThatWouldReadTheirTarget) {
  expect_keeps(fuse, "arg w : f32[4] inout", "temp t : f32[4]; t[i] = sum[k:8] w[i]; w[i] = t[i]");
  expect_keeps(fuse, "arg x : f32[4, 8] in; arg w : f32[4] inout",
               "temp t : f32[4]; t[i] = w[i]; w[i] = sum[j] max(t[i], x[i, j])");
}

TEST(FuseRefuses, ComputedIndices) {
  expect_keeps(fuse, "arg table : f32[9] in; arg words : i32[4] in; arg y : f32[4] out",
               "temp n : i32[4]; n[b] = words[b] + 1; y[b] = (table[n[b]] else 0)");
  // An index out of range in words would be 0 in n.
  expect_keeps(fuse, "arg table : f32[9] in; arg words : i32[4] in; arg y : f32[5] out",
               "temp n : i32[5]; n[b] = (words[b - 1] else 0); y[b] = (table[n[b]] else 0)");
}

TEST(FuseRefuses, ToRemoveALoopFromAScatter) {
  expect_keeps(fuse, "arg x : f32[4] in; arg o : i32[9] in; arg w : f32[9] inout",
               "temp n : i32[4]; n[i] = o[3]; w[n[i]] += x[i]");
}

TEST(FuseRefuses, ElseWithADifferentMeaning) {
  // An index out of range in the slice can be in range in x.
  expect_keeps(fuse, "arg x : f32[20] in; arg y : f32[9] out",
               "temp t : f32[8]; t[i] = x[i + 5]; y[i] = (t[i - 1] else 2.0)");
  expect_keeps(fuse, "arg x : f32[20] in; arg y : f32[9] out",
               "temp t : f32[8]; t[i] = exp(x[i]); y[i] = (t[i - 1] else 2.0)");
  expect_keeps(fuse, "arg x : f32[20] in; arg z : f32[9] in; arg y : f32[9] out",
               "temp t : f32[8]; t[i] = x[i + 5]; y[i] = (t[i - 1] * z[i] else 2.0)");
  expect_keeps(fuse, "arg z : f32[9] in; arg y : f32[9] out",
               "temp t : f32[8]; t[i] = 1.0; y[i] = (t[i - 1] * z[i] else 2.0)");
  expect_keeps(fuse, "arg x : f32[8] in; arg y : f32[9] out",
               "temp t : f32[8]; t[i] = (x[i] else 3.0); y[i] = (t[i - 1] else 2.0)");
  expect_keeps(fuse, "arg y : f32[9] out", "temp t : f32[8]; t[i] = 1.0; y[i] = (t[i - 1] else 2.0)");
  expect_keeps(fuse, "arg b : f32[4] in; arg y : f32[9, 4] out",
               "temp t : f32[8, 4]; t[i, j] = b[j]; y[i, j] = (t[i - 1, j] else 2.0)");
  expect_keeps(fuse, "arg b : f32[8] in; arg y : f32[9, 8] out",
               "temp t : f32[8, 8]; t[i, j] = b[j]; y[i, j] = (t[i - 1, j] else 2.0)");
  // Half an index that is out of range in t can be in range in x.
  expect_keeps(fuse, "arg x : f32[8] in; arg y : f32[8] out",
               "temp t : f32[8]; t[i] = (x[(i) / 2] else 2.0); y[i] = (t[i + 1] else 2.0)");
  expect_keeps(fuse, "arg x : f32[9] in; arg n : i32[8] in; arg y : f32[9] out",
               "temp t : f32[8]; t[i] = (x[n[i]] else 0); y[i] = (t[i - 1] else 0)");
  // The copy's own `else` also applies to elements that t has.
  expect_keeps(fuse, "arg x : f32[8, 8] in; arg z : f32[9, 8] in; arg y : f32[9, 8] out",
               "temp t : f32[8, 8]; t[i, j] = (x[i, j + 1] else 0); "
               "y[i, j] = (t[i - 1, j] * z[i, j] else 2.0)");
  // An index out of range in t would also be out of range in n.
  expect_keeps(fuse, "arg x : f32[9, 8] in; arg n : i32[8] in; arg y : f32[9] out",
               "temp t : f32[8]; t[i] = (x[n[i], i] else 0); y[i] = (t[i - 1] else 0)");
  expect_keeps(fuse, "arg x : f32[9] in; arg z : f32[8] in; arg n : i32[8] in; arg y : f32[9] out",
               "temp t : f32[8]; t[i] = (x[n[i]] else 0) * z[i]; y[i] = (t[i - 1] else 0)");
  // x is longer than t, so the element after the last one of t exists in x.
  expect_keeps(fuse, "arg x : f32[20] in; arg y : f32[8] out",
               "temp t : f32[8]; t[i] = x[i]; y[i] = (t[i + 1] else 2.0)");
}

TEST(FuseRefuses, DividedIndicesThatOneIndexCannotExpress) {
  const std::string arguments = "arg x : f32[9] in; arg y : f32[8] out";
  expect_keeps(fuse, arguments, "temp t : f32[4]; t[i] = x[2*i]; y[i] = (t[(i) / 2] else 0)");
  expect_keeps(fuse, arguments, "temp t : f32[4]; t[i] = x[i + 1]; y[i] = (t[(i) / 2] else 0)");
  expect_keeps(fuse, arguments, "temp t : f32[4]; t[i] = f32(i); y[i] = (t[(i) / 2] else 0)");
  expect_keeps(fuse, arguments, "temp t : f32[4]; t[i] = (x[(i) / 2] else 0); y[i] = (t[(i) / 2] else 0)");
  // The first factor is out of range together with t, but the second one has no such index.
  const std::string factors = "arg x : f32[4] in; arg z : f32[5] in; arg y : f32[8] out";
  expect_keeps(fuse, factors, "temp t : f32[4]; t[i] = x[i] * z[i + 1]; y[i] = (t[(i) / 2] else 0)");
  expect_keeps(fuse, factors, "temp t : f32[4]; t[i] = x[i] * f32(i); y[i] = (t[(i) / 2] else 0)");
}

TEST(FuseRefuses, IndicesWhoseCoefficientsWouldOverflow) {
  const std::string arguments = "arg x : f32[9] in; arg n : i32[1] in; arg y : f32[1] out";
  const std::string far = "1099511627776*";  // 2^40
  expect_keeps(fuse, arguments,
               "temp t : f32[1]; t[i] = (x[n[" + far + "i]] else 0); y[i] = t[" + far + "i]");
  expect_keeps(fuse, arguments,
               "temp t : i32[1]; t[i] = n[" + far + "i]; y[i] = (x[t[" + far + "i]] else 0)");
}

TEST(FuseRefuses, TensorsThatAreNotWholeElementwiseTemporaries) {
  // Written in parts.
  expect_keeps(fuse, "arg x : f32[4] in; arg y : f32[8] out",
               "temp t : f32[8]; t[i] for[i:4] = exp(x[i]); t[i + 4] for[i:4] = sin(x[i]); "
               "y[i] = t[i] + 1.0");
  // An argument.
  expect_keeps(fuse, "arg x : f32[4] in; arg t : f32[4] out; arg y : f32[4] out",
               "t[i] = exp(x[i]); y[i] = t[i] + 1.0");
  // A reduction.
  expect_keeps(fuse, "arg x : f32[4, 8] in; arg y : f32[4] out",
               "temp t : f32[4]; t[i] = sum[j] x[i, j]; y[i] = t[i] + 1.0");
}

TEST(FuseRefuses, ToSplitAHint) {
  expect_keeps(fuse, "arg x : f32[4, 8] in; arg y : f32[4, 8] out",
               "temp e : f32[4, 8]; temp s : f32[4]; temp t : f32[4, 8]; t[i, j] = x[i, j] * 2.0; "
               "@softmax { e[i, j] = exp(t[i, j]); s[i] = sum[j] e[i, j]; }; "
               "y[i, j] = e[i, j] / s[i]");
}

TEST(FuseRefuses, ToExceedSixtyFourNodes) {
  std::string terms = "x[i]";
  for (int i = 0; i < 20; ++i) {
    terms += " * x[i]";
  }
  expect_keeps(fuse, "arg x : f32[4] in; arg y : f32[4] out",
               "temp t : f32[4]; t[i] = " + terms + "; y[i] = t[i] + (" + terms + ")");
}

TEST(FuseRefuses, ToReplaceATemporaryByAnArgumentThatIsStillLive) {
  expect_keeps(fuse, "arg x : f32[4, 8] in; arg w : f32[4] inout; arg y : f32[4] out",
               "temp t : f32[4]; t[i] = sum[j] x[i, j]; y[i] = w[i] - t[i]; w[i] = t[i]");
  // w keeps its old value too, or other elements.
  expect_keeps(fuse, "arg x : f32[4, 8] in; arg w : f32[4] inout",
               "temp t : f32[4]; t[i] = sum[j] x[i, j]; w[i] += t[i]");
  expect_keeps(fuse, "arg x : f32[4, 8, 3] in; arg w : f32[4, 8] inout",
               "temp t : f32[4, 8]; t[i, j] = sum[k] x[i, j, k]; w[0, j] = t[0, j]");
  // t is written again.
  expect_keeps(fuse, "arg x : f32[4, 8] in; arg y : f32[4] out; arg z : f32[4] out",
               "temp t : f32[4]; t[i] = sum[j] x[i, j]; y[i] = t[i]; t[i] = t[i] + y[i]; "
               "z[i] = exp(t[i])");
  // y has another shape, or other elements of t.
  expect_keeps(fuse, "arg x : f32[8, 8] in; arg y : f32[4] out",
               "temp t : f32[8]; t[i] = sum[j] x[i, j]; y[i] = t[i]");
  expect_keeps(fuse, "arg x : f32[4, 8] in; arg y : f32[4] out",
               "temp t : f32[4]; t[i] = sum[j] x[i, j]; y[i] = t[-i + 3]");
  expect_keeps(fuse, "arg x : f32[4, 8] in; arg y : f32[4] out",
               "temp t : f32[4]; t[i] = sum[j] x[i, j]; @layer { y[i] = t[i]; y[i] = exp(y[i]); }");
  // y is written again.
  expect_keeps(fuse, "arg x : f32[4, 8] in; arg y : f32[4] out; arg z : f32[4] out",
               "temp t : f32[4]; t[i] = sum[j] x[i, j]; y[i] = t[i]; y[i] = y[i] * 2.0; "
               "z[i] = exp(t[i])");
  // t is copied to itself.
  expect_keeps(fuse, "arg x : f32[4, 8] in; arg y : f32[4] out",
               "temp t : f32[4]; t[i] = sum[j] x[i, j]; t[i] = t[i]; y[i] = exp(t[i])");
}

TEST(FuseRefuses, ToReplaceATemporaryByAnArgumentThatIsNotACopyOfAllOfIt) {
  const std::string arguments = "arg x : f32[4, 8] in; arg y : f32[4] inout; arg z : f32[4] out";
  const std::string sum = "temp t : f32[4]; t[i] = sum[j] x[i, j]; ";
  for (const std::string statement :
       {"y[i] for[i:2] = t[i]", "y[i] += t[i]", "y[i] = sum[k:3] t[i]", "y[i] = -t[i]"}) {
    expect_keeps(fuse, arguments, sum + statement + "; z[i] = exp(t[i])");
  }
  // A value that reads nothing, as the first tensor is a scalar.
  expect_keeps(fuse, "temp t : f32[]; arg x : f32[4] in; arg y : f32[] out; arg z : f32[4] out",
               "t[] = sum[i] x[i]; y[] = 2.0; z[i] = x[i] * exp(t[])");
}

TEST(FuseRefuses, SeveralReadsOfAnElementByReadersOfParts) {
  // Together, the readers have as many elements as t, but read two of them twice.
  expect_keeps(fuse, "arg x : f32[4] in; arg a : f32[2] out; arg b : f32[2] out",
               "temp t : f32[4]; t[i] = -x[i]; a[i] = t[i] * t[i + 2]; b[i] = t[i]");
}

TEST(FuseRefuses, ValuesThatNothingReads) {
  const std::string arguments = "arg x : f32[4] in; arg y : f32[4] out; temp unused : f32[4]";
  expect_turns(fuse, arguments, "temp t : f32[4]; unused[i] = sin(x[i]); t[i] = exp(x[i]); y[i] = -t[i]",
               "unused[i] = sin(x[i]); y[i] = -exp(x[i])");
}

}  // namespace
}  // namespace yoke::passes
