// SPDX-License-Identifier: Apache-2.0
// tests/unit/codegen/wgmma_test.cpp: products by wgmma, on the CPU's version of its descriptors and queue,
// compared with the reference executor.
#include <gtest/gtest.h>
#include <yoke/program/text.h>

#include <string>

#include "harness.h"

namespace yoke::codegen::test {
namespace {

// The model of a device of one multiprocessor chooses large tiles even for small products.
Target hopper(std::uint32_t processors = 1) {
  Target target;
  target.capability = 90;
  target.wgmma = true;
  target.processors = processors;
  return target;
}

// All orders of memory, widths of the instruction, and both types; extents that no tile divides.
constexpr Text kProducts[] = {
    {"rows_and_columns_along_the_depth", R"(
  arg a : bf16[136, 200] in
  arg b : bf16[504, 200] in
  arg t : f32[136, 504] out
  t[m, n] = sum:f32[k] f32(a[m, k]) * f32(b[n, k])
)",
     "yk_multiply_bf16_256_kk("},
    {"rows_along_the_depth", R"(
  arg a : f16[128, 136] in
  arg b : f16[136, 256] in
  arg t : f16[128, 256] out
  t[m, n] = sum:f32[k] f32(a[m, k]) * f32(b[k, n])
)",
     "yk_multiply_f16_256_kn("},
    {"columns_along_the_depth", R"(
  arg a : f16[72, 120] in
  arg b : f16[112, 72] in
  arg t : f32[120, 112] inout
  t[m, n] += sum:f32[k] f32(a[k, m]) * f32(b[n, k])
)",
     "yk_multiply_f16_128_mk("},
    {"none_along_the_depth", R"(
  arg a : bf16[72, 128] in
  arg b : bf16[72, 248] in
  arg t : bf16[128, 248] out
  t[m, n] = sum:f32[k] f32(a[k, m]) * f32(b[k, n])
)",
     "yk_multiply_bf16_256_mn("},
    {"one_group_of_warps", R"(
  arg a : bf16[2, 64, 328] in
  arg b : bf16[328, 128] in
  arg t : f32[2, 64, 128] out
  t[i, m, n] = sum:f32[k] f32(a[i, m, k]) * f32(b[k, n])
)",
     "yk_multiply_bf16_128_kn("},
    {"narrow", R"(
  arg a : f16[120, 64] in
  arg b : f16[64, 64] in
  arg v : f32[64] in
  arg t : f16[120, 64] out
  temp y : f32[120, 64]
  y[m, n] = sum[k] f32(a[m, k]) * f32(b[n, k])
  t[m, n] = f16(max(y[m, n] + v[n], 0))
)",
     "yk_multiply_f16_64_kk("},
    {"symbols_that_keep_alignment", R"(
  arg a : f16[128, 264] in
  arg b : f16[128, 200] in
  arg t : f32[128, 128] out
  t[m, n] = sum:f32[k:200] f32(a[m, k + 8*s]) * f32(b[n, k])
)",
     "yk_multiply_f16_128_kk("},
};

TEST(WgmmaTest, ProductsMatchTheReference) {
  SKIP_WITHOUT_COMPILER();
  check_texts(kProducts, hopper());
}

TEST(WgmmaTest, PartsOfLongSumsMatchTheReference) {
  SKIP_WITHOUT_COMPILER();
  constexpr Text kParts[] = {{"parts", R"(
  arg a : bf16[64, 2816] in
  arg b : bf16[128, 2816] in
  arg t : bf16[64, 128] out
  t[m, n] = sum:f32[k] f32(a[m, k]) * f32(b[n, k])
)",
                              "results = p2"}};
  check_texts(kParts, hopper(2));
}

// Elements move one by one there, or terms may be left out.
TEST(WgmmaTest, OtherProductsUseMma) {
  for (const char* body : {R"(
  arg a : bf16[136, 201] in
  arg b : bf16[504, 201] in
  arg t : f32[136, 504] out
  t[m, n] = sum:f32[k] f32(a[m, k]) * f32(b[n, k])
)",
                           R"(
  arg a : f16[128, 136] in
  arg b : f16[136, 256] in
  arg t : f32[128, 256] out
  t[m, n] = sum:f32[k:144] (f32(a[m, k - 8]) * f32(b[k - 8, n]) else 0)
)",
                           R"(
  arg a : f16[128, 144] in
  arg b : f16[136, 256] in
  arg t : f32[128, 256] out
  t[m, n] = sum:f32[k:136] f32(a[m, k + s]) * f32(b[k, n])
)"}) {
    const std::string source =
        generate(program::parse_and_verify(program_text(body)).programs.at(0), hopper()).source;
    EXPECT_EQ(source.find("wgmma"), std::string::npos) << body;
    EXPECT_NE(source.find("mma.sync"), std::string::npos) << body;
  }
}

TEST(WgmmaTest, IsOffByDefault) {
  Target target = hopper();
  target.wgmma = false;
  const std::string source =
      generate(program::parse_and_verify(program_text(kProducts[0].body)).programs.at(0), target).source;
  EXPECT_EQ(source.find("wgmma"), std::string::npos);
}

}  // namespace
}  // namespace yoke::codegen::test
