// SPDX-License-Identifier: Apache-2.0
// tests/unit/cc/reduction_test.cpp: reductions that threads share, and the order of their terms.
#include <gtest/gtest.h>

#include "harness.h"

namespace yoke::cc::test {
namespace {

// Reductions of many terms to few targets, in each order of loops in memory.
const std::string kReductions = R"(
  arg x : f32[3000, 70] in
  arg w : f32[70, 3000] in
  arg d : f64[40000] in
  arg i : i32[50000] in
  arg whole : f32[] out
  arg columns : f32[70] out
  arg rows : f32[70] out
  arg both : f32[] inout
  arg product : f64[] out
  arg top : f32[70] out
  arg place : i64[] out
  arg places : i32[70] out
  arg found : bool[] out
  arg count : i32[] out
  whole[] = sum[n, k] x[n, k]
  columns[k] = sum[n] x[n, k]
  rows[k] = sum[n] w[k, n] * x[n, k]
  both[] += sum[k, n] x[n, k] * w[k, n]
  product[] = prod[n] d[n]
  top[k] = max[n] x[n, k]
  place[] = argmax[n] d[n]
  places[k] = argmin[n] x[n, k]
  found[] = any[n] i[n] == 77
  count[] = sum[n] i[n]
)";

TEST(ReductionTest, ResultsHaveTheSameBitsForAnyNumberOfThreads) {
  expect_like_reference(text_of(kReductions), 1, {conformance::DataKind::kUnit, {}, 3});
  const conformance::Case one = case_of(text_of(kReductions));
  const std::vector<Guarded> start = start_of(one);
  const auto serial = compile(one.program, 1);
  const std::vector<Guarded> expected = run_guarded(serial, start, {});
  for (const int threads : {2, 3, 4}) {
    const auto compiled = compile(one.program, threads);
    EXPECT_GE(compiled->workspace_byte_count, serial->workspace_byte_count + 10000)
        << "no reduction runs in parts";
    EXPECT_TRUE(same_bytes(expected, run_guarded(compiled, start, {}))) << threads << " threads";
  }
}

TEST(ReductionTest, OrderOfTermsDoesNotDependOnTheTile) {
  // The tiles hold one to 90 targets; the sums run along rows, along columns, and over two loops.
  const conformance::Case one = case_of(text_of(R"(
  arg x : f32[700, 90] in
  arg v : f32[90, 700] in
  arg u : f32[90, 30, 30] in
  arg a : f32[90] out
  arg b : f32[90] out
  arg c : f32[90] out
  arg d : f32[90] out
  temp t : f32[30, 90, 30]
  @fused[k] {
    a[k] = sum[n] x[n, k]
    b[k] = sum[n] v[k, n]
    t[i, k, j] = u[k, i, j] * v[k, i]
    c[k] = sum[i, j] t[i, k, j]
    d[k] = prod[j, i] (1 + 0.01 * u[k, i, j])
  }
)"));
  for (const std::int64_t tile_bytes : {64, 5000, 20000, 60000, 200000}) {
    expect_same_bits(one, {}, tile_bytes);
    expect_same_bits(one, {}, tile_bytes, 2);
  }
}

// Without argmax, no register holds places. The first register holds the result.
TEST(ReductionTest, PartsOfAMaximumWithoutPlacesAreCombined) {
  const std::string text = text_of(R"(
  arg x : f32[40000] in
  arg top : f32[] out
  arg product : f32[] out
  temp c : f32[40000]
  temp d : f32[40000]
  c[n] = 0 - exp(x[n])
  d[n] = max(x[n], 2) * 0.5
  top[] = max[n] c[n]
  product[] = prod[n] d[n]
)");
  for (const int threads : {1, 3}) {
    expect_like_reference(text, 1, {.threads = threads});
  }
}

// Most reads are contiguous over k and j, but a tile of k and j adds its terms in another order than a tile of i and j.
TEST(ReductionTest, TilesOfTwoReducedLoopsSpanBoth) {
  const conformance::Case one = case_of(text_of(R"(
  arg t : f64[30, 90, 30] in
  arg u : f64[30, 90, 30] in
  arg c : f64[90] out
  arg d : f64[90] out
  @fused[k] {
    c[k] = sum[i, j] t[i, k, j] * u[i, k, j]
    d[k] = prod[i, j] (1 + 0.001 * t[i, k, j] * u[i, k, j])
  }
)"));
  for (const std::int64_t tile_bytes : {64, 5000, 20000, 60000, 200000}) {
    expect_same_bits(one, {}, tile_bytes);
  }
}

}  // namespace
}  // namespace yoke::cc::test
