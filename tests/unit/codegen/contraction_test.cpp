// SPDX-License-Identifier: Apache-2.0
// tests/unit/codegen/contraction_test.cpp: tiled products and convolutions beside the reference executor.
#include "contraction.h"

#include <gtest/gtest.h>
#include <yoke/program/text.h>

#include <string>
#include <vector>

#include "harness.h"

namespace yoke::codegen::test {
namespace {

std::string program_text(const std::string& body) {
  return "yoke.program 1\nprogram p(symbol s in 0..9 step 4) {\n" + body + "}\n";
}

struct Text {
  const char* name;
  const char* body;
};

// Extents that no tile divides, any strides and orders of loops.
constexpr Text kProducts[] = {
    {"plain", R"(
  arg a : f32[37, 45] in
  arg b : f32[45, 70] in
  arg t : f32[37, 70] out
  t[m, n] = sum[k] a[m, k] * b[k, n]
)"},
    {"both_transposed", R"(
  arg a : f32[45, 37] in
  arg b : f32[70, 45] in
  arg t : f32[37, 70] out
  t[m, n] = sum[k] a[k, m] * b[n, k]
)"},
    {"transposed_target_accumulates", R"(
  arg a : f32[37, 45] in
  arg b : f32[45, 70] in
  arg t : f32[70, 37] inout
  t[n, m] += sum[k] a[m, k] * b[k, n]
)"},
    {"several_loops_each", R"(
  arg a : f32[4, 3, 5, 6, 7] in
  arg b : f32[5, 11, 7, 4, 3] in
  arg t : f32[4, 6, 11, 3] out
  t[i, m, n, z] = sum[k, l] a[i, z, k, m, l] * b[k, n, l, i, z]
)"},
    {"symbols_and_steps", R"(
  arg a : f32[70, 80] in
  arg b : f32[24, 99] in
  arg t : f32[28, 80] inout
  t[m + s, 2*n] for[m:20, n:40] max= sum[k:24] a[3*m + s, -k + 39] * b[k, 2*n + s]
)"},
    {"f64", R"(
  arg a : f64[37, 45] in
  arg b : f32[45, 70] in
  arg t : f32[37, 70] out
  t[m, n] = sum:f64[k] a[m, k] * f64(b[k, n])
)"},
    {"halves", R"(
  arg a : bf16[37, 45] in
  arg b : bf16[70, 45] in
  arg t : bf16[37, 70] out
  t[m, n] = sum:f32[k] f32(a[m, k]) * f32(b[n, k])
)"},
    {"convolution", R"(
  arg x : f32[2, 5, 11, 9] in
  arg w : f32[7, 5, 3, 3] in
  arg y : f32[2, 7, 11, 9] out
  y[n, o, h, v] = sum[c, i, j] (x[n, c, h + i - 1, v + j - 1] * w[o, c, i, j] else 0)
)"},
    {"strided_convolution", R"(
  arg x : f32[2, 3, 15, 17] in
  arg w : f32[12, 3, 3, 2] in
  arg y : f32[2, 12, 8, 5] out
  y[n, o, h, v] = sum[c, i, j] (x[n, c, 2*h + 2*i - 2, 3*v + j] * w[o, c, i, j] else 0)
)"},
    {"data_gradient", R"(
  arg dy : f32[2, 12, 8, 5] in
  arg w : f32[12, 3, 3, 2] in
  arg dx : f32[2, 3, 15, 17] inout
  dx[n, c, h, v] += sum[o, i, j] (dy[n, o, (h - 2*i + 2) / 2, (v - j) / 3] * w[o, c, i, j] else 0)
)"},
    {"weight_gradient", R"(
  arg x : f32[4, 3, 15, 17] in
  arg dy : f32[4, 12, 8, 5] in
  arg dw : f32[12, 3, 3, 2] out
  dw[o, c, i, j] = sum[n, h, v] (dy[n, o, h, v] * x[n, c, 2*i + 2*h - 2, j + 3*v] else 0)
)"},
    {"groups_of_channels", R"(
  arg x : f32[3, 2, 5, 14, 10] in
  arg w : f32[2, 6, 5, 3, 3] in
  arg y : f32[3, 2, 6, 7, 5] out
  y[n, g, o, h, v] = sum[c, i, j] (x[n, g, c, 2*h + i - 1, 2*v + j - 1] * w[g, o, c, i, j] else 0)
)"},
    {"padding_of_one", R"(
  arg x : f64[2, 5, 11, 9] in
  arg w : f64[7, 5, 3, 3] in
  arg y : f64[2, 7, 11, 9] out
  y[n, o, h, v] = sum[c, i, j] (x[n, c, h + i - 1, v + j - 1] else 1) * w[o, c, i, j]
)"},
    {"infinite_weights", R"(
  arg x : f32[2, 5, 11, 9] in
  arg w : f32[7, 5, 3, 3] in
  arg y : f32[2, 7, 11, 9] out
  temp v : f32[7, 5, 3, 3]
  v[o, c, i, j] = select(w[o, c, i, j] > 1.95, inf, w[o, c, i, j])
  y[n, o, h, u] = sum[c, i, j] (x[n, c, h + i - 1, u + j - 1] * v[o, c, i, j] else 0)
)"},
    {"both_factors_out_of_range", R"(
  arg a : f32[40, 40] in
  arg b : f32[40, 40] in
  arg t : f32[40, 40] out
  t[m, n] = sum[k:50] (a[m, k - 5] * b[k - 8, n] else 0)
)"},
    {"long_sums", R"(
  arg a : f32[9, 1500] in
  arg b : f32[1500, 21] in
  arg t : f32[9, 21] inout
  t[m, n] += sum[k] a[m, k] * b[k, n]
)"},
};

TEST(ContractionTest, ProductsMatchTheReference) {
  SKIP_WITHOUT_COMPILER();
  std::vector<conformance::Case> cases;
  for (const Text& text : kProducts) {
    cases.push_back(case_of(program_text(text.body)));
    EXPECT_NE(generate(cases.back().program, Target{}).source.find("a_tile"), std::string::npos)
        << text.name << " does not use tiles";
  }
  check_cases(cases);
}

// Why the statements of the program are not computed in tiles.
std::string reason_of(const std::string& body) {
  const program::Program program = program::parse_and_verify(program_text(body)).programs.at(0);
  const Target target;
  Builder builder(program, target);
  builder.begin_step(0, 1);
  std::string why_not = "tiles";
  plan_contraction(builder, program.statements[0], why_not);
  return why_not;
}

TEST(ContractionTest, OtherSumsHaveReasons) {
  const std::string arguments = "  arg a : f32[64, 64] in\n  arg b : f32[64, 64] in\n  arg i : i32[64] in\n";
  const auto reason = [&](const std::string& target, const std::string& statement) {
    return reason_of(arguments + "  arg t : " + target + " out\n  " + statement + "\n");
  };
  EXPECT_EQ(reason("f32[64, 64]", "t[m, n] = sum[k] a[m, k] * b[k, n]"), "tiles");
  EXPECT_EQ(reason("f32[64, 64]", "t[m, n] = sum[k:64] a[m, k] + b[k, n]"), "not a sum of products");
  EXPECT_EQ(reason("f32[64, 64]", "t[m, n] = sum[k:50] (a[m, k + 20] * b[k, n] else 1)"),
            "not a sum of products");
  EXPECT_EQ(reason("f32[64, 64]", "t[m, n] = sum:f64[k] a[m, k] * b[k, n]"),
            "products or sums are neither f32 nor f64");
  EXPECT_EQ(reason("f32[64, 64]", "t[m, n] = sum[k:64] (a[m, i[k]] else 0) * b[k, n]"),
            "a factor is a gather");
  EXPECT_EQ(reason("f32[64, 64]", "t[m, n] = sum[k] a[m, k] * f32(i[n])"),
            "a factor is not a read of floats");
  EXPECT_EQ(reason("f32[64]", "t[m] = sum[k] a[m, k] * b[0, k]"), "a factor is a vector");
  EXPECT_EQ(reason("f32[15, 15]", "t[m, n] = sum[k:16] a[m, k] * b[k, n]"), "too few products");
}

}  // namespace
}  // namespace yoke::codegen::test
