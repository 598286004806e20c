// SPDX-License-Identifier: Apache-2.0
// tests/unit/cc/region_run_test.cpp: statements next to a region, and temporaries of a region, that must not become
// part of its tiles.
#include <gtest/gtest.h>

#include <string>

#include "evaluate.h"
#include "harness.h"

namespace yoke::cc::test {
namespace {

constexpr std::int64_t kSmallTiles = 64;  // bytes: one row per tile

TEST(RegionRunTest, OnlySumsAlongTheRowsOfTheRegionRunInItsTiles) {
  const std::string arguments = R"(
  arg x : f32[40, 300] in
  arg z : f32[35, 300] in
  arg e : i32[300] in
  arg y : f32[40, 300] out
  arg v : f32[35, 300] inout
  arg s : f32[300] inout
  arg i : i64[300] inout
  arg r : f32[35] inout
  temp a : f32[40, 300]
  temp m : f32[40]
  @fused[n] {
    a[n, d] = exp(x[n, d])
    m[n] = max[d] a[n, d]
    y[n, d] = a[n, d] - m[n]
  }
)";
  const char* const statements[] = {
      // Reductions that tiles do not carry.
      "i[d] = argmax[n] a[n, d]",
      "i[d] = argmin[n] a[n, d]",
      "s[e[d]] += sum[n] a[n, d]",
      "s[d] = sum[n, k:2] a[n, d] * f32(k)",
      "s[d] = sum[n] a[n, d] * s[d]",
      // Other rows.
      "s[d] = sum[n] z[n, d]",
      "@fused[n] {\n    r[n] = max[d] z[n, d]\n    v[n, d] = z[n, d] - r[n]\n  }",
      // Another number of rounds.
      "repeat t in 0..3 {\n    @fused[n] {\n      m[n] = max[d] x[n, d] * f32(t)\n      y[n, d] = y[n, d] - "
      "m[n]\n"
      "    }\n  }",
      "repeat t in 0..3 {\n    s[d] += sum[n] a[n, d]\n  }",
  };
  for (const std::string statement : statements) {
    conformance::Case one = case_of(text_of(arguments + "  " + statement + "\n"));
    one.data[2] = {conformance::DataKind::kIndex, 300, -1};
    for (const int threads : {1, 2}) {
      expect_same_bits(one, {}, kSmallTiles, threads);
    }
    ASSERT_FALSE(HasFailure()) << statement;
  }
}

// With as many columns as rows, a reduction along the columns has the extent of the rows too.
TEST(RegionRunTest, ReductionsAlongColumnsAndProductsDoNotRunInTilesOfRows) {
  for (const std::string statement :
       {"r[n] = sum[d] x[n, d]", "r[n] = max[d] x[n, d]", "r[d] = sum[n] x[n, d] * m[n]",
        "p[k, d] = sum[n] x[n, k] * y[n, d]", "@dense {\n    r[d] = sum[n] y[n, d]\n  }"}) {
    const std::string text = text_of(
        "  arg x : f32[40, 40] in\n  arg y : f32[40, 40] out\n  arg r : f32[40] inout\n  arg p : f32[40, 40] "
        "inout\n"
        "  temp m : f32[40]\n  @fused[n] {\n    m[n] = max[d] x[n, d]\n    y[n, d] = x[n, d] - m[n]\n  }\n "
        " " +
        statement + "\n");
    const conformance::Case one = case_of(text);
    const std::vector<Guarded> got =
        run_guarded(compile(one.program, 2, nullptr, kSmallTiles), start_of(one), {});
    EXPECT_EQ(conformance::AllowedResults(one, {}).compare(contents_of(got)), "") << statement;
  }
}

// Tiles of rows would add the terms in another order.
TEST(RegionRunTest, SumsAlongColumnsKeepTheirOrder) {
  const conformance::Case one = case_of(text_of(R"(
  arg x : f32[300, 300] in
  arg y : f32[300, 300] out
  arg r : f32[300] out
  temp m : f32[300]
  @fused[n] {
    m[n] = max[d] x[n, d]
    y[n, d] = x[n, d] - m[n]
  }
  r[n] = sum[d] x[n, d]
)"));
  for (const std::int64_t tile_bytes : {kSmallTiles, std::int64_t{20000}}) {
    expect_same_bits(one, {}, tile_bytes);
  }
}

// The first t needs memory, because a kernel reads its neighbors. The second t stays in registers, also for the sum.
TEST(RegionRunTest, TemporariesKeepTheirMemoryIfASumReadsALaterValueInRegisters) {
  const conformance::Case one = case_of(text_of(R"(
  arg x : f32[300, 40] in
  arg z : f32[300, 40] out
  arg s : f32[40] out
  temp t : f32[300, 40]
  temp u : f32[300, 40]
  temp m : f32[300]
  @fused[n] {
    t[n, d] = exp(x[n, d])
    u[n, d] = (t[n, d - 1] else 0) + t[n, d]
    z[n, d] = (u[n, d - 1] else 0)
    t[n, d] = u[n, d] * 2
    m[n] = max[d] t[n, d]
    z[n, d] = z[n, d] + m[n]
  }
  s[d] = sum[n] z[n, d] * t[n, d]
)"));
  for (const std::int64_t tile_bytes : {kSmallTiles, std::int64_t{5000}}) {
    expect_same_bits(one, {}, tile_bytes);
  }
}

// The part that another statement or another round uses needs memory for all rows.
TEST(RegionRunTest, ValuesThatOtherStatementsUseAreStoredForAllRows) {
  const char* const bodies[] = {// Written before the region, or read after it.
                                "  a[n, d] = exp(x[0, n, d])\n  @fused[n] {\n    m[n] = max[d] a[n, d]\n    "
                                "y[0, n] = m[n] * a[n, 0]\n  }\n",
                                "  @fused[n] {\n    m[n] = max[d] x[0, n, d]\n    a[n, d] = x[0, n, d] - "
                                "m[n]\n  }\n  y[0, n] = sum[d] a[n, d]\n",
                                // Written in parts by every round.
                                "  repeat t in 0..6 {\n    @fused[n] {\n      h[t, n, d] = x[t, n, d]\n"
                                "      y[t, n] = sum[d] h[t, n, d] * (h[t - 1, n, d] else 1)\n    }\n  }\n",
                                // Rows that are not the first dimension.
                                "  @fused[n] {\n    g[0, n, d] = exp(x[0, n, d])\n    m[n] = max[d] g[0, n, "
                                "d]\n    y[0, n] = m[n]\n  }\n"};
  for (const std::string body : bodies) {
    const conformance::Case one =
        case_of(text_of("  arg x : f32[6, 64, 16] in\n  arg y : f32[6, 64] inout\n  temp a : f32[64, 16]\n  "
                        "temp m : f32[64]\n"
                        "  temp h : f32[6, 64, 16]\n  temp g : f32[1, 64, 16]\n" +
                        body));
    for (const int threads : {1, 2}) {
      expect_same_bits(one, {}, kSmallTiles, threads);
    }
    ASSERT_FALSE(HasFailure()) << body;
  }
}

}  // namespace
}  // namespace yoke::cc::test
