// SPDX-License-Identifier: Apache-2.0
// tests/unit/codegen/rows_test.cpp: computations over rows are one launch and match the reference.
#include <gtest/gtest.h>
#include <yoke/program/text.h>

#include <ostream>

#include "harness.h"

namespace yoke::codegen::test {
namespace {

// A program with dimensions N and E, which each test replaces.
struct Example {
  const char* name;
  std::size_t launches;
  const char* text;
};

std::string with_sizes(std::string text, std::uint64_t rows, std::uint64_t elements) {
  for (const auto& [mark, size] : {std::pair('N', rows), std::pair('E', elements)}) {
    for (std::size_t at = text.find(mark); at != std::string::npos; at = text.find(mark, at)) {
      text.replace(at, 1, std::to_string(size));
    }
  }
  return "yoke.program 1\nprogram p" + text;
}

constexpr const char* kLayerNormGradient = R"(() {
  arg x : f32[N, E] in
  arg gamma : f32[E] in
  arg dy : bf16[N, E] in
  arg mean : f32[N] in
  arg r : f32[N] in
  arg dx : bf16[N, E] out
  arg dgamma : f32[E] out
  arg dbeta : f32[E] out
  temp xhat : f32[N, E]
  temp mu : f32[N]
  temp muh : f32[N]
  xhat[n, d] = (x[n, d] - mean[n]) * r[n]
  dbeta[d] = sum[n] f32(dy[n, d])
  dgamma[d] = sum[n] f32(dy[n, d]) * xhat[n, d]
  mu[n] = sum[d] f32(dy[n, d]) * gamma[d]
  muh[n] = sum[d] f32(dy[n, d]) * gamma[d] * xhat[n, d]
  dx[n, d] = bf16(r[n] * (f32(dy[n, d]) * gamma[d] - 0.125 * (mu[n] + xhat[n, d] * muh[n])))
})";

constexpr Example kExamples[] = {
    {"Softmax", 1, R"(() {
  arg x : f32[N, E] in
  arg y : f32[N, E] out
  temp top : f32[N]
  temp e : f32[N, E]
  temp sum_ : f32[N]
  top[n] = max[i] x[n, i]
  e[n, i] = exp(x[n, i] - top[n])
  sum_[n] = sum[i] e[n, i]
  y[n, i] = e[n, i] / sum_[n]
})"},
    {"SoftmaxInPlaceOfHalves", 1, R"(() {
  arg x : bf16[N, E] inout
  temp top : f32[N]
  temp total : f32[N]
  top[n] = max:f32[i] x[n, i]
  total[n] = sum[i] exp(f32(x[n, i]) - top[n])
  x[n, i] = bf16(exp(f32(x[n, i]) - top[n]) / total[n])
})"},
    {"LayerNorm", 1, R"(() {
  arg x : f32[N, E] in
  arg gamma : f32[E] in
  arg beta : f32[E] in
  arg y : f32[N, E] out
  arg mean : f32[N] out
  arg r : f32[N] out
  mean[n] = sum[i] x[n, i]
  mean[n] = mean[n] * 0.125
  r[n] = sum[i] (x[n, i] - mean[n]) * (x[n, i] - mean[n])
  r[n] = rsqrt(r[n] * 0.125 + 1e-05)
  y[n, i] = (x[n, i] - mean[n]) * r[n] * gamma[i] + beta[i]
})"},
    {"CrossEntropyWithGradient", 1, R"((symbol row in 2..5) {
  arg x : f32[N, E] in
  arg labels : u8[20] in
  arg loss : f32[N] out
  arg dx : f32[N, E] out
  temp top : f32[N]
  temp total : f32[N]
  top[n] = max[i] x[n, i]
  total[n] = sum[i] exp(x[n, i] - top[n])
  loss[n] = log(total[n]) + top[n] - (x[n, labels[row + n]] else 0)
  dx[n, i] = exp(x[n, i] - top[n]) / total[n] - select(i == i64(labels[row + n]), f32(1.0), 0.0)
})"},
    {"LayerNormGradient", 3, kLayerNormGradient},
    {"NormWithKeptDims", 1, R"(() {
  arg x : f32[N, E] in
  arg gamma : f32[E] in
  arg y : f32[N, E] out
  temp total : f32[N]
  temp mean : f32[N, 1]
  temp centered : f32[N, E]
  temp squares : f32[N]
  temp r : f32[N, 1]
  total[n] = sum[i] x[n, i]
  mean[n, k] = total[n] * 0.125
  centered[n, i] = x[n, i] - mean[n, 0]
  squares[n] = sum[i] centered[n, i] * centered[n, i]
  r[n, k] = rsqrt(squares[n] * 0.125 + f32(k) + 1e-05)
  y[n, i] = centered[n, i] * r[n, 0] * gamma[i]
})"},
    {"AccumulatesAndCounts", 1, R"(() {
  arg x : f32[N, E] in
  arg w : f32[E] in
  arg s : f32[N] inout
  arg c : i64[N] out
  arg b : bool[N] out
  arg u : u8[N] out
  arg d : f64[N] out
  s[n] += sum[i] x[n, i] * w[i]
  c[n] = sum[i] select(x[n, i] > 0.5, i64(1), 0)
  b[n] = all[i] x[n, i] < 1.9
  u[n] = max[i:E] u8(i)
  d[n] = prod:f64[i] 1.0 + x[n, i] * 0.001
})"},
};

struct Size {
  std::uint64_t rows;
  std::uint64_t elements;
};

std::ostream& operator<<(std::ostream& out, const Size& size) {
  return out << size.rows << " x " << size.elements;
}

class RowsTest : public testing::TestWithParam<Size> {};

TEST_P(RowsTest, AreOneLaunchAndMatchTheReference) {
  SKIP_WITHOUT_COMPILER();
  std::vector<conformance::Case> cases;
  for (const Example& example : kExamples) {
    const std::string text = with_sizes(example.text, GetParam().rows, GetParam().elements);
    cases.push_back(case_of(text));
    EXPECT_EQ(generate(cases.back().program, Target{}).launches.size(), example.launches)
        << example.name << "\n"
        << launches_of(text);
  }
  check_cases(cases);
}

// Rows of a thread, of some lanes, of a warp, of blocks in registers, and of blocks that read them again.
INSTANTIATE_TEST_SUITE_P(Sizes, RowsTest,
                         testing::Values(Size{5, 2}, Size{7, 10}, Size{3, 16}, Size{6, 17}, Size{9, 100},
                                         Size{4, 1000}, Size{3, 1024}, Size{2, 1500}, Size{2, 8192},
                                         Size{1, 30001}));

// As above; with rows of threads that compute several, and threads without a row.
TEST(ColumnTest, SumsOfColumnsAreComputedWhereTheRowsAreRead) {
  SKIP_WITHOUT_COMPILER();
  std::vector<conformance::Case> cases;
  for (const Size& size :
       {Size{70000, 3}, Size{2100, 17}, Size{520, 1027}, Size{600, 1504}, Size{70, 8192}}) {
    const std::string text = with_sizes(kLayerNormGradient, size.rows, size.elements);
    cases.push_back(case_of(text));
    EXPECT_EQ(generate(cases.back().program, Target{}).launches.size(), 2) << launches_of(text);
  }
  check_cases(cases);
}

struct Single {
  const char* name;
  const char* text;
};

class ReductionTest : public testing::TestWithParam<Single> {};

TEST_P(ReductionTest, MatchesTheReference) {
  SKIP_WITHOUT_COMPILER();
  const conformance::Case one = case_of(std::string("yoke.program 1\nprogram p") + GetParam().text);
  check_cases({&one, 1});
}

constexpr Single kReductions[] = {
    {"BatchNorm", R"(() {
  arg x : f32[4, 3, 5, 6] in
  arg y : f32[4, 3, 5, 6] out
  temp mean : f32[3]
  temp var : f32[3]
  mean[c] = sum[n, i, j] x[n, c, i, j]
  mean[c] = mean[c] / 120.0
  var[c] = sum[n, i, j] (x[n, c, i, j] - mean[c]) * (x[n, c, i, j] - mean[c])
  y[n, c, i, j] = (x[n, c, i, j] - mean[c]) * rsqrt(var[c] / 120.0 + 1e-05)
})"},
    {"MaxPooling", R"(() {
  arg x : f32[2, 3, 8, 8] in
  arg y : f32[2, 3, 4, 4] out
  y[n, c, i, j] = max[k:3, l:3] (x[n, c, 2*i + k - 1, 2*j + l - 1] else -inf)
})"},
    {"MaskedAttention", R"(() {
  arg s : f32[2, 9, 40] in
  arg p : f32[2, 9, 40] out
  temp top : f32[2, 9]
  temp total : f32[2, 9]
  temp m : f32[2, 9, 40]
  m[h, t, u] = select(u <= t, s[h, t, u] * 0.5, -inf)
  @softmax {
    top[h, t] = max[u] m[h, t, u]
    m[h, t, u] = exp(m[h, t, u] - top[h, t])
    total[h, t] = sum[u] m[h, t, u]
    p[h, t, u] = m[h, t, u] / total[h, t]
  }
})"},
    {"ReadsOfOtherRowsEndTheGroup", R"(() {
  arg x : f32[8, 64] in
  arg y : f32[8, 64] out
  temp s : f32[8]
  s[n] = sum[i] x[n, i]
  y[n, i] = x[n, i] - s[7 - n]
})"},
    // Inner loops that are not one loop.
    {"NormOfChannelsWithKeptDims", R"(() {
  arg x : f32[12, 3, 40] in
  arg gamma : f32[3] in
  arg y : f32[12, 3, 40] out
  arg mean : f32[12, 1, 1] out
  temp total : f32[12]
  total[n] = sum[c, i] x[n, c, i]
  mean[n, c, i] = total[n] * 0.125
  y[n, c, i] = (x[n, c, i] - mean[n, 0, 0]) * gamma[c]
})"},
    {"OldValuesAreReadBeforeTheyAreStored", R"(() {
  arg x : f32[8, 300] in
  arg s : f32[8] inout
  arg y : f32[8, 300] out
  y[n, i] = x[n, i] * s[n]
  s[n] = sum[i] y[n, i]
})"},
    {"LeftOutStatementsRunLater", R"(() {
  arg x : f32[6, 48] in
  arg d : f32[48] out
  arg y : f32[6, 48] out
  temp s : f32[6]
  temp h : f32[6, 48]
  s[n] = sum[i] x[n, i]
  h[n, i] = x[n, i] * s[n]
  d[i] = sum[n] h[n, i]
  y[n, i] = h[n, i] + 1.0
})"},
    {"WholeTensor", R"(() {
  arg x : f32[100, 70] in
  arg s : f32[] out
  s[] = sum[i, j] x[i, j] * x[i, j]
  s[] = sqrt(s[])
})"},
    {"LargeWholeTensor", R"(() {
  arg x : f32[300, 700] in
  arg s : f32[] inout
  arg m : f32[2] out
  s[] += sum[i, j] x[i, j] * x[i, j]
  m[k] = max[i, j] x[i, j] * f32(k)
})"},
    {"Columns", R"(() {
  arg x : f32[130, 70] in
  arg b : f32[70] inout
  arg y : f16[70] out
  b[j] += sum[i] x[i, j]
  y[j] = f16(b[j])
})"},
    {"LongColumns", R"(() {
  arg x : bf16[5000, 33] in
  arg b : f32[33] out
  b[j] = sum:f32[i] x[i, j]
})"},
    {"WeightedColumns", R"(() {
  arg x : f32[3000, 33] in
  arg w : f32[3000] in
  arg b : f32[33] out
  b[j] = sum[i] x[i, j] * w[i]
})"},
    {"LongColumnsWithSymbolAndIndex", R"((symbol row in 5..9) {
  arg x : f32[4, 60, 37] in
  arg n : i32[1001] in
  arg b : f64[37] inout
  b[j] += sum:f64[k:3, i:47] f64(x[k, row + i, j]) * f64(i + 2 * k) + f64((n[i * 3 + row] else 1))
})"},
    {"FewLongRows", R"(() {
  arg x : f32[2, 40000] in
  arg lowest : f32[2] out
  lowest[n] = min[i] x[n, i]
  lowest[n] = lowest[n] * 2.0
})"},
    {"StatementsThatUseSumsOfColumnsRunLater", R"(() {
  arg x : f32[80, 48] in
  arg e : f32[48] in
  arg d : f32[48] inout
  arg best : i32[48] out
  arg z : f32[80, 48] out
  temp s : f32[80]
  s[n] = sum[i] x[n, i]
  d[i] += sum[n] x[n, i] * s[n]
  best[i] = max:i32[n] i32(x[n, i] * 100.0) + i32(i) - i32(n)
  z[n, i] = x[n, i] - s[n] * d[i] + e[i]
})"},
    {"TransposedSumsOfColumns", R"(() {
  arg x : f16[9, 80, 5, 7] in
  arg w : f32[80] in
  arg d : f32[7, 2, 5] inout
  arg a : bool[5, 7] out
  d[j, 1, i] max= sum[m, n] f32(x[m, n, i, j]) * w[n]
  a[i, j] = all[m, n] f32(x[m, n, i, j]) * w[n] < 0.99
})"},
    {"ScatterInLoopOrder", R"(() {
  arg words : i32[9, 70] in
  arg d : f32[9, 70, 20] in
  arg table : f32[50, 20] inout
  arg counts : u8[50] inout
  arg best : f16[50, 20] inout
  table[words[b, t], k] += d[b, t, k] * 0.1
  counts[words[b, 3]] += 1
  best[words[b, t], k] max= f16(d[b, t, k])
})"},
    {"ScatterWithAnIndexPerElement", R"(() {
  arg at : i64[24] in
  arg to : i32[7] in
  arg x : f32[7, 24] in
  arg y : f32[24, 40, 5] inout
  y[i, at[i], to[j]] += x[j, i]
})"},
    {"ScatterOfSums", R"(() {
  arg to : i64[300] in
  arg x : f32[300, 5, 8] in
  arg y : f32[3, 40, 5] inout
  y[2, to[b], i] *= sum[j] x[b, i, j]
})"},
    {"ArgMax", R"(() {
  arg x : f32[20, 100] in
  arg best : i32[20] out
  arg worst : i64[20] out
  best[n] = argmax[i] x[n, i]
  worst[n] = argmin[i] x[n, i]
})"},
    // Warps and blocks that share rows with equal elements and with NaN.
    {"ArgMaxOfRows", R"(() {
  arg x : f32[5, 3, 200] in
  arg z : f16[2, 5000] in
  arg b : u8[9, 64] in
  arg equal : i32[3, 5] out
  arg undefined : i64[5, 3] out
  arg long : i32[2] out
  arg first : i32[2] out
  arg bytes : i32[9] out
  equal[k, n] = argmax[i] floor(x[n, k, i] * 4.0)
  undefined[n, k] = argmin[i] sqrt(x[n, k, i] + 0.999)
  long[n] = argmin[i] z[n, i]
  first[n] = argmax[i] sqrt(z[n, i]) + f16(i)
  bytes[n] = argmax[i] b[n, i] / 16
})"},
    {"RowValueThatIsReplacedAfterItWasRead", R"(() {
  arg x : f32[12, 300] in
  arg s : f32[12] inout
  arg whole : f32[] inout
  arg u : f32[12, 300] out
  arg v : f32[12, 300] out
  arg w : f32[300] out
  u[r, i] = x[r, i] + s[r]
  s[r] = max[i] x[r, i]
  v[r, i] = x[r, i] - s[r]
  w[i] = whole[] + 1.0
  whole[] = max[r, i] x[r, i]
  w[i] = w[i] * whole[]
})"},
};

std::ostream& operator<<(std::ostream& out, const Single& single) {
  return out << single.name;
}

INSTANTIATE_TEST_SUITE_P(Examples, ReductionTest, testing::ValuesIn(kReductions),
                         [](const auto& example) { return example.param.name; });

// Lanes are columns in the parts of the sums, too: a warp must not read a column with a stride.
TEST(ColumnTest, PartsOfLongColumnsHaveNoShuffles) {
  const std::string text = R"(yoke.program 1
program p() {
  arg x : f32[8192, 3072] in
  arg w : f32[8192] in
  arg b : f32[3072] out
  b[j] = sum[i] x[i, j] * w[i]
})";
  const Plan plan = generate(program::parse_and_verify(text).programs.at(0), Target{});
  ASSERT_GE(plan.launches.size(), 2) << launches_of(text);
  const std::size_t first = plan.source.find("YK_KERNEL(", plan.source.find("yk_random_bits"));
  const std::string kernel = plan.source.substr(first, plan.source.find("YK_KERNEL(", first + 1) - first);
  EXPECT_EQ(kernel.find("YK_SHUFFLE"), std::string::npos) << kernel;
}

}  // namespace
}  // namespace yoke::codegen::test
