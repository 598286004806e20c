// SPDX-License-Identifier: Apache-2.0
// tests/unit/cc/contraction_test.cpp: matrix products are recognized, go to a library, and are right.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "../../support/count_allocations.h"
#include "harness.h"

namespace yoke::cc::test {
namespace {

using ::testing::Test;

// K products of values up to 2 * 2, summed in any order: K * 2^-24 * sum of magnitudes, of which half cancels
// at random.
Rules f32_rules(double k) {
  Rules rules;
  rules.ulp = 2;
  rules.absolute = k * 4 * k * 0x1p-24 / 8 + 1e-6;
  return rules;
}

std::string program(const std::string& body, const std::string& parameters = "") {
  return "yoke.program 1\nprogram p(" + parameters + ") {\n" + body + "}\n";
}

TEST(ContractionTest, EveryTranspositionIsRecognizedAndRight) {
  for (const char* a : {"a[m, k]", "a[k, m]"}) {
    for (const char* b : {"b[k, n]", "b[n, k]"}) {
      for (const char* t : {"t[m, n]", "t[n, m]"}) {
        for (const bool swap : {false, true}) {
          const auto dims = [](const char* access) {
            std::string text;
            for (const char* c = access + 2; *c != 0; ++c) {
              text += *c == 'm' ? "37" : *c == 'n' ? "50" : *c == 'k' ? "29" : std::string(1, *c);
            }
            return text;
          };
          const std::string text =
              program("  arg a : f32[" + dims(a) + " in\n  arg b : f32[" + dims(b) + " in\n  arg t : f32[" +
                      dims(t) + " out\n  " + t + " = sum[k] " +
                      (swap ? std::string(b) + " * " + a : std::string(a) + " * " + b) + "\n");
          EXPECT_NE(notes_of(text)[0].find("oneDNN matmul"), std::string::npos) << text << notes_of(text)[0];
          expect_like_reference(text, 1, f32_rules(29));
        }
      }
    }
  }
}

TEST(ContractionTest, AllProductsOfAnMlpStepGoToOneDnn) {
  const std::string text = program(
      "  arg x : f32[600, 78] in\n  arg w1 : f32[64, 78] in\n  arg b1 : f32[64] in\n  arg w2 : f32[10, 64] "
      "in\n  arg b2 : f32[10] in\n"
      "  arg dw1 : f32[64, 78] out\n  arg dw2 : f32[10, 64] out\n  arg z2 : f32[50, 10] out\n"
      "  temp z1 : f32[50, 64]\n  temp h : f32[50, 64]\n  temp dh : f32[50, 64]\n  temp dz1 : f32[50, 64]\n  "
      "temp z : f32[50, 10]\n"
      "  z1[n, o] = sum[i] x[row + n, i] * w1[o, i]\n  z1[n, o] = z1[n, o] + b1[o]\n  h[n, o] = max(z1[n, "
      "o], 0)\n"
      "  z[n, o] = sum[i] h[n, i] * w2[o, i]\n  z2[n, o] = z[n, o] + b2[o]\n"
      "  dw2[o, i] = sum[n] z2[n, o] * h[n, i]\n  dh[n, i] = sum[o] z2[n, o] * w2[o, i]\n"
      "  dz1[n, i] = dh[n, i] * f32(z1[n, i] > 0)\n  dw1[o, i] = sum[n] dz1[n, o] * x[row + n, i]\n",
      "symbol row in 0..600 step 50");
  const std::vector<std::string> notes = notes_of(text);
  EXPECT_NE(notes[0].find("with the bias of the next statement"), std::string::npos) << notes[0];
  EXPECT_EQ(notes[1], "the bias of the oneDNN matmul before it");
  EXPECT_EQ(notes[2], "tile kernel, right behind the matmul that it reads");
  EXPECT_NE(notes[3].find("with the bias of the next statement"), std::string::npos) << notes[3];
  for (const std::size_t i : {std::size_t{5}, std::size_t{6}, std::size_t{8}}) {
    EXPECT_EQ(notes[i].find("oneDNN matmul"), 0U) << notes[i];
  }
  EXPECT_EQ(notes[7], "tile kernel, right behind the matmul that it reads");
  Rules rules = f32_rules(78);
  rules.low = -1;
  rules.high = 1;
  rules.absolute = 0.02;  // three products deep: 78 * 64 * 10 terms of up to some hundreds
  expect_like_reference(text, 2, rules, {150});
}

TEST(ContractionTest, AnActivationBehindAProductRunsRightBehindIt) {
  const std::string text = program(
      "  arg x : f32[50, 78] in\n  arg w : f32[64, 78] in\n  arg b : f32[64] in\n  arg z : f32[50, 64] out\n "
      " temp y : f32[50, 64]\n"
      "  y[n, o] = sum[i] x[n, i] * w[o, i]\n  z[n, o] = max(y[n, o] + b[o], 0)\n");
  const std::vector<std::string> notes = notes_of(text);
  EXPECT_EQ(notes[0].find("oneDNN matmul"), 0U) << notes[0];
  EXPECT_EQ(notes[1], "tile kernel, right behind the matmul that it reads");
  expect_like_reference(text, 3, f32_rules(78));
}

// oneDNN's own relu gives 0 for NaN, which would hide a run that has diverged.
TEST(ContractionTest, NaNPassesThroughAReluBehindAProduct) {
  const program::Program p =
      read(program("  arg x : f32[50, 78] in\n  arg w : f32[64, 78] in\n  arg z : f32[50, 64] out\n"
                   "  z[n, o] = sum[i] x[n, i] * w[o, i]\n  z[n, o] = max(z[n, o], 0)\n"));
  std::vector<float> x(50 * 78, 1.0F), w(64 * 78, -1.0F), z(50 * 64);
  x[78] = std::numeric_limits<float>::quiet_NaN();
  run_on_cc(p,
            {reinterpret_cast<std::byte*>(x.data()), reinterpret_cast<std::byte*>(w.data()),
             reinterpret_cast<std::byte*>(z.data())},
            {});
  EXPECT_EQ(z[0], 0.0F);
  EXPECT_TRUE(std::isnan(z[64]));
  EXPECT_TRUE(std::isnan(z[127]));
  EXPECT_EQ(z[128], 0.0F);
}

TEST(ContractionTest, BatchesOffsetsAccumulationAndVectorsAreRight) {
  const char* bodies[] = {
      // Batched, several batch loops, broadcast over one operand, attention's products.
      "  arg a : f32[6, 20, 30] in\n  arg b : f32[6, 30, 25] in\n  arg t : f32[6, 20, 25] out\n  t[h, m, n] "
      "= sum[k] a[h, m, k] * b[h, k, n]\n",
      "  arg a : f32[4, 20, 3, 16] in\n  arg b : f32[4, 25, 3, 16] in\n  arg t : f32[4, 3, 20, 25] out\n  "
      "t[b_, h, m, n] = sum[k] a[b_, m, h, k] * b[b_, n, h, k]\n",
      "  arg a : f32[4, 20, 30] in\n  arg b : f32[30, 25] in\n  arg t : f32[4, 20, 25] out\n  t[h, m, n] = "
      "sum[k] a[h, m, k] * b[k, n]\n",
      "  arg a : f32[20, 30] in\n  arg b : f32[4, 30, 25] in\n  arg t : f32[4, 20, 25] out\n  t[h, m, n] = "
      "sum[k] a[m, k] * b[h, k, n]\n",
      "  arg a : f32[4, 20, 30] in\n  arg b : f32[30, 25] in\n  arg t : f32[4, 25, 20] out\n  t[h, n, m] = "
      "sum[k] a[h, m, k] * b[k, n]\n",
      // Several summed loops: one stride, and two.
      "  arg a : f32[12, 5, 30] in\n  arg b : f32[5, 30, 25] in\n  arg t : f32[12, 25] out\n  t[m, n] = "
      "sum[j, k] a[m, j, k] * b[j, k, n]\n",
      "  arg a : f32[5, 12, 30] in\n  arg b : f32[5, 30, 25] in\n  arg t : f32[12, 25] out\n  t[m, n] = "
      "sum[j, k] a[j, m, k] * b[j, k, n]\n",
      // Accumulating, and all assignments.
      "  arg a : f32[40, 30] in\n  arg b : f32[30, 25] in\n  arg t : f32[40, 25] inout\n  t[m, n] += sum[k] "
      "a[m, k] * b[k, n]\n",
      "  arg a : f32[40, 30] in\n  arg b : f32[30, 25] in\n  arg t : f32[40, 25] inout\n  t[m, n] max= "
      "sum[k] a[m, k] * b[k, n]\n",
      "  arg a : f32[40, 30] in\n  arg b : f32[30, 25] in\n  arg t : f32[40, 25] inout\n  t[m, n] *= sum[k] "
      "a[m, k] * b[k, n]\n",
      // Vectors.
      "  arg a : f32[400, 30] in\n  arg b : f32[30] in\n  arg t : f32[400] out\n  t[m] = sum[k] a[m, k] * "
      "b[k]\n",
      "  arg a : f32[30] in\n  arg b : f32[30, 400] in\n  arg t : f32[400] out\n  t[n] = sum[k] a[k] * b[k, "
      "n]\n",
      "  arg a : f32[400] in\n  arg b : f32[400, 30] in\n  arg t : f32[30] out\n  t[n] = sum[k] a[k] * b[k, "
      "n]\n",
      // A part of a larger tensor, strided, reversed; a convolution; a Gram matrix.
      "  arg a : f32[90, 64] in\n  arg b : f32[64, 25] in\n  arg t : f32[50, 70] inout\n  t[m + 3, n + 11] "
      "for[m:40, n:25] = sum[k:30] a[2*m + 1, 2*k] * b[63 - k, n]\n",
      "  arg a : f32[3, 20, 20] in\n  arg b : f32[8, 3, 3, 3] in\n  arg t : f32[8, 18, 18] out\n  t[o, y, x] "
      "= sum[c, i, j] a[c, y + i, x + j] * b[o, c, i, j]\n",
      "  arg a : f32[40, 30] in\n  arg b : f32[1] in\n  arg t : f32[40, 40] out\n  t[m, n] = sum[k] a[m, k] "
      "* a[n, k]\n",
      // Extents of 1 here and there.
      "  arg a : f32[1, 2000] in\n  arg b : f32[2000, 1] in\n  arg t : f32[1, 1] out\n  t[m, n] = sum[k] "
      "a[m, k] * b[k, n]\n",
      "  arg a : f32[60, 1] in\n  arg b : f32[1, 70] in\n  arg t : f32[60, 70] out\n  t[m, n] = sum[k] a[m, "
      "k] * b[k, n]\n",
      "  arg a : f32[60, 50] in\n  arg b : f32[50, 1] in\n  arg t : f32[60, 1] out\n  t[m, n] = sum[k] a[m, "
      "k] * b[k, n]\n",
      "  arg a : f32[1, 50] in\n  arg b : f32[70, 50] in\n  arg t : f32[1, 70] out\n  t[m, n] = sum[k] a[m, "
      "k] * b[n, k]\n",
  };
  std::uint64_t seed = 40;
  for (const char* body : bodies) {
    for (const int threads : {1, 2}) {
      Rules rules = f32_rules(200);
      rules.threads = threads;
      expect_like_reference(program(body), ++seed, rules);
      if (HasFailure()) {
        return;
      }
    }
  }
}

TEST(ContractionTest, OtherTypesGoToAKernelOfTheirOwn) {
  struct Case {
    const char* a;
    const char* t;
    const char* factor;  // with $ for the access
    const char* reduce;
  };
  const Case cases[] = {
      {"f64", "f64", "$", "sum"},
      {"i32", "i32", "$", "sum"},
      {"i64", "i64", "$", "sum"},
      {"u32", "u32", "$", "sum"},
      {"u8", "i32", "i32($)", "sum"},
      {"f16", "f32", "f32($)", "sum"},
      {"bf16", "f32", "f32($)", "sum"},
      {"f16", "f16", "f32($)", "sum:f32"},
      {"bf16", "bf16", "f32($)", "sum:f32"},
      {"f32", "f64", "f64($)", "sum"},
      {"i32", "i64", "i64($)", "sum"},
  };
  for (const Case& c : cases) {
    const auto factor = [&](const std::string& access) {
      std::string text = c.factor;
      return text.replace(text.find('$'), 1, access);
    };
    for (const char* assign : {"=", "+=", "min="}) {
      const std::string text =
          program(std::string("  arg a : ") + c.a + "[45, 290] in\n  arg b : " + c.a +
                  "[37, 290] in\n  arg t : " + c.t + "[45, 37] inout\n  t[m, n] " + assign + " " + c.reduce +
                  "[k] " + factor("a[m, k]") + " * " + factor("b[n, k]") + "\n");
      const std::string note = notes_of(text)[0];
      EXPECT_TRUE(note.find("blocked matmul of cc's own") == 0 || note.find("oneDNN matmul") == 0)
          << text << note;
      Rules rules = f32_rules(300);
      if (std::string(c.t) == "f64") {
        rules.absolute = 1e-10;
      } else if (std::string(c.t) == "f16" || std::string(c.t) == "bf16") {
        rules.ulp = 1;
        rules.absolute = 1e-3;
      }
      expect_like_reference(text, 60, rules);
    }
  }
}

// The workload of a trainer: what is linked once is launched for ever.
TEST(ContractionTest, ALaunchAllocatesNothing) {
  const char* bodies[] = {
      "  arg a : f32[40, 30] in\n  arg b : f32[30, 25] in\n  arg t : f32[40, 25] out\n"
      "  t[m, n] = exp(a[m, 3]) * b[4, n]\n  t[m, n] = max(t[m, n], 0) + (a[m, n - 3] else 1)\n",
      "  arg a : f64[40, 30] in\n  arg b : f64[30, 25] in\n  arg t : f64[40, 25] out\n"
      "  t[m, n] = sum[k] a[m, k] * b[k, n]\n",
  };
  for (const char* body : bodies) {
    Launchable launchable(read(program(body)));
    launchable.launch();
    const std::uint64_t before = yoke::test::allocation_count();
    launchable.launch();
    EXPECT_EQ(yoke::test::allocation_count() - before, 0U) << body;
  }
  // oneDNN keeps a few small lists of its own per call.
  Launchable product(
      read(program("  arg a : f32[40, 30] in\n  arg b : f32[30, 25] in\n  arg t : f32[40, 25] out\n"
                   "  t[m, n] = sum[k] a[m, k] * b[k, n]\n")));
  product.launch();
  const std::uint64_t before = yoke::test::allocation_count();
  product.launch();
  EXPECT_LE(yoke::test::allocation_count() - before, 16U);
}

TEST(ContractionTest, WhatIsNoProductIsLeftToTheTileKernels) {
  const char* bodies[] = {
      "  arg a : f32[40, 30] in\n  arg b : f32[30, 25] in\n  arg t : f32[40, 25] out\n  t[m, n] = sum[k] "
      "a[m, k] + b[k, n]\n",
      "  arg a : f32[40, 30] in\n  arg b : f32[30, 25] in\n  arg t : f32[40, 25] out\n  t[m, n] = max[k] "
      "a[m, k] * b[k, n]\n",
      "  arg a : f32[40, 30] in\n  arg b : f32[30, 25] in\n  arg t : f32[40, 25] out\n  t[m, n] = sum[k] "
      "(a[m, k - 2] else 0) * b[k, n]\n",
      "  arg a : f32[40, 30] in\n  arg b : f32[40, 30] in\n  arg t : f32[40] out\n  t[m] = sum[k, j:3] a[m, "
      "k] * f32(j)\n",
      "  arg a : f16[40, 30] in\n  arg b : f16[30, 25] in\n  arg t : f32[40, 25] out\n  t[m, n] = sum:f32[k] "
      "a[m, k] * b[k, n]\n",
  };
  std::uint64_t seed = 80;
  for (const char* body : bodies) {
    EXPECT_EQ(notes_of(program(body))[0].find("tile kernel"), 0U) << body << notes_of(program(body))[0];
    expect_like_reference(program(body), ++seed, f32_rules(100));
  }
}

}  // namespace
}  // namespace yoke::cc::test
