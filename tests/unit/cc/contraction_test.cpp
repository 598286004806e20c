// SPDX-License-Identifier: Apache-2.0
// tests/unit/cc/contraction_test.cpp: matrix products are recognized, run in
// oneDNN or a blocked matmul, and give correct results.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <yoke/program/execute.h>

#include <cmath>
#include <limits>

#include "../../support/count_allocations.h"
#include "harness.h"

namespace yoke::cc::test {
namespace {

using ::testing::AnyOf;
using ::testing::StartsWith;

// In oneDNN or, with AVX-512, in panels.
const auto kIsMatrixProduct = AnyOf(StartsWith("oneDNN matmul"), StartsWith("cc product in panels"));
constexpr char kAfterMatmul[] = "tile kernel, right after the product that it reads";

// The text of `statement` with the target t, declared by "f32[6, 25] out",
// and the inputs a and b, by "f32[6, 20]".
std::string product(const std::string& t, const std::string& a, const std::string& b,
                    const std::string& statement) {
  return text_of("  arg a : " + a + " in\n  arg b : " + b + " in\n  arg t : " + t + "\n  " + statement +
                 "\n");
}

TEST(ContractionTest, EveryTranspositionIsAMatrixProduct) {
  for (const char* a : {"[m, k]", "[k, m]"}) {
    for (const char* b : {"[k, n]", "[n, k]"}) {
      for (const char* t : {"[m, n]", "[n, m]"}) {
        for (const bool swap : {false, true}) {
          const auto dims = [](const char* indices) {
            std::string text = "f32";
            for (const char* c = indices; *c != 0; ++c) {
              text += *c == 'm' ? "37" : *c == 'n' ? "50" : *c == 'k' ? "29" : std::string(1, *c);
            }
            return text;
          };
          const std::string first = (swap ? "b" : "a") + std::string(swap ? b : a);
          const std::string second = (swap ? "a" : "b") + std::string(swap ? a : b);
          const std::string text = product(dims(t) + " out", dims(a), dims(b),
                                           "t" + std::string(t) + " = sum[k] " + first + " * " + second);
          EXPECT_THAT(notes_of(text)[0], kIsMatrixProduct) << text;
          expect_like_reference(text, 1);
        }
      }
    }
  }
}

TEST(ContractionTest, AllProductsOfAnMlpStepAreMatrixProducts) {
  const std::string text = text_of(R"(
  arg x : f32[600, 78] in
  arg w1 : f32[64, 78] in
  arg b1 : f32[64] in
  arg w2 : f32[10, 64] in
  arg b2 : f32[10] in
  arg dw1 : f32[64, 78] out
  arg dw2 : f32[10, 64] out
  arg z2 : f32[50, 10] out
  temp z1 : f32[50, 64]
  temp h : f32[50, 64]
  temp dh : f32[50, 64]
  temp dz1 : f32[50, 64]
  temp z : f32[50, 10]
  @fused[n, o] {
    z1[n, o] = sum[i] x[row + n, i] * w1[o, i]
    z1[n, o] = z1[n, o] + b1[o]
    h[n, o] = max(z1[n, o], 0)
  }
  @fused[n, o] {
    z[n, o] = sum[i] h[n, i] * w2[o, i]
    z2[n, o] = z[n, o] + b2[o]
  }
  dw2[o, i] = sum[n] z2[n, o] * h[n, i]
  dh[n, i] = sum[o] z2[n, o] * w2[o, i]
  dz1[n, i] = dh[n, i] * f32(z1[n, i] > 0)
  dw1[o, i] = sum[n] dz1[n, o] * x[row + n, i]
)",
                                   "symbol row in 0..600 step 50");
  const std::vector<std::string> notes = notes_of(text);
  for (const std::size_t i : {std::size_t{0}, std::size_t{3}}) {
    EXPECT_THAT(notes[i], kIsMatrixProduct);
    EXPECT_THAT(notes[i + 1], StartsWith("bias of the preceding "));
  }
  for (const std::size_t i : {std::size_t{5}, std::size_t{6}, std::size_t{8}}) {
    EXPECT_THAT(notes[i], kIsMatrixProduct);
  }
  EXPECT_EQ(notes[2], kAfterMatmul);
  EXPECT_EQ(notes[7], kAfterMatmul);
  // With eighths, few results depend on the order of sums, and the sign of z1 never does.
  expect_like_reference(text, 2, {.kind = conformance::DataKind::kDyadic, .symbols = {150}});
}

// oneDNN writes the sum while it reads the operands.
TEST(ContractionTest, BiasIsAddedLaterIfTheSumReplacesAnOperand) {
  const std::string text = text_of(R"(
  arg h : f32[4, 1024] inout
  arg w : f32[1024, 1024] in
  arg b : f32[1024] in
  temp t : f32[4, 1024]
  @dense {
    t[i, j] = sum[k] h[i, k] * w[k, j]
    h[i, j] = t[i, j] + b[j]
  }
)");
  EXPECT_EQ(notes_of(text)[1], kAfterMatmul);
  expect_like_reference(text, 3, {.kind = conformance::DataKind::kDyadic});
}

TEST(ContractionTest, BiasIsAddedLaterIfTheSumReplacesTheSecondOperand) {
  const std::string text = text_of(R"(
  arg x : f32[256, 256] in
  arg h : f32[256, 256] inout
  arg b : f32[256] in
  temp t : f32[256, 256]
  @dense {
    t[i, j] = sum[k] x[i, k] * h[k, j]
    h[i, j] = t[i, j] + b[j]
  }
)");
  EXPECT_EQ(notes_of(text)[1], kAfterMatmul);
  expect_like_reference(text, 3, {.kind = conformance::DataKind::kDyadic});
}

TEST(ContractionTest, ActivationRunsRightAfterItsProduct) {
  const std::string text = text_of(R"(
  arg x : f32[50, 78] in
  arg w : f32[64, 78] in
  arg b : f32[64] in
  arg z : f32[50, 64] out
  temp y : f32[50, 64]
  y[n, o] = sum[i] x[n, i] * w[o, i]
  z[n, o] = max(y[n, o] + b[o], 0)
)");
  const std::vector<std::string> notes = notes_of(text);
  EXPECT_THAT(notes[0], kIsMatrixProduct);
  EXPECT_EQ(notes[1], kAfterMatmul);
  expect_like_reference(text, 3);
}

TEST(ContractionTest, NoteNamesTheProductOnlyInStatementsThatReadIt) {
  const std::vector<std::string> notes = notes_of(text_of(R"(
  arg x : f32[50, 78] in
  arg w : f32[64, 78] in
  arg y : f32[50, 64] out
  arg z : f32[50, 78] out
  y[n, o] = sum[i] x[n, i] * w[o, i]
  z[n, i] = x[n, i] * 2
)"));
  EXPECT_THAT(notes[0], kIsMatrixProduct);
  EXPECT_EQ(notes[1], "tile kernel");
}

// oneDNN's relu turns NaN into 0, which would hide a diverged run.
TEST(ContractionTest, NaNPassesThroughAReluAfterAProduct) {
  const program::Program p = read(product("f32[50, 64] out", "f32[50, 78]", "f32[64, 78]",
                                          "t[n, o] = sum[i] a[n, i] * b[o, i]\n  t[n, o] = max(t[n, o], 0)"));
  std::vector<float> a(50 * 78, 1.0F), b(64 * 78, -1.0F), t(50 * 64);
  a[78] = std::numeric_limits<float>::quiet_NaN();
  run_on_cc(p,
            {reinterpret_cast<std::byte*>(a.data()), reinterpret_cast<std::byte*>(b.data()),
             reinterpret_cast<std::byte*>(t.data())},
            {});
  EXPECT_EQ(t[0], 0.0F);
  EXPECT_TRUE(std::isnan(t[64]));
  EXPECT_TRUE(std::isnan(t[127]));
  EXPECT_EQ(t[128], 0.0F);
}

TEST(ContractionTest, BatchesOffsetsAccumulationAndVectorsMatchTheReference) {
  struct Case {
    const char* t;
    const char* a;
    const char* b;
    const char* statement;
  };
  const Case cases[] = {
      // Batched, several batch loops, broadcast over one operand, the products of attention.
      {"[6, 20, 25] out", "[6, 20, 30]", "[6, 30, 25]", "t[h, m, n] = sum[k] a[h, m, k] * b[h, k, n]"},
      {"[4, 3, 20, 25] out", "[4, 20, 3, 16]", "[4, 25, 3, 16]",
       "t[b_, h, m, n] = sum[k] a[b_, m, h, k] * b[b_, n, h, k]"},
      {"[4, 20, 25] out", "[4, 20, 30]", "[30, 25]", "t[h, m, n] = sum[k] a[h, m, k] * b[k, n]"},
      {"[4, 20, 25] out", "[20, 30]", "[4, 30, 25]", "t[h, m, n] = sum[k] a[m, k] * b[h, k, n]"},
      {"[4, 25, 20] out", "[4, 20, 30]", "[30, 25]", "t[h, n, m] = sum[k] a[h, m, k] * b[k, n]"},
      // Several summed loops: with a single stride, and with two.
      {"[12, 25] out", "[12, 5, 30]", "[5, 30, 25]", "t[m, n] = sum[j, k] a[m, j, k] * b[j, k, n]"},
      {"[12, 25] out", "[5, 12, 30]", "[5, 30, 25]", "t[m, n] = sum[j, k] a[j, m, k] * b[j, k, n]"},
      {"[12, 25] out", "[5, 12, 30]", "[5, 30, 25]", "t[m, n] = sum[k, j] a[j, m, k] * b[j, k, n]"},
      // Assignments.
      {"[40, 25] inout", "[40, 30]", "[30, 25]", "t[m, n] += sum[k] a[m, k] * b[k, n]"},
      {"[40, 25] inout", "[40, 30]", "[30, 25]", "t[m, n] max= sum[k] a[m, k] * b[k, n]"},
      {"[40, 25] inout", "[40, 30]", "[30, 25]", "t[m, n] *= sum[k] a[m, k] * b[k, n]"},
      // Vectors.
      {"[400] out", "[400, 30]", "[30]", "t[m] = sum[k] a[m, k] * b[k]"},
      {"[400] out", "[30]", "[30, 400]", "t[n] = sum[k] a[k] * b[k, n]"},
      {"[30] out", "[400]", "[400, 30]", "t[n] = sum[k] a[k] * b[k, n]"},
      // A part of a larger tensor, strided and reversed; a convolution; a Gram matrix.
      {"[50, 70] inout", "[90, 64]", "[64, 25]",
       "t[m + 3, n + 11] for[m:40, n:25] = sum[k:30] a[2*m + 1, 2*k] * b[63 - k, n]"},
      {"[8, 18, 18] out", "[3, 20, 20]", "[8, 3, 3, 3]",
       "t[o, y, x] = sum[c, i, j] a[c, y + i, x + j] * b[o, c, i, j]"},
      {"[40, 40] out", "[40, 30]", "[1]", "t[m, n] = sum[k] a[m, k] * a[n, k]"},
      // Products that threads divide along the rows, the columns, the columns with a remainder, and the
      // batch.
      {"[300, 40] out", "[300, 30]", "[30, 40]", "t[m, n] = sum[k] a[m, k] * b[k, n]"},
      {"[20, 500] out", "[20, 37]", "[500, 37]", "t[m, n] = sum[k] a[m, k] * b[n, k]"},
      {"[20, 301] inout", "[49, 20]", "[49, 301]", "t[m, n] += sum[k] a[k, m] * b[k, n]"},
      {"[50, 20, 21] out", "[50, 20, 17]", "[50, 17, 21]", "t[h, m, n] = sum[k] a[h, m, k] * b[h, k, n]"},
      // Each thread has one column.
      {"[2, 3] out", "[2, 60000]", "[60000, 3]", "t[m, n] = sum[k] a[m, k] * b[k, n]"},
      // Each thread has one row.
      {"[3, 2] out", "[45000, 3]", "[45000, 2]", "t[m, n] = sum[k] a[k, m] * b[k, n]"},
      // Extents of 1.
      {"[1, 1] out", "[1, 2000]", "[2000, 1]", "t[m, n] = sum[k] a[m, k] * b[k, n]"},
      {"[60, 70] out", "[60, 1]", "[1, 70]", "t[m, n] = sum[k] a[m, k] * b[k, n]"},
      {"[60, 1] out", "[60, 50]", "[50, 1]", "t[m, n] = sum[k] a[m, k] * b[k, n]"},
      {"[1, 70] out", "[1, 50]", "[70, 50]", "t[m, n] = sum[k] a[m, k] * b[n, k]"},
  };
  std::uint64_t seed = 40;
  for (const Case& c : cases) {
    for (const int threads : {1, 3}) {
      expect_like_reference(
          product("f32" + std::string(c.t), "f32" + std::string(c.a), "f32" + std::string(c.b), c.statement),
          ++seed, {.threads = threads});
      ASSERT_FALSE(HasFailure()) << c.statement;
    }
  }
}

TEST(ContractionTest, OtherTypesRunInTheBlockedMatmul) {
  struct Case {
    const char* factor_type;
    const char* target_type;
    const char* cast;  // of the factors; empty: none
    const char* reduce;
  };
  const Case cases[] = {
      {"f64", "f64", "", "sum"},     {"i32", "i32", "", "sum"},        {"i64", "i64", "", "sum"},
      {"u32", "u32", "", "sum"},     {"u8", "i32", "i32", "sum"},      {"f16", "f32", "f32", "sum"},
      {"bf16", "f32", "f32", "sum"}, {"f16", "f16", "f32", "sum:f32"}, {"bf16", "bf16", "f32", "sum:f32"},
      {"f32", "f64", "f64", "sum"},  {"i32", "i64", "i64", "sum"},
  };
  for (const Case& c : cases) {
    const std::string type = c.factor_type;
    const std::string cast = c.cast;
    const std::string target = c.target_type;
    for (const std::string assign : {"=", "+=", "min="}) {
      const std::string text =
          product(target + "[45, 37] inout", type + "[45, 290]", type + "[37, 290]",
                  "t[m, n] " + assign + " " + c.reduce + "[k] " + cast + "(a[m, k]) * " + cast + "(b[n, k])");
      EXPECT_THAT(notes_of(text)[0], AnyOf(StartsWith("cc blocked matmul"), StartsWith("oneDNN matmul")))
          << text;
      expect_like_reference(text, 60);
    }
  }
}

TEST(ContractionTest, MaximumAndMinimumWithNaNAreNaN) {
  for (const char* const assign : {"max=", "min="}) {
    conformance::Case one = case_of(product("f64[45, 37] inout", "f64[45, 29]", "f64[29, 37]",
                                            "t[m, n] " + std::string(assign) + " sum[k] a[m, k] * b[k, n]"));
    one.data[2].kind = conformance::DataKind::kSpecial;
    EXPECT_TRUE(has_note(*compile(one.program), "cc blocked matmul"));
    check_launch(one, {}, 1, best_kernels());
  }
}

// With small integers, sums are exact in f32, and many of them lie halfway between two bf16 numbers.
TEST(ContractionTest, SumsAreRoundedOnceToBF16) {
  const auto text = [](const std::string& target) {
    return product(target + "[45, 37] out", "bf16[45, 290]", "bf16[37, 290]",
                   "t[m, n] = sum:f32[k] f32(a[m, k]) * f32(b[n, k])");
  };
  EXPECT_EQ(notes_of(text("bf16"))[0].substr(0, 14), notes_of(text("f32"))[0].substr(0, 14));
  const program::Program p = read(text("bf16"));
  const auto values = [](std::size_t count, std::uint32_t seed) {
    std::vector<std::uint16_t> bits;
    for (std::size_t i = 0; i < count; ++i) {
      seed = seed * 1664525U + 1013904223U;
      bits.push_back(program::f32_to_bf16(static_cast<float>(seed >> 28) - 5.0F));
    }
    return bits;
  };
  std::vector<std::uint16_t> a = values(45 * 290, 1), b = values(37 * 290, 2), got(45 * 37), wanted(45 * 37);
  program::execute(p, std::vector<void*>{a.data(), b.data(), wanted.data()}, {});
  run_on_cc(p,
            {reinterpret_cast<std::byte*>(a.data()), reinterpret_cast<std::byte*>(b.data()),
             reinterpret_cast<std::byte*>(got.data())},
            {});
  EXPECT_EQ(got, wanted);
}

TEST(ContractionTest, LaunchAllocatesNothing) {
  const auto allocations_of_a_launch = [](const std::string& text) {
    Launchable launchable(read(text));
    launchable.launch();
    const std::uint64_t before = yoke::test::allocation_count();
    launchable.launch();
    return yoke::test::allocation_count() - before;
  };
  EXPECT_EQ(allocations_of_a_launch(product("f32[40, 25] out", "f32[40, 30]", "f32[30, 25]",
                                            "t[m, n] = exp(a[m, 3]) * b[4, n]\n"
                                            "  t[m, n] = max(t[m, n], 0) + (a[m, n - 3] else 1)")),
            0U);
  const std::string statement = "t[m, n] = sum[k] a[m, k] * b[k, n]";
  EXPECT_EQ(allocations_of_a_launch(product("f64[40, 25] out", "f64[40, 30]", "f64[30, 25]", statement)), 0U);
  // oneDNN allocates a few small lists per call.
  EXPECT_LE(allocations_of_a_launch(product("f32[40, 25] out", "f32[40, 30]", "f32[30, 25]", statement)),
            16U);
}

TEST(ContractionTest, OtherStatementsRunInTileKernels) {
  const std::string texts[] = {
      product("f32[40, 25] out", "f32[40, 30]", "f32[30, 25]", "t[m, n] = sum[k] a[m, k] + b[k, n]"),
      product("f32[40, 25] out", "f32[40, 30]", "f32[30, 25]", "t[m, n] = max[k] a[m, k] * b[k, n]"),
      product("f32[40, 25] out", "f32[40, 30]", "f32[30, 25]",
              "t[m, n] = sum[k] (a[m, k - 2] else 0) * b[k, n]"),
      product("f32[40] out", "f32[40, 30]", "f32[40, 30]", "t[m] = sum[k, j:3] a[m, k] * f32(j)"),
      product("f32[40, 25] out", "f16[40, 30]", "f16[30, 25]", "t[m, n] = sum:f32[k] a[m, k] * b[k, n]"),
  };
  std::uint64_t seed = 80;
  for (const std::string& text : texts) {
    EXPECT_THAT(notes_of(text)[0], StartsWith("tile kernel")) << text;
    expect_like_reference(text, ++seed);
  }
}

TEST(ContractionTest, ProductsWithOneRowOrOneColumnUseTheirStrides) {
  const char* const bodies[] = {
      "  arg a : f32[70, 300] in\n  arg x : f32[300, 5] in\n  arg y : f32[70, 3] inout\n"
      "  y[m, 1] = sum[k] a[m, k] * x[k, 3]\n",
      "  arg a : f32[300, 70] in\n  arg x : f32[300, 5] in\n  arg y : f32[70] out\n"
      "  y[m] = sum[k] a[k, m] * x[k, 3]\n",
      "  arg a : f32[300, 7] in\n  arg b : f32[300, 70] in\n  arg y : f32[70, 4] inout\n"
      "  y[n, 2] += sum[k] a[k, 3] * b[k, n]\n",
      "  arg a : f32[9, 300, 7] in\n  arg b : f32[9, 70, 300] in\n  arg y : f32[9, 70] out\n"
      "  y[g, n] = sum[k] a[g, k, 3] * b[g, n, k]\n"};
  for (const char* const body : bodies) {
    expect_like_reference(text_of(body), 3);
  }
}

}  // namespace
}  // namespace yoke::cc::test
