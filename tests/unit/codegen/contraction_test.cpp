// SPDX-License-Identifier: Apache-2.0
// tests/unit/codegen/contraction_test.cpp: tiled products and convolutions beside the reference executor.
#include "contraction.h"

#include <gtest/gtest.h>
#include <yoke/program/text.h>

#include <algorithm>
#include <cstddef>
#include <span>
#include <string>
#include <string_view>

#include "harness.h"

namespace yoke::codegen::test {
namespace {

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
    {"guard_of_a_factor_with_an_else", R"(
  arg a : f32[40, 40] in
  arg b : f32[40, 40] in
  arg t : f32[40, 40] out
  t[m, n] = sum[k:50] ((a[m, k - 5] else 2) * b[k - 8, n] else 0)
)"},
    {"bias_and_activation", R"(
  arg a : f32[3, 37, 45] in
  arg b : f32[45, 70] in
  arg bias : f32[70] in
  arg t : f32[3, 37, 70] out
  arg u : bf16[3, 37, 70] out
  temp z : f32[3, 37, 70]
  z[i, m, n] = sum[k] a[i, m, k] * b[k, n]
  t[i, m, n] = max(z[i, m, n] + bias[n], 0)
  u[i, m, n] = bf16(t[i, m, n] * f32(i + s))
)"},
    {"update_after_long_sums", R"(
  arg dy : f32[1500, 9] in
  arg x : f32[1500, 21] in
  arg w : f32[9, 21] inout
  arg v : f32[9, 21] inout
  temp g : f32[9, 21]
  g[o, i] = sum[n] dy[n, o] * x[n, i]
  v[o, i] = 0.9 * v[o, i] + g[o, i]
  w[o, i] = w[o, i] - 0.1 * v[o, i]
)"},
    {"a_factor_changes_after", R"(
  arg a : f32[40, 40] inout
  arg b : f32[40, 40] in
  arg t : f32[40, 40] out
  t[m, n] = sum[k] a[m, k] * b[k, n]
  a[m, n] = a[m, n] + t[m, n]
)"},
    {"other_elements_after", R"(
  arg a : f32[40, 40] in
  arg b : f32[40, 40] in
  arg t : f32[40, 40] out
  arg u : f32[40, 40] out
  t[m, n] = sum[k] a[m, k] * b[k, n]
  u[m, n] = t[n, m]
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
  check_texts(kProducts, Target{}, "a_tile");
}

// Products of 16-bit floats. Extents that 8 divides move 16 bytes at a time where addresses are aligned.
constexpr Text kHalfProducts[] = {
    {"along_the_depth", R"(
  arg a : bf16[72, 88] in
  arg b : bf16[56, 88] in
  arg t : f32[72, 56] out
  t[m, n] = sum:f32[k] f32(a[m, k]) * f32(b[n, k])
)"},
    {"along_the_rows", R"(
  arg a : f16[88, 72] in
  arg b : f16[88, 56] in
  arg t : f32[72, 56] inout
  t[m, n] += sum:f32[k] f32(a[k, m]) * f32(b[k, n])
)"},
    {"few_rows", R"(
  arg a : f16[8, 200] in
  arg b : f16[200, 320] in
  arg t : f16[8, 320] out
  t[m, n] = sum:f32[k] f32(a[m, k]) * f32(b[k, n])
)"},
    {"few_rows_transposed", R"(
  arg a : bf16[200, 8] in
  arg b : bf16[320, 200] in
  arg t : bf16[8, 320] inout
  t[m, n] += sum:f32[k] f32(a[k, m]) * f32(b[n, k])
)"},
    {"odd_extents", R"(
  arg a : bf16[37, 45] in
  arg b : bf16[70, 45] in
  arg t : bf16[37, 70] out
  t[m, n] = sum:f32[k] f32(a[m, k]) * f32(b[n, k])
)"},
    {"batches_and_symbols", R"(
  arg a : bf16[3, 32, 2, 40] in
  arg b : bf16[3, 24, 2, 40] in
  arg t : f32[3, 2, 32, 24] out
  t[i, j, m, n] = sum:f32[k] f32(a[i, m, j, k]) * f32(b[i, n, j, k])
)"},
    {"symbols_that_break_alignment", R"(
  arg a : f16[40, 48] in
  arg b : f16[24, 48] in
  arg t : f32[40, 24] out
  t[m, n] = sum:f32[k:40] f32(a[m, k + s]) * f32(b[n, k])
)"},
    {"long_sums", R"(
  arg a : bf16[16, 4000] in
  arg b : bf16[24, 4000] in
  arg t : f32[16, 24] out
  t[m, n] = sum:f32[k] f32(a[m, k]) * f32(b[n, k])
)"},
    {"convolution", R"(
  arg x : bf16[2, 8, 11, 9] in
  arg w : bf16[7, 8, 3, 3] in
  arg y : f32[2, 7, 11, 9] out
  y[n, o, h, v] = sum:f32[c, i, j] (f32(x[n, c, h + i - 1, v + j - 1]) * f32(w[o, c, i, j]) else 0)
)"},
    {"infinite_weights", R"(
  arg x : f16[2, 5, 11, 9] in
  arg w : f16[7, 5, 3, 3] in
  arg y : f32[2, 7, 11, 9] out
  temp v : f16[7, 5, 3, 3]
  v[o, c, i, j] = select(w[o, c, i, j] > 1.95, inf, w[o, c, i, j])
  y[n, o, h, u] = sum:f32[c, i, j] (f32(x[n, c, h + i - 1, u + j - 1]) * f32(v[o, c, i, j]) else 0)
)"},
    {"infinite_gradients", R"(
  arg x : bf16[4, 3, 16, 18] in
  arg dy : bf16[4, 16, 8, 8] in
  arg dw : f32[16, 3, 3, 2] out
  temp g : bf16[4, 16, 8, 8]
  g[n, o, h, v] = select(dy[n, o, h, v] > 1.995, inf, dy[n, o, h, v])
  dw[o, c, i, j] = sum:f32[n, h, v] (f32(g[n, o, h, v]) * f32(x[n, c, 2*i + 2*h - 2, j + 2*v]) else 0)
)"},
};

TEST(ContractionTest, TensorCoresMatchTheReference) {
  SKIP_WITHOUT_COMPILER();
  Target target;
  target.capability = 80;
  check_texts(kHalfProducts, target, "YK_WAIT_FOR_COPIES");
}

Target amd(const std::string& architecture, std::uint32_t warp_size) {
  Target target;
  target.dialect = Dialect::kHip;
  target.architecture = architecture;
  target.warp_size = warp_size;
  target.shared_bytes = 64 * 1024;
  return target;
}

TEST(ContractionTest, MatrixCoresOfCdna2MatchTheReference) {
  SKIP_WITHOUT_COMPILER();
  check_texts(kHalfProducts, amd("gfx90a", 64), "__builtin_amdgcn_mfma");
}

// The model of a device of one multiprocessor chooses the largest tile even for a small product.
TEST(ContractionTest, LargestTileOfMatrixCoresMatchesTheReference) {
  SKIP_WITHOUT_COMPILER();
  constexpr Text kLargest[] = {{"large", R"(
  arg a : bf16[2, 120, 24] in
  arg b : bf16[2, 24, 120] in
  arg t : bf16[2, 120, 120] out
  t[i, m, n] = sum:f32[k] f32(a[i, m, k]) * f32(b[i, k, n])
)"}};
  Target target = amd("gfx90a", 64);
  target.processors = 1;
  check_texts(kLargest, target, "yk_sums sums[4][4]");
}

TEST(ContractionTest, MatrixCoresOfCdna1MatchTheReference) {
  SKIP_WITHOUT_COMPILER();
  check_texts(kHalfProducts, amd("gfx908", 64), "__builtin_amdgcn_mfma");
}

TEST(ContractionTest, MatrixUnitsOfRdna3MatchTheReference) {
  SKIP_WITHOUT_COMPILER();
  check_texts(kHalfProducts, amd("gfx1100", 32), "__builtin_amdgcn_wmma");
}

TEST(ContractionTest, StatementsThatUseASumRunWithIt) {
  const auto launches = [](std::string_view name) {
    for (const Text& text : kProducts) {
      if (text.name == name) {
        const std::string lines = launches_of(program_text(text.body));
        return std::count(lines.begin(), lines.end(), '\n');
      }
    }
    return std::ptrdiff_t{-1};
  };
  EXPECT_EQ(launches("bias_and_activation"), 1);
  EXPECT_EQ(launches("update_after_long_sums"), 2) << "parts of sums, then the rest";
  EXPECT_EQ(launches("a_factor_changes_after"), 2);
  EXPECT_EQ(launches("other_elements_after"), 2);
}

TEST(ContractionTest, AddressesHave64BitsIfTheyNeedThem) {
  const auto source_of = [](const std::string& rows) {
    const std::string text =
        program_text("  arg a : f32[" + rows + ", 100] in\n  arg b : f32[100, 64] in\n  arg t : f32[" + rows +
                     ", 64] out\n  t[m, n] = sum[k] a[m, k] * b[k, n]\n");
    return generate(program::parse_and_verify(text).programs.at(0), Target{}).source;
  };
  EXPECT_NE(source_of("10000000").find("const int row_at"), std::string::npos);
  EXPECT_NE(source_of("30000000").find("const long long row_at"), std::string::npos);
}

// Why the statements of the program are not computed in tiles.
std::string reason_of(const std::string& body) {
  const program::Program program = program::parse_and_verify(program_text(body)).programs.at(0);
  const Target target;
  Builder builder(program, target);
  std::string why_not = "tiles";
  const std::size_t first = 0;
  plan_contraction(builder, std::span(&first, 1), why_not);
  return why_not;
}

TEST(ContractionTest, SumsWithoutTilesHaveReasons) {
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
  // HIP refuses a launch of 2^32 threads.
  EXPECT_EQ(reason_of("  arg a : f32[67108864, 16, 16] in\n  arg b : f32[67108864, 16, 16] in\n"
                      "  arg t : f32[67108864, 16, 16] out\n"
                      "  t[i, m, n] = sum[k] a[i, m, k] * b[i, k, n]\n"),
            "too many blocks");
}

}  // namespace
}  // namespace yoke::codegen::test
