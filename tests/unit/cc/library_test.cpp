// SPDX-License-Identifier: Apache-2.0
// tests/unit/cc/library_test.cpp: how threads divide convolutions by oneDNN.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <omp.h>

#include "harness.h"
#include "pool.h"

namespace yoke::cc::test {
namespace {

using ::testing::StartsWith;

constexpr int kThreads[] = {1, 2, 4};

TEST(LibraryTest, GroupedConvolutionsRunInOneDnnWithMoreThreadsThanGroups) {
  const std::string dims =
      "  arg x : f32[1, 2, 16, 9, 9]@\n  arg w : f32[2, 16, 16, 3, 3]@\n"
      "  arg y : f32[1, 2, 16, 9, 9]@\n  ";
  const char* statements[] = {
      "y[n, g, o, h, v] = sum[c, i, j] (x[n, g, c, h + i - 1, v + j - 1] * w[g, o, c, i, j] else 0)",
      "x[n, g, c, h, v] = sum[o, i, j] (y[n, g, o, h + 1 - i, v + 1 - j] * w[g, o, c, i, j] else 0)",
      "w[g, o, c, i, j] = sum[n, h, v] (x[n, g, c, h + i - 1, v + j - 1] * y[n, g, o, h, v] else 0)",
  };
  for (const std::string statement : statements) {
    std::string text = dims;
    for (std::size_t at = 0; (at = text.find('@')) != std::string::npos;) {
      const char name = text[text.rfind("arg ", at) + 4];
      text.replace(at, 1, name == statement[0] ? " out" : " in");
    }
    text = text_of(text + statement + "\n");
    for (const int threads : kThreads) {
      EXPECT_THAT(compile(read(text), threads)->notes[0].reason, StartsWith("oneDNN convolution ("))
          << threads << " threads\n"
          << text;
      expect_like_reference(text, 7, {.threads = threads});
    }
  }
}

std::string weight_gradient(const std::string& batch, const std::string& in, const std::string& out,
                            const std::string& size) {
  const std::string image = ", " + size + ", " + size + "] in\n";
  return text_of("  arg x : f32[" + batch + ", " + in + image + "  arg y : f32[" + batch + ", " + out +
                 image + "  arg w : f32[" + out + ", " + in +
                 ", 3, 3] out\n"
                 "  w[o, c, i, j] = sum[n, h, v] (x[n, c, h + i - 1, v + j - 1] * y[n, o, h, v] else 0)\n");
}

TEST(LibraryTest, ThreadsShareTheCopyOfAnOperandOfAWeightGradient) {
  for (const char* channels : {"64", "128"}) {  // which all threads divide evenly
    const program::Program p = read(weight_gradient("8", channels, channels, "28"));
    const std::uint64_t alone = compile(p, 1)->workspace_byte_count;
    for (const int threads : {2, 4}) {
      const auto compiled = compile(p, threads);
      EXPECT_THAT(compiled->notes[0].reason, StartsWith("oneDNN convolution ("));
      EXPECT_LT(compiled->workspace_byte_count, alone + alone / 8) << channels << ", " << threads;
    }
  }
}

TEST(LibraryTest, WeightGradientsWithASharedCopyMatchTheReference) {
  // Divided along the output or the input channels; images fewer than threads; channels that need padding.
  const std::string texts[] = {weight_gradient("2", "16", "48", "9"), weight_gradient("2", "64", "5", "9"),
                               weight_gradient("1", "18", "72", "9")};
  for (const std::string& text : texts) {
    for (const int threads : {2, 4}) {
      expect_like_reference(text, 11, {.threads = threads});
    }
  }
}

// oneDNN may add the terms of parts of another size in another order.
// The pieces have equal shapes, so a copy of the first one's weights would suit all of them.
TEST(LibraryTest, InputGradientsOfEqualPiecesReadTheirOwnWeights) {
  expect_like_reference(
      text_of(
          "  arg y : f32[1, 48, 4, 4] in\n  arg w : f32[48, 48, 3, 3] in\n  arg x : f32[1, 48, 4, 4] out\n"
          "  x[n, c, h, v] = sum[o, i, j] (y[n, o, h - i + 1, v - j + 1] * w[o, c, i, j] else 0)\n"),
      6, {.kind = conformance::DataKind::kDyadic, .threads = 3});
}

TEST(LibraryTest, ProductsWithoutOneDnnHaveTheSameBitsForAnyNumberOfThreads) {
  for (const char* types : {"f64", "f16"}) {
    std::string text = text_of(
        "  arg a : T[150, 301] in\n  arg b : T[67, 301] in\n  arg t : T[150, 67] out\n"
        "  t[m, n] = sum:A[k] A(a[m, k]) * A(b[n, k])\n");
    for (std::size_t at = 0; (at = text.find_first_of("TA", at)) != std::string::npos;) {
      text.replace(at, 1, text[at] == 'A' && types == std::string("f16") ? "f32" : types);
    }
    conformance::Case one;
    one.program = read(text);
    one.data.assign(one.program.tensors.size(), {conformance::DataKind::kUniform, 1, -1});
    const std::vector<Guarded> start = start_of(one);
    const auto alone = compile(one.program, 1);
    EXPECT_THAT(alone->notes[0].reason, StartsWith("cc blocked matmul"));
    for (const int threads : {2, 3, 4}) {
      EXPECT_TRUE(
          same_bytes(run_guarded(alone, start, {}), run_guarded(compile(one.program, threads), start, {})))
          << types << ", " << threads << " threads";
    }
  }
}

TEST(LibraryTest, OneDnnGetsOneThreadAndTheApplicationKeepsItsOwn) {
  const int before = omp_get_max_threads();
  omp_set_num_threads(3);
  {
    const OneOpenMpThread one;
    EXPECT_EQ(omp_get_max_threads(), 1);
  }
  EXPECT_EQ(omp_get_max_threads(), 3);
  omp_set_num_threads(before);
}

}  // namespace
}  // namespace yoke::cc::test
