// SPDX-License-Identifier: Apache-2.0
// tests/unit/cc/region_test.cpp: regions that run tile by tile.
#include <gtest/gtest.h>
#include <yoke/program/text.h>

#include <algorithm>

#include "corpus.h"
#include "generator.h"
#include "harness.h"

namespace yoke::cc::test {
namespace {

constexpr std::int64_t kSmallTiles = 64;  // bytes: one iteration per tile, unless products need more rows

// Returns the number of launches compared: 0 if no region is cut, or if oneDNN computes a product, which may
// add terms in another order.
int compare_with_statements(const conformance::Case& one) {
  int count = 0;
  for (const std::int64_t tile_bytes : {kSmallTiles, std::int64_t{700}, std::int64_t{5000}}) {
    const auto tiles = compile(one.program, 1, nullptr, tile_bytes);
    if (!has_note(*tiles, "tile by tile") || has_note(*tiles, "oneDNN")) {
      continue;
    }
    for (const std::vector<std::int64_t>& symbols : one.launches) {
      expect_same_bits(one, symbols, tile_bytes);
      ++count;
    }
  }
  return count;
}

TEST(RegionTest, TilesWriteTheSameBitsAsSingleStatementsInRandomPrograms) {
  int compared = 0;
  for (std::uint64_t index = 0; index < 3000 && !HasFailure(); ++index) {
    SCOPED_TRACE("program " + std::to_string(index));
    const conformance::Case one = conformance::generate_case(11, index);
    const auto names_loops = [](const program::Hint& hint) { return !hint.loops.empty(); };
    if (std::any_of(one.program.hints.begin(), one.program.hints.end(), names_loops)) {
      compared += compare_with_statements(one);
    }
  }
  EXPECT_GT(compared, 300);
}

// The first t needs memory, because the sum over columns reads it; the second lives only in tiles.
TEST(RegionTest, TemporaryOfTilesKeepsTheMemoryThatEarlierStatementsNeed) {
  const conformance::Case one = case_of(text_of(R"(
  arg x : f32[40, 300] in
  arg c : f32[300] out
  arg r : f32[40] out
  arg y : f32[40, 300] out
  temp t : f32[40, 300]
  t[i, j] = exp(x[i, j])
  c[j] = sum[i] t[i, j]
  @fused[i] {
    t[i, j] = x[i, j] * c[j]
    r[i] = max[j] t[i, j]
    y[i, j] = t[i, j] - r[i]
  }
)"));
  expect_same_bits(one, {}, 8192);
}

const std::string kNorms = R"(
  arg x : f32[R, 300] in
  arg gamma : f32[300] in
  arg g : f32[R, 300] in
  arg y : f32[R, 300] out
  arg dx : f32[R, 300] out
  arg dgamma : f32[300] out
  arg dbeta : f32[300] out
  temp top : f32[R]
  temp e : f32[R, 300]
  temp s : f32[R]
  temp h : f32[R, 300]
  temp u : f32[R, 300]
  temp mu : f32[R]
  @fused[n] {
    top[n] = max[d] x[n, d]
    e[n, d] = exp(x[n, d] - top[n])
    s[n] = sum[d] e[n, d]
    h[n, d] = e[n, d] / s[n]
    y[n, d] = h[n, d] * gamma[d]
    u[n, d] = g[n, d] * gamma[d]
    mu[n] = sum[d] u[n, d] * h[n, d]
    dx[n, d] = h[n, d] * (u[n, d] - mu[n])
  }
  dgamma[d] = sum[n] g[n, d] * h[n, d]
  dbeta[d] = sum[n] g[n, d]
)";

std::string norms(int rows, int columns = 300) {
  std::string text = kNorms;
  const auto replace = [&](const std::string& what, int count) {
    const std::string number = std::to_string(count);
    for (std::size_t at = 0; (at = text.find(what, at)) != std::string::npos; at += number.size()) {
      text.replace(at, what.size(), number);
    }
  };
  replace("300", columns);
  replace("R", rows);
  return text_of(text);
}

TEST(RegionTest, LastTileMayBeShorterAndThreadsShareTiles) {
  const conformance::Case one = case_of(norms(1009));  // a prime: no tile divides the rows
  expect_like_reference(norms(1009), 3, {conformance::DataKind::kUniform, {}, 2});
  for (const int threads : {1, 2, 3, 4}) {
    expect_same_bits(one, {}, CompileOptions{}.tile_bytes, threads);
    expect_same_bits(one, {}, 20000, threads);
  }
}

TEST(RegionTest, SumsOfAMatrixTimesAVectorHaveTheSameBitsInTilesAndForAnyNumberOfThreads) {
  const conformance::Case one = case_of(text_of(R"(
  arg x : f32[1009, 300] in
  arg w : f32[300] in
  arg y : f32[1009, 300] out
  temp u : f32[1009, 300]
  temp s : f32[1009]
  @fused[n] {
    u[n, d] = exp(x[n, d])
    s[n] = sum[d] u[n, d] * w[d]
    y[n, d] = u[n, d] * s[n]
  }
)"));
  for (const int threads : {1, 2, 3}) {
    expect_same_bits(one, {}, CompileOptions{}.tile_bytes, threads);
  }
}

TEST(RegionTest, TemporariesNeedOnlyTheMemoryOfATile) {
  const program::Program program = read(norms(500, 1200));  // e, h and u take 2.4 MB each
  EXPECT_GT(compile(program, 1, nullptr, 0)->workspace_byte_count, 3 * 2400000U);
  EXPECT_LT(compile(program)->workspace_byte_count, 500000U);
}

TEST(RegionTest, SumsOfRowsAreCarriedFromTileToTile) {
  for (const int columns : {40, 300, 1100}) {  // several rows per kernel tile, one row, and part of a row
    const conformance::Case one = case_of(norms(960, columns));  // parts of 128 rows, the last one of 64
    const auto compiled = compile(one.program);
    for (const Note& note : compiled->notes) {
      EXPECT_NE(note.reason.find("tile by tile"), std::string::npos) << note.reason;
      EXPECT_EQ(note.reason.find("of 10 fused statements") != std::string::npos, columns < 1024)
          << note.reason;
    }
    for (const int threads : {1, 2, 3, 4}) {
      for (const std::int64_t tile_bytes : {5000, 30000, 100000, 262144}) {
        expect_same_bits(one, {}, tile_bytes, threads);
      }
    }
  }
}

// The sum reads values per row that stay in registers, also when it combines its parts.
TEST(RegionTest, SumsOfRowsMayReadRowValuesWithoutMemory) {
  const std::string text = text_of(R"(
  arg x : f32[257, 1024] in
  arg g : f32[257, 1024] in
  arg y : f32[257, 1024] out
  arg db : f32[1024] out
  temp r : f32[257]
  @fused[n] {
    r[n] = sum[d] x[n, d]
    y[n, d] = x[n, d] * r[n]
  }
  db[d] = sum[n] g[n, d] * exp(r[n] * 0.001)
)");
  for (const int threads : {1, 2}) {
    expect_same_bits(case_of(text), {}, 8000, threads);  // tiles of one row
  }
}

TEST(RegionTest, NeighborsShareAPassOnlyIfTilesAreIndependent) {
  const auto text = [](const std::string& statements) {
    return text_of(R"(
  arg x : f32[640, 40] in
  arg z : f32[640, 40] inout
  arg y : f32[640, 40] out
  arg m : f32[40] inout
  arg c : f32[40] inout
  arg r : f32[640] out
)" + statements);
  };
  const std::string first = "@fused[a] { z[a, d] = x[a, d] * 2\n r[a] = sum[d] z[a, d] }\n";
  const std::string second = "@fused[b] { y[b, d] = z[b, d] - r[b]\n z[b, d] = y[b, d] + x[b, d] * m[d] }\n";
  const std::string reversed = "@fused[b] { y[b, d] = z[639 - b, d] - r[b]\n y[b, d] = y[b, d] * r[b] }\n";
  const std::string sum = "c[d] += sum[n] abs(z[n, d]) * r[n]\n";
  const std::string used = "m[d] = max[n] z[n, d]\n";
  const std::string shifted = "c[d] = sum[n:640] (z[n + 1, d] else 0)\n";
  const std::string part = "c[d] = sum[n:640] z[n, 0] + x[n, d]\n";
  struct Expected {
    std::string statements;
    bool in_one_pass;
  };
  const Expected cases[] = {{first + sum + second, true},
                            {first + second, true},
                            {sum + first + second, true},
                            {first + used + second, false},
                            {first + reversed, false},
                            {first + shifted + second, false},
                            {first + part + second, true},
                            {sum + "c[d] = min[n] x[n, d]\n" + first, false},
                            {first + "r[a] = c[0]\n" + second, false}};
  for (const Expected& each : cases) {
    // r is written in full before it is read.
    const std::string statements = "y[n, d] = 0\n r[n] = f32(n)\n" + each.statements;
    SCOPED_TRACE(statements);
    const conformance::Case one = case_of(text(statements));
    const auto compiled = compile(one.program, 1, nullptr, 8000);
    const auto in_tiles = [](const Step& step) { return std::holds_alternative<RegionStep>(step.work); };
    const auto passes = std::count_if(compiled->steps.begin(), compiled->steps.end(), in_tiles);
    const std::size_t statements_in_tiles = static_cast<std::size_t>(std::count_if(
        compiled->notes.begin(), compiled->notes.end(),
        [](const Note& one_note) { return one_note.reason.find("tile by") != std::string::npos; }));
    EXPECT_EQ(passes == 1 && statements_in_tiles == compiled->notes.size() - 2, each.in_one_pass);
    for (const int threads : {1, 2}) {
      expect_same_bits(one, {}, 8000, threads);
      expect_same_bits(one, {}, 3000, threads);
    }
  }
}

TEST(RegionTest, ProductWithBiasAndReluRunsInTiles) {
  const std::string text = text_of(R"(
  arg x : f32[2000, 64] in
  arg w : f32[48, 64] in
  arg b : f32[48] in
  arg y : f32[2000, 48] out
  temp z : f32[2000, 48]
  @fused[n, o] {
    z[n, o] = sum[i] x[n, i] * w[o, i]
    z[n, o] = z[n, o] + b[o]
    y[n, o] = max(z[n, o], 0)
  }
)");
  expect_like_reference(text, 3);
  expect_like_reference(text, 4, {conformance::DataKind::kUniform, {}, 2});
  const auto compiled = compile(read(text));
  EXPECT_TRUE(has_note(*compiled, "tile by tile"));
  EXPECT_TRUE(has_note(*compiled, "bias of the preceding "));
  EXPECT_LT(compiled->workspace_byte_count, 2000U * 48 * 4);
}

std::string linear_layer(int rows) {
  const std::string n = std::to_string(rows);
  return text_of("\n  arg x : f32[" + n + ", 784] in\n  arg w : f32[500, 784] in\n  arg y : f32[" + n +
                 ", 500] out\n  temp z : f32[" + n + R"(, 500]
  @fused[n, o] {
    z[n, o] = sum[i] x[n, i] * w[o, i]
    y[n, o] = max(z[n, o], 0)
  }
)");
}

TEST(RegionTest, LargeWeightsArePackedOncePerThread) {
  EXPECT_FALSE(has_note(*compile(read(linear_layer(600)), 1), "tile by tile"));
  EXPECT_TRUE(has_note(*compile(read(linear_layer(600)), 3), "tile by tile in a region of 3 tiles"));
  if (!has_panels()) {
    return;  // oneDNN chooses the order of a sum by the shape of each piece
  }
  for (const int threads : {2, 3}) {
    expect_same_bits(case_of(linear_layer(500)), {}, CompileOptions{}.tile_bytes, threads);
  }
}

TEST(RegionTest, FewRowsAreNotDividedIfTheProductHasMoreColumns) {
  EXPECT_FALSE(has_note(*compile(read(linear_layer(200)), 2), "tile by tile"));
}

TEST(RegionTest, AttentionScoresRunHeadByHead) {
  const std::string text = text_of(R"(
  arg q : f32[4, 96, 32] in
  arg k : f32[4, 96, 32] in
  arg v : f32[4, 96, 32] in
  arg o : f32[4, 96, 32] out
  temp s : f32[4, 96, 96]
  temp top : f32[4, 96]
  temp total : f32[4, 96]
  @fused[h, i] {
    s[h, i, j] = sum[d] q[h, i, d] * k[h, j, d]
    s[h, i, j] = select(j <= i, s[h, i, j], -inf)
    top[h, i] = max[j] s[h, i, j]
    s[h, i, j] = exp(s[h, i, j] - top[h, i])
    total[h, i] = sum[j] s[h, i, j]
    s[h, i, j] = s[h, i, j] / total[h, i]
    o[h, i, d] = sum[j] s[h, i, j] * v[h, j, d]
  }
)");
  expect_like_reference(text, 9);
  expect_like_reference(text, 9, {conformance::DataKind::kUniform, {}, 2});
  const auto compiled = compile(read(text));
  EXPECT_TRUE(has_note(*compiled, "tile by tile"));
  EXPECT_LT(compiled->workspace_byte_count, 4U * 96 * 96 * 4);
}

TEST(RegionTest, RegionInARepeatBlockUsesItsVariable) {
  const std::string text = text_of(R"(
  arg x : f32[6, 40, 30] in
  arg h : f32[7, 40, 30] out
  temp a : f32[40, 30]
  temp s : f32[40]
  h[0, n, d] = 0
  repeat t in 0..6 {
    @fused[n] {
      a[n, d] = tanh(x[t, n, d] + h[t, n, d])
      s[n] = sum[d] a[n, d]
      h[t + 1, n, d] = a[n, d] * f32(t) - s[n]
    }
  }
)");
  const conformance::Case one = case_of(text);
  expect_same_bits(one, {}, kSmallTiles);
  expect_same_bits(one, {}, 3000);
}

TEST(RegionTest, TemporaryThatCarriesValuesBetweenRoundsKeepsItsSize) {
  expect_same_bits(case_of(text_of(R"(
  arg x : f32[5, 20] in
  arg y : f32[20] out
  temp c : f32[20]
  temp m : f32[20]
  c[n] = 0
  repeat t in 0..5 {
    @fused[n] {
      m[n] = max[k:5] x[k, n]
      c[n] = c[n] * 0.5 + x[t, n] * m[n]
    }
  }
  y[n] = c[n]
)")),
                   {}, kSmallTiles);
}

TEST(RegionTest, TemporaryThatALaterRoundReadsKeepsItsSize) {
  for (const int threads : {1, 2}) {
    expect_same_bits(case_of(text_of(R"(
  arg x : f32[6, 512, 16] in
  arg y : f32[6, 512] out
  temp h : f32[6, 512, 16]
  repeat t in 0..6 {
    @fused[n] {
      h[t, n, c] = (h[t - 1, n, c] else 0) + x[t, n, c]
      y[t, n] = sum[c] h[t, n, c]
    }
  }
)")),
                     {}, 5000, threads);
  }
}

TEST(RegionTest, CarriedSumsDoNotBecomeProducts) {
  const std::string text = text_of(R"(
  arg x : f32[40, 40] in
  arg w : f32[50] in
  arg y : f32[40, 40] out
  arg dw : f32[40, 50] out
  temp m : f32[40]
  @fused[n] {
    m[n] = max[c] x[n, c]
    y[n, c] = x[n, c] - m[n]
  }
  dw[k, c] = sum[n:40] (x[n, k - 1] * w[c] else 0)
)");
  expect_same_bits(case_of(text), {}, kSmallTiles);
  expect_same_bits(case_of(text), {}, kSmallTiles, 2);
}

TEST(RegionTest, LongGroupsAreCutIntoKernels) {
  std::string body = "  arg x : f32[64] in\n  arg y : f32[64] inout\n  @long {\n";
  for (int i = 0; i < 300; ++i) {
    body += "    y[i] = y[i] * 0.5 + sin(x[i] + " + std::to_string(i) + ")\n";
  }
  const auto compiled = compile(read(text_of(body + "  }\n")), 1);
  EXPECT_GE(compiled->steps.size(), 300U / 64);
  EXPECT_LT(compiled->steps.size(), 300U / 16);
}

TEST(RegionTest, ValuesOfCutLoopsAreThoseOfTheWholeRegion) {
  expect_same_bits(case_of(text_of(R"(
  arg x : f32[9, 11, 6] in
  arg y : i64[9, 11] out
  arg z : f32[9, 11, 6] out
  temp m : i64[9, 11]
  @fused[a, b] {
    m[a, b] = argmax[k] x[a, b, k]
    y[a, b] = m[a, b] + 100 * a + b
    z[a, b, k] = (x[a - 1, b, k] else 0) + (x[(a + b) / 2, b, k] else 7) + f32(a * k)
  }
)")),
                   {}, kSmallTiles);
}

}  // namespace
}  // namespace yoke::cc::test
