// SPDX-License-Identifier: Apache-2.0
// tests/unit/cc/similar_statements_test.cpp: statements that differ in one respect from a matrix product, from its
// epilogue, or from a convolution are computed correctly, without the special kernels.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "harness.h"

namespace yoke::cc::test {
namespace {

using ::testing::AnyOf;
using ::testing::Not;
using ::testing::StartsWith;

// Arguments, as "x f32[3, 4] in", and the statements that follow them.
struct Body {
  std::vector<const char*> arguments;
  std::string statements;

  std::string text() const {
    std::string body;
    for (const std::string argument : arguments) {
      const std::size_t name = argument.find(' ');
      body += (argument.ends_with("temp") ? "  temp " : "  arg ") + argument.substr(0, name) + " :" +
              argument.substr(name, argument.rfind(' ') - name) +
              (argument.ends_with("temp") ? "" : argument.substr(argument.rfind(' '))) + "\n";
    }
    return text_of(body + "  " + statements + "\n", "symbol row in 0..3");
  }
};

void expect_like_reference(const std::string& text, conformance::DataKind kind) {
  test::expect_like_reference(text, 3, {.kind = kind, .symbols = {2}});
}

TEST(SimilarStatementsTest, SumsThatResembleMatrixProductsRunInTiles) {
  const char* const kTarget = "t f32[40, 25] out";
  const Body bodies[] = {
      // Casts that change values, and casts that the kernels of products lack.
      {{"a f32[40, 30] in", "b f32[30, 25] in", "t i32[40, 25] out"},
       "t[m, n] = sum[k] i32(a[m, k]) * i32(b[k, n])"},
      {{"a i32[40, 30] in", "b i32[30, 25] in", kTarget}, "t[m, n] = sum[k] f32(a[m, k]) * f32(b[k, n])"},
      {{"a bool[40, 30] in", "b bool[30, 25] in", kTarget}, "t[m, n] = sum[k] f32(a[m, k]) * f32(b[k, n])"},
      {{"a f64[40, 30] in", "b f64[30, 25] in", kTarget}, "t[m, n] = sum[k] f32(a[m, k]) * f32(b[k, n])"},
      // Products that are narrower than their sums.
      {{"a f32[40, 30] in", "b f32[30, 25] in", "t f64[40, 25] out"},
       "t[m, n] = sum:f64[k] a[m, k] * b[k, n]"},
      {{"a i32[40, 30] in", "b i32[30, 25] in", "t i64[40, 25] out"},
       "t[m, n] = sum:i64[k] a[m, k] * b[k, n]"},
      // Loops that are missing in a factor.
      {{"a f32[40, 30] in", "b f32[30, 25] in", kTarget}, "t[m, n] = sum[k] a[m, k] * b[0, n]"},
      {{"a f32[40, 30] in", "b f32[30, 25] in", kTarget}, "t[m, n] = sum[k] a[m, 0] * b[k, n]"},
      {{"a f32[40, 30] in", "b f32[30, 25] in", "t f32[40, 25, 3] out"},
       "t[m, n, j] = sum[k] a[m, k] * b[k, n]"},
      // A scatter.
      {{"a f32[40, 30] in", "b f32[30, 25] in", "i i32[40] in", "t f32[9, 25] inout"},
       "t[i[m], n] += sum[k] a[m, k] * b[k, n]"},
  };
  for (const Body& body : bodies) {
    EXPECT_THAT(notes_of(body.text())[0], StartsWith("tile kernel")) << body.text();
    for (const auto kind : {conformance::DataKind::kDyadic, conformance::DataKind::kSpecial}) {
      expect_like_reference(body.text(), kind);
    }
  }
}

TEST(SimilarStatementsTest, OnlySumsWithABiasAreEpilogues) {
  const char* const bodies[][2] = {
      // The sum or the operand at other places.
      {"y f32[64, 64] out", "y[m, n] = t[n, m] + c[n]"},
      {"y f32[64, 64] out", "y[m, n] = t[m, n] + t[0, n]"},
      {"y f32[64, 64] out", "y[m, n] = t[m, n] + (c[n - 1] else 0)"},
      // A maximum with a value other than 0.
      {"y f32[64, 64] out", "y[m, n] = max(t[m, n] + c[n], c[n])"},
      // Other extents, and other strides of the target.
      {"y f32[64, 64] inout", "y[m, n] for[m:40, n:64] = t[m, n] + c[n]"},
      {"y f32[40, 64] inout", "y[m, n] for[m:40, n:64] = t[m, n] + c[n]"},
      {"y f32[64, 70] inout", "y[m, n] for[m:64, n:64] = t[m, n] + c[n]"},
      {"y f32[64, 64] out", "y[n, m] for[m:64, n:64] = t[m, n] + c[n]"},
  };
  // oneDNN computes the first product, and panels the second one.
  for (const char* const b : {"b[k, n]", "b[n, k]"}) {
    for (const auto& [y, statement] : bodies) {
      const Body body{
          {"a f32[64, 64] in", "b f32[64, 64] in", "c f32[64] in", y, "t f32[64, 64] temp"},
          std::string("@dense {\n  t[m, n] = sum[k] a[m, k] * ") + b + "\n  " + statement + "\n  }"};
      EXPECT_THAT(notes_of(body.text())[1], StartsWith("tile kernel")) << body.text();
      expect_like_reference(body.text(), conformance::DataKind::kDyadic);
    }
  }
}

TEST(SimilarStatementsTest, OnlyABiasContiguousAlongTheColumnsIsFused) {
  const Body bodies[] = {
      // The columns of the product consist of two loops.
      {{"a f32[64, 48] in", "b f32[6, 48, 8] in", "c f32[6, 8] in", "y f32[64, 6, 8] out",
        "t f32[64, 6, 8] temp"},
       "@dense {\n  t[m, i, j] for[m:64, j:8, i:6] = sum[k] a[m, k] * b[i, k, j]\n"
       "  y[m, i, j] for[m:64, j:8, i:6] = t[m, i, j] + c[i, j]\n  }"},
      // They are not contiguous in the target.
      {{"a f32[64, 48] in", "b f32[48, 48] in", "c f32[48, 2] in", "t f32[64, 48, 2] inout"},
       "@dense {\n  t[m, n, 0] = sum[k] a[m, k] * b[n, k]\n  t[m, n, 0] = t[m, n, 0] + c[n, 0]\n  }"},
  };
  for (const Body& body : bodies) {
    EXPECT_THAT(notes_of(body.text())[0], AnyOf(StartsWith("oneDNN"), StartsWith("cc "))) << body.text();
    EXPECT_THAT(notes_of(body.text())[1], StartsWith("tile kernel")) << body.text();
    expect_like_reference(body.text(), conformance::DataKind::kDyadic);
  }
}

TEST(SimilarStatementsTest, OnlyUpdatesOfTheirTargetsAreEpilogues) {
  const char* const statements[] = {"t[m, n] = t[m, n] - 0.5 * t[m, n]",
                                    "w[m, n] for[m:64, n:64] = v[m, n] - 0.5 * t[m, n]",
                                    "w[m, n] for[m:64, n:64] = w[m + 64, n] - 0.5 * t[m, n]",
                                    "w[m, n] for[m:64, n:64] = w[m, n] - 0.5 * t[n, m]",
                                    "w[m, n] for[m:64, n:64] = w[m, n] - exp(s[]) * t[m, n]"};
  for (const std::string statement : statements) {
    const Body body{
        {"a f32[40, 64] in", "b f32[40, 64] in", "s f32[] in", "v f32[64, 64] in", "w f32[128, 64] inout",
         statement.starts_with('t') ? "t f32[64, 64] out" : "t f32[64, 64] temp"},
        "@dense {\n  t[m, n] = sum[k] a[k, m] * b[k, n]\n  " + statement + "\n  }"};
    EXPECT_THAT(notes_of(body.text())[1], StartsWith("tile kernel")) << body.text();
    expect_like_reference(body.text(), conformance::DataKind::kDyadic);
  }
}

TEST(SimilarStatementsTest, IndicesThatResembleConvolutionsDoNotRunInOneDnn) {
  const char* const kX = "x f32[3, 8, 6, 5] in";
  const char* const kW = "w f32[4, 8, 3, 3] in";
  const char* const kY = "y f32[3, 4, 6, 5] inout";
  const Body bodies[] = {
      // An image whose number is read from a tensor.
      {{kX, kW, "e i32[1] in", "y f32[4, 6, 5] out"},
       "y[o, h, v] = sum[c, i, j] (x[e[0], c, h + i - 1, v + j - 1] * w[o, c, i, j] else 0)"},
      // A loop in two dimensions of a factor; two loops of the target, or two summed loops, in one dimension.
      {{kX, kW, kY}, "y[n, o, h, v] = sum[i, j] (x[n, h, h + i - 1, v + j - 1] * w[o, 1, i, j] else 0)"},
      {{kX, kW, kY}, "y[n, o, h, 0] = sum[c, i, j] (x[n, c, h + i - 1, h + j - 1] * w[o, c, i, j] else 0)"},
      {{kX, kW, kY}, "y[n, o, h, v] = sum[c, i] (x[n, c, h + i - 1, v + i - 1] * w[o, c, i, 1] else 0)"},
      {{kX, kW, kY}, "y[n, o, h, v] = sum[c, i] (x[n, c, h + v + i - 2, 1] * w[o, c, i, 1] else 0)"},
      {{kX, kW, kY}, "y[n, o, h, v] = sum[c, i, j] (x[n, c, h + i + j - 2, v] * w[o, c, i, j] else 0)"},
      // A kernel for each place, and a kernel that does not depend on the summed place.
      {{kX, "w f32[4, 8, 3, 6] in", kY},
       "y[n, o, h, v] = sum[c, i] (x[n, c, h + i - 1, v] * w[o, c, i, h] else 0)"},
      {{kX, kW, kY}, "y[n, o, h, v] = sum[c, i:3] (x[n, c, h + i - 1, v] * w[o, c, 1, 1] else 0)"},
      // Two group axes, two axes of outputs, two axes of inputs, and four dimensions.
      {{"x f32[2, 3, 4, 2, 7] in", "w f32[3, 4, 4, 2, 3] in", "y f32[2, 3, 4, 2, 7] out"},
       "y[n, g, o, q, h] = sum[c, i] (x[n, g, c, q, h + i - 1] * w[g, o, c, q, i] else 0)"},
      {{"x f32[3, 4, 7] in", "w f32[2, 4, 3, 8] in", "y f32[3, 8, 2, 7] out"},
       "y[n, o, q, h] = sum[c, i] (x[n, c, h + i - 1] * w[q, c, i, o] else 0)"},
      {{"x f32[3, 2, 4, 20] in", "w f32[8, 4, 2, 3] in", "y f32[3, 8, 20] out"},
       "y[n, o, h] = sum[c, d, i] (x[n, c, d, h + i - 1] * w[o, d, c, i] else 0)"},
      {{"x f32[2, 3, 3, 3, 3] in", "w f32[2, 2, 2, 2, 2, 2] in", "y f32[2, 3, 3, 3, 3] out"},
       "y[o, e, f, g, h] = sum[c, i, j, k, l] "
       "(x[c, e + i, f + j, g + k, h + l] * w[o, c, i, j, k, l] else 0)"},
      // Reversed axes.
      {{kX, kW, kY},
       "y[n, o, h, v] = sum[c, i, j] (x[n, 7 - c, h + i - 1, v + j - 1] * w[o, c, i, j] else 0)"},
      {{kX, kW, kY},
       "y[n, o, h, v] = sum[c, i, j] (x[2 - n, c, h + i - 1, v + j - 1] * w[o, c, i, j] else 0)"},
      {{kX, kW, kY},
       "y[n, o, h, v] = sum[c, i, j] (x[n, c, h + i - 1, v + j - 1] * w[3 - o, c, i, j] else 0)"},
      {{kX, kW, kY},
       "y[n, o, h, v] = sum[c, i:3, j] (x[n, c, h + i - 1, v + j - 1] * w[o, c, 2 - i, j] else 0)"},
      {{kX, kW, kY},
       "y[n, 3 - o, h, v] for[n:3, o:4, h:6, v:5] = sum[c, i, j] (x[n, c, h + i - 1, v + j - 1] * w[o, c, i, "
       "j] else 0)"},
      {{kX, kW, kY},
       "y[n, o, 5 - h, v] for[n:3, o:4, h:6, v:5] = sum[c, i, j] (x[n, c, h + i - 1, v + j - 1] * w[o, c, i, "
       "j] else 0)"},
      {{kX, kW, kY}, "y[n, o, h, v] = sum[c, i, j] (x[n, c, 5 - h + i, v + j - 1] * w[o, c, i, j] else 0)"},
      // An input gradient with negative padding, with padding that depends on a symbol, and with the sign of a
      // forward pass in one dimension.
      {{kX, kW, kY}, "y[n, o, h, v] = sum[c, i, j] (x[n, c, h - i - 1, v - j + 1] * w[o, c, i, j] else 0)"},
      {{kX, kW, kY}, "y[n, o, h, v] = sum[c, i, j] (x[n, c, h - i + row, v - j + 1] * w[o, c, i, j] else 0)"},
      {{kX, "w f32[4, 8, 2, 3] in", kY},
       "y[n, o, h, v] = sum[c, i, j] (x[n, c, (h + i) / 2, v - j + 1] * w[o, c, i, j] else 0)"},
      // Groups that are not next to their channels, in the first factor and in the target.
      {{"x f32[3, 4, 2, 7] in", "w f32[2, 4, 4, 3] in", "y f32[3, 2, 4, 7] out"},
       "y[n, g, o, h] = sum[c, i] (x[n, c, g, h + i - 1] * w[g, o, c, i] else 0)"},
      {{"x f32[3, 2, 4, 7] in", "w f32[2, 4, 4, 3] in", "y f32[3, 4, 2, 7] out"},
       "y[n, o, g, h] = sum[c, i] (x[n, g, c, h + i - 1] * w[g, o, c, i] else 0)"},
      {{"x f32[4, 2, 20] in", "w f32[2, 4, 4, 3] in", "y f32[2, 4, 20] out"},
       "y[g, o, h] = sum[c, i] (x[c, g, h + i - 1] * w[g, o, c, i] else 0)"},
      {{"x f32[2, 4, 20] in", "w f32[2, 4, 4, 3] in", "y f32[4, 2, 20] out"},
       "y[o, g, h] = sum[c, i] (x[g, c, h + i - 1] * w[g, o, c, i] else 0)"},
  };
  for (const Body& body : bodies) {
    EXPECT_THAT(notes_of(body.text())[0], Not(StartsWith("oneDNN"))) << body.text();
    expect_like_reference(body.text(), conformance::DataKind::kDyadic);
  }
}

// The input gradient of a 1x1 convolution with stride 2: elements between the strides are 0.
TEST(SimilarStatementsTest, InputGradientOfAStridedOneByOneConvolutionIsZeroBetweenStrides) {
  const Body body{{"x f32[3, 8, 3, 3] in", "w f32[4, 8] in", "y f32[3, 4, 6, 5] out"},
                  "y[n, o, h, v] = sum[c] (x[n, c, (h) / 2, (v) / 2] * w[o, c] else 0)"};
  expect_like_reference(body.text(), conformance::DataKind::kDyadic);
}

}  // namespace
}  // namespace yoke::cc::test
