// SPDX-License-Identifier: Apache-2.0
// tests/unit/passes/fuse_test.cpp: elementwise temporaries move into what reads them; why some stay is in
// fuse_refusal_test.cpp.
#include "pass_text.h"

namespace yoke::passes {
namespace {

TEST(Fuse, AChainOfElementwiseStatementsBecomesOne) {
  expect_turns(fuse,
               "  arg x : f32[4, 8] in\n"
               "  arg b : f32[8] in\n"
               "  arg y : f32[4, 8] out\n"
               "  temp t : f32[4, 8]\n"
               "  temp u : f32[4, 8]\n"
               "  t[i, j] = x[i, j] + b[j]\n"
               "  u[i, j] = t[i, j] * 2.0\n"
               "  y[n, o] = max(u[n, o], 0.0)\n",
               "  arg x : f32[4, 8] in\n"
               "  arg b : f32[8] in\n"
               "  arg y : f32[4, 8] out\n"
               "  y[n, o] = max((x[n, o] + b[o]) * 2.0, 0.0)\n");
}

TEST(Fuse, AProducerMovesIntoAReductionThatReadsEachElementOnce) {
  expect_turns(fuse,
               "  arg x : f32[4, 8] in\n"
               "  arg y : f32[8] out\n"
               "  temp t : f32[4, 8]\n"
               "  t[i, j] = exp(x[i, j])\n"
               "  y[o] = sum[n] t[n, o]\n",
               "  arg x : f32[4, 8] in\n"
               "  arg y : f32[8] out\n"
               "  y[o] = sum[n] exp(x[n, o])\n");
}

TEST(Fuse, AProductMovesIntoItsSumAndBecomesAContraction) {
  expect_turns(fuse,
               "  arg x : f32[4, 8] in\n"
               "  arg w : f32[5, 8] in\n"
               "  arg y : f32[4, 5] out\n"
               "  temp t : f32[4, 5, 8]\n"
               "  t[n, o, i] = x[n, i] * w[o, i]\n"
               "  y[n, o] = sum[i] t[n, o, i]\n",
               "  arg x : f32[4, 8] in\n"
               "  arg w : f32[5, 8] in\n"
               "  arg y : f32[4, 5] out\n"
               "  y[n, o] = sum[i] x[n, i] * w[o, i]\n");
}

TEST(Fuse, CopiesMoveIntoContractionsAsOtherIndices) {
  expect_turns(fuse,
               "  arg x : f32[100, 8] in\n"
               "  arg w : f32[8, 5] in\n"
               "  arg y : f32[4, 5] out\n"
               "  temp s : f32[4, 8]\n"
               "  temp t : f32[5, 8]\n"
               "  s[n, i] = x[row + n, i]\n"
               "  t[o, i] = w[i, o]\n"
               "  y[n, o] = sum[i] s[n, i] * t[o, i]\n",
               "  arg x : f32[100, 8] in\n"
               "  arg w : f32[8, 5] in\n"
               "  arg y : f32[4, 5] out\n"
               "  y[n, o] = sum[i] x[row + n, i] * w[i, o]\n",
               "symbol row in 0..96 step 4");
}

TEST(Fuse, ACopyMovesIntoSeveralConsumers) {
  expect_turns(fuse,
               "  arg b : f32[8] in\n"
               "  arg x : f32[4, 8] in\n"
               "  arg y : f32[4, 8] out\n"
               "  arg z : f32[8] out\n"
               "  temp t : f32[4, 8]\n"
               "  t[i, j] = b[j]\n"
               "  y[i, j] = x[i, j] + t[i, j]\n"
               "  z[j] = sum[i] t[i, j] * x[i, j]\n",
               "  arg b : f32[8] in\n"
               "  arg x : f32[4, 8] in\n"
               "  arg y : f32[4, 8] out\n"
               "  arg z : f32[8] out\n"
               "  temp t : f32[4, 8]\n"
               "  t[i, j] = b[j]\n"
               "  y[i, j] = x[i, j] + t[i, j]\n"
               "  z[j] = sum[i] t[i, j] * x[i, j]\n");  // b alone would take the summed loop from the product
  expect_turns(fuse,
               "  arg x : f32[100, 8] in\n"
               "  arg y : f32[4, 8] out\n"
               "  arg z : f32[8] out\n"
               "  temp t : f32[4, 8]\n"
               "  t[i, j] = x[row + i, j]\n"
               "  y[i, j] = t[i, j] * t[i, j]\n"
               "  z[j] = max[i] t[i, j]\n",
               "  arg x : f32[100, 8] in\n"
               "  arg y : f32[4, 8] out\n"
               "  arg z : f32[8] out\n"
               "  y[i, j] = x[row + i, j] * x[row + i, j]\n"
               "  z[j] = max[i:4] x[row + i, j]\n",
               "symbol row in 0..96 step 4");
}

TEST(Fuse, ConstantsAndScalarsMoveEverywhereButIntoContractions) {
  expect_turns(fuse,
               "  arg x : f32[4, 8] in\n"
               "  arg lr : f64[] in\n"
               "  arg y : f32[4, 8] out\n"
               "  arg z : f32[4] out\n"
               "  temp one : f32[8]\n"
               "  temp rate : f32[4]\n"
               "  one[j] = 1.0\n"
               "  rate[i] = -f32(lr[])\n"
               "  y[i, j] = x[i, j] * rate[i] + one[j]\n"
               "  z[i] = sum[j] x[i, j] * one[j]\n",
               "  arg x : f32[4, 8] in\n"
               "  arg lr : f64[] in\n"
               "  arg y : f32[4, 8] out\n"
               "  arg z : f32[4] out\n"
               "  temp one : f32[8]\n"
               "  one[j] = 1.0\n"
               "  y[i, j] = x[i, j] * -f32(lr[]) + 1.0\n"
               "  z[i] = sum[j] x[i, j] * one[j]\n");
}

TEST(Fuse, ACastMayBeRepeatedForItsOnlyConsumer) {
  expect_turns(fuse,
               "  arg x : u8[4, 8] in\n"
               "  arg w : f32[5, 8] in\n"
               "  arg y : f32[4, 5] out\n"
               "  temp t : f32[4, 8]\n"
               "  t[n, i] = f32(x[n, i])\n"
               "  y[n, o] = sum[i] abs(t[n, i] - w[o, i])\n",
               "  arg x : u8[4, 8] in\n"
               "  arg w : f32[5, 8] in\n"
               "  arg y : f32[4, 5] out\n"
               "  y[n, o] = sum[i] abs(f32(x[n, i]) - w[o, i])\n");
}

TEST(Fuse, LoopNumbersAsValuesFollowTheRead) {
  expect_turns(fuse,
               "  arg x : i64[4] in\n"
               "  arg y : i64[4] out\n"
               "  temp t : i64[9]\n"
               "  t[i] = i * 3 + s\n"
               "  y[j] = x[j] + t[2*j + 1]\n",
               "  arg x : i64[4] in\n"
               "  arg y : i64[4] out\n"
               "  y[j] = x[j] + ((j * 2 + 1) * 3 + s)\n",
               "symbol s in 0..5");
}

TEST(Fuse, AnUpdateBecomesInPlaceWhereItReadsOnlyItsOwnElement) {
  expect_turns(fuse,
               "  arg g : f32[4] in\n"
               "  arg w : f32[4] inout\n"
               "  temp t : f32[4]\n"
               "  t[i] = g[i] + 0.01 * w[i]\n"
               "  w[i] = w[i] - 0.1 * t[i]\n",
               "  arg g : f32[4] in\n"
               "  arg w : f32[4] inout\n"
               "  w[i] = w[i] - 0.1 * (g[i] + 0.01 * w[i])\n");
}

TEST(Fuse, AGatherFollowsItsIndices) {
  expect_turns(fuse,
               "  arg table : f32[9, 8] in\n"
               "  arg n : i32[4] in\n"
               "  arg y : f32[8, 4] out\n"
               "  temp t : f32[4, 8]\n"
               "  t[b, d] = (table[n[b], d] else 0) * 2.0\n"
               "  y[d, b] = t[b, d] + 1.0\n",
               "  arg table : f32[9, 8] in\n"
               "  arg n : i32[4] in\n"
               "  arg y : f32[8, 4] out\n"
               "  y[d, b] = (table[n[b], d] else 0) * 2.0 + 1.0\n");
  // The indices themselves are a slice of a longer list.
  expect_turns(fuse,
               "  arg table : f32[9, 8] in\n"
               "  arg words : i32[100] in\n"
               "  arg y : f32[4, 8] out\n"
               "  temp n : i32[4]\n"
               "  n[b] = words[row + b]\n"
               "  y[b, d] = (table[n[b], d] else 0)\n",
               "  arg table : f32[9, 8] in\n"
               "  arg words : i32[100] in\n"
               "  arg y : f32[4, 8] out\n"
               "  y[b, d] = (table[words[row + b], d] else 0)\n",
               "symbol row in 0..96 step 4");
  // What is gathered from is a copy of a whole tensor: outside of the one is outside of the other.
  expect_turns(
      fuse,
      "  arg table : f32[8, 9] in\n"
      "  arg n : i32[4] in\n"
      "  arg y : f32[4, 8] out\n"
      "  temp t : f32[9, 8]\n"
      "  t[b, d] = table[d, b]\n"
      "  y[b, d] = (t[n[b], d] else -1.0)\n",
      "  arg table : f32[8, 9] in\n"
      "  arg n : i32[4] in\n"
      "  arg y : f32[4, 8] out\n"
      "  temp t : f32[9, 8]\n"
      "  t[b, d] = table[d, b]\n"
      "  y[b, d] = (t[n[b], d] else -1.0)\n");  // read again and again, and against the order of memory
  expect_turns(fuse,
               "  arg table : f32[9, 20] in\n"
               "  arg n : i32[4] in\n"
               "  arg y : f32[4, 8] out\n"
               "  temp t : f32[9, 8]\n"
               "  t[b, d] = table[b, d + 5]\n"
               "  y[b, d] = (t[n[b], d] else -1.0)\n",
               "  arg table : f32[9, 20] in\n"
               "  arg n : i32[4] in\n"
               "  arg y : f32[4, 8] out\n"
               "  y[b, d] = (table[n[b], d + 5] else -1.0)\n");
}

TEST(Fuse, ElseSurvivesWhereOutsideOfOneIsOutsideOfTheOther) {
  expect_turns(fuse,
               "  arg x : f32[8] in\n"
               "  arg y : f32[9] out\n"
               "  temp t : f32[8]\n"
               "  t[i] = x[i]\n"
               "  y[i] = (t[i - 1] else 2.0)\n",
               "  arg x : f32[8] in\n"
               "  arg y : f32[9] out\n"
               "  y[i] = (x[i - 1] else 2.0)\n");
  // A padded copy read inside keeps its own `else`.
  expect_turns(fuse,
               "  arg x : f32[8] in\n"
               "  arg y : f32[8] out\n"
               "  temp t : f32[10]\n"
               "  t[i] = (x[i - 1] else 0)\n"
               "  y[i] = t[i + 2]\n",
               "  arg x : f32[8] in\n"
               "  arg y : f32[8] out\n"
               "  y[i] = (x[i + 1] else 0)\n");
  // An `else` that never applies is no obstacle.
  expect_turns(fuse,
               "  arg x : f32[8] in\n"
               "  arg y : f32[8] out\n"
               "  temp t : f32[10]\n"
               "  t[i] = (x[i - 1] else 0)\n"
               "  y[i] = (t[i + 2] else 3.0)\n",
               "  arg x : f32[8] in\n"
               "  arg y : f32[8] out\n"
               "  y[i] = (x[i + 1] else 0)\n");
}

TEST(Fuse, ATemporaryThatIsCopiedIntoAnArgumentIsTheArgument) {
  expect_turns(fuse,
               "  arg x : f32[4, 8] in\n"
               "  arg y : f32[4] out\n"
               "  arg z : f32[4] out\n"
               "  temp t : f32[4]\n"
               "  t[i] = sum[j] x[i, j]\n"
               "  y[i] = t[i]\n"
               "  z[i] = exp(t[i])\n",
               "  arg x : f32[4, 8] in\n"
               "  arg y : f32[4] out\n"
               "  arg z : f32[4] out\n"
               "  y[i] = sum[j] x[i, j]\n"
               "  z[i] = exp(y[i])\n");
}

TEST(Fuse, AnEpilogueMovesUpToItsContraction) {
  expect_turns(fuse,
               "  arg x : f32[4, 8] in\n"
               "  arg w : f32[5, 8] in\n"
               "  arg b : f32[5] in\n"
               "  arg m : f32[4] out\n"
               "  arg h : f32[4, 5] out\n"
               "  temp z : f32[4, 5]\n"
               "  z[n, o] = sum[i] x[n, i] * w[o, i]\n"
               "  m[n] = max[i] x[n, i]\n"
               "  h[n, o] = max(z[n, o] + b[o], 0.0)\n",
               "  arg x : f32[4, 8] in\n"
               "  arg w : f32[5, 8] in\n"
               "  arg b : f32[5] in\n"
               "  arg m : f32[4] out\n"
               "  arg h : f32[4, 5] out\n"
               "  temp z : f32[4, 5]\n"
               "  z[n, o] = sum[i] x[n, i] * w[o, i]\n"
               "  h[n, o] = max(z[n, o] + b[o], 0.0)\n"
               "  m[n] = max[i] x[n, i]\n");
}

TEST(Fuse, AContractionMovesDownToItsEpilogueWhereThatCannotMoveUp) {
  expect_turns(fuse,
               "  arg x : f32[4, 8] in\n"
               "  arg w : f32[5, 8] in\n"
               "  arg h : f32[4, 5] out\n"
               "  temp m : f32[4]\n"
               "  temp z : f32[4, 5]\n"
               "  z[n, o] = sum[i] x[n, i] * w[o, i]\n"
               "  m[n] = max[i] x[n, i]\n"
               "  h[n, o] = z[n, o] - m[n]\n",
               "  arg x : f32[4, 8] in\n"
               "  arg w : f32[5, 8] in\n"
               "  arg h : f32[4, 5] out\n"
               "  temp m : f32[4]\n"
               "  temp z : f32[4, 5]\n"
               "  m[n] = max[i] x[n, i]\n"
               "  z[n, o] = sum[i] x[n, i] * w[o, i]\n"
               "  h[n, o] = z[n, o] - m[n]\n");
}

TEST(Fuse, TwoContractionsWithOneEpilogueStayInTheirOrder) {
  expect_keeps(fuse,
               "  arg x : f32[4, 8] in\n"
               "  arg w : f32[5, 8] in\n"
               "  arg h : f32[4, 5] out\n"
               "  temp a : f32[4, 5]\n"
               "  temp b : f32[4, 5]\n"
               "  a[n, o] = sum[i] x[n, i] * w[o, i]\n"
               "  b[n, o] = sum[i] exp(x[n, i] * w[o, i])\n"
               "  h[n, o] = a[n, o] - b[n, o]\n");
}

TEST(Fuse, NothingMovesPastWhatItDependsOn) {
  expect_keeps(fuse,
               "  arg x : f32[4, 8] in\n"
               "  arg w : f32[5, 8] inout\n"
               "  arg h : f32[4, 5] out\n"
               "  temp m : f32[4]\n"
               "  temp z : f32[4, 5]\n"
               "  z[n, o] = sum[i] x[n, i] * w[o, i]\n"
               "  m[n] = max[i] x[n, i]\n"
               "  w[o, i] = w[o, i] * m[0]\n"
               "  h[n, o] = z[n, o] - m[n]\n");
}

TEST(Fuse, InPlaceEpiloguesStayAsTheyAre) {
  expect_keeps(fuse,
               "  arg x : f32[4, 8] in\n"
               "  arg w : f32[5, 8] in\n"
               "  arg b : f32[5] in\n"
               "  arg y : f32[4] out\n"
               "  temp z : f32[4, 5]\n"
               "  z[n, o] = sum[i] x[n, i] * w[o, i]\n"
               "  z[n, o] = max(z[n, o] + b[o], 0.0)\n"
               "  y[n] = max[o] z[n, o]\n");
}

// Refusals: one test for each reason.

// A long program with every epilogue far from its contraction: placing them is quadratic at most.
TEST(Fuse, EpiloguesOfALongProgramMoveUpToTheirContractions) {
  constexpr int kLayers = 700;
  std::string tensors = "  arg x : f32[2, 2] in\n";
  std::string products;
  std::string epilogues;
  for (int i = 0; i < kLayers; ++i) {
    const std::string n = std::to_string(i);
    tensors +=
        "  arg w" + n + " : f32[2, 2] in\n  arg h" + n + " : f32[2, 2] out\n  temp z" + n + " : f32[2, 2]\n";
    products += "  z" + n + "[i, j] = sum[k] x[i, k] * w" + n + "[k, j]\n";
    epilogues += "  h" + n + "[i, j] = max(z" + n + "[i, j], 0)\n";
  }
  const program::Program placed = fuse(program_of(program_text(tensors + products + epilogues)));
  ASSERT_EQ(placed.statements.size(), 2U * kLayers);
  for (std::size_t i = 0; i < placed.statements.size(); i += 2) {
    EXPECT_TRUE(placed.statements[i].reduce);
    EXPECT_EQ(placed.statements[i + 1].value.args[0].access.tensor, placed.statements[i].target.tensor);
  }
}

}  // namespace
}  // namespace yoke::passes
