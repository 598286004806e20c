// SPDX-License-Identifier: Apache-2.0
// tests/fake_gpu/tests/matrix_unit_test.cpp: the plugins compute products of 16-bit floats on matrix units.
#include <gtest/gtest.h>
#include <yoke/program/text.h>

#include <string>

#include "codegen.h"
#include "products_on_fakes.h"

namespace yoke::gpu {
namespace {

// In every order of memory, with extents at and around the borders of tiles, batches, updates and statements after the
// product.
constexpr Product kHalves[] = {
    {"bf16",
     "arg a: bf16[64, 64] in\n arg b: bf16[64, 64] in\n arg c: bf16[64, 64] out\n"
     "c[m, n] = sum:f32[k] f32(a[m, k]) * f32(b[k, n])\n",
     ""},
    {"f16_left_transposed",
     "arg a: f16[72, 65] in\n arg b: f16[72, 40] in\n arg c: f16[65, 40] out\n"
     "c[m, n] = sum:f32[k] f32(a[k, m]) * f32(b[k, n])\n",
     ""},
    {"f16_right_transposed",
     "arg a: f16[63, 33] in\n arg b: f16[129, 33] in\n arg c: f32[63, 129] inout\n"
     "c[m, n] += sum:f32[k] f32(a[m, k]) * f32(b[n, k])\n",
     ""},
    {"bf16_both_transposed",
     "arg a: bf16[31, 16] in\n arg b: bf16[72, 31] in\n arg c: f32[16, 72] inout\n"
     "c[m, n] += sum:f32[k] f32(a[k, m]) * f32(b[n, k])\n",
     ""},
    {"bf16_target_transposed",
     "arg a: bf16[3, 17, 24] in\n arg b: bf16[3, 24, 40] in\n arg c: f32[3, 40, 17] out\n"
     "c[i, n, m] = sum:f32[k] f32(a[i, m, k]) * f32(b[i, k, n])\n",
     ""},
    {"f16_bias_and_relu",
     "arg a: f16[48, 72] in\n arg b: f16[72, 40] in\n arg v: f32[40] in\n arg c: f16[48, 40] out\n"
     "temp y: f32[48, 40]\n y[m, n] = sum[k] f32(a[m, k]) * f32(b[k, n])\n"
     "c[m, n] = f16(max(y[m, n] + v[n], 0))\n",
     ""},
    {"bf16_long_sums",
     "arg a: bf16[16, 1000] in\n arg b: bf16[24, 1000] in\n arg c: f32[16, 24] out\n"
     "c[m, n] = sum:f32[k] f32(a[m, k]) * f32(b[n, k])\n",
     ""},
    {"f16_convolution",
     "arg x: f16[2, 5, 9, 8] in\n arg w: f16[7, 5, 3, 3] in\n arg y: f32[2, 7, 9, 8] out\n"
     "y[n, o, h, v] = sum:f32[c, i, j] (f32(x[n, c, h + i - 1, v + j - 1]) * f32(w[o, c, i, j]) else 0)\n",
     ""},
};

void expect_unit(bool is_hip, const char* variable, const char* value, const char* sign) {
  expect_ok([&]() -> std::string {
    Conditions setup = {is_hip, {}, {{variable, value}}};
    setup.options.vendor = false;
    std::string faults;
    for (const Product& product : kHalves) {
      const codegen::Target target = machine_of(setup)->devices().at(0).target;
      const program::Program program = program::parse_and_verify(text_of(product)).programs.at(0);
      const bool is_used = codegen::generate(program, target).source.find(sign) != std::string::npos;
      faults += is_used ? "" : std::string(product.name) + " does not use " + sign + "\n";
      faults += fault_of(setup, product, "");
    }
    return faults;
  });
}

TEST(MatrixUnitTest, Cdna2MultipliesHalves) {
  expect_unit(true, "FAKE_GPU_ARCHITECTURE", "gfx90a", "__builtin_amdgcn_mfma");
}

TEST(MatrixUnitTest, Cdna1MultipliesHalves) {
  expect_unit(true, "FAKE_GPU_ARCHITECTURE", "gfx908", "__builtin_amdgcn_mfma");
}

// Enough blocks for the tiles of wgmma to be the best choice.
void expect_wgmma(const char* capability, bool is_used) {
  expect_ok([&]() -> std::string {
    constexpr Product kMany = {
        "bf16_batches",
        "arg a: bf16[132, 64, 24] in\n arg b: bf16[132, 24, 128] in\n arg c: f32[132, 64, 128] out\n"
        "c[i, m, n] = sum:f32[k] f32(a[i, m, k]) * f32(b[i, k, n])\n",
        ""};
    Conditions setup = {false, {}, {{"FAKE_GPU_CAPABILITY", capability}}, true};
    setup.options.vendor = false;
    const std::string source =
        plan_for(*machine_of(setup)->context(0), case_of(kMany).program, setup.plan()).source;
    const bool found = source.find("wgmma") != std::string::npos;
    return (found == is_used ? ""
            : found          ? "wgmma is used\n"
                             : "wgmma is not used\n") +
           fault_of(setup, kMany, "");
  });
}

TEST(MatrixUnitTest, HopperMultipliesHalvesByWgmma) {
  expect_wgmma("90", true);
}

TEST(MatrixUnitTest, OtherDevicesIgnoreWgmma) {
  expect_wgmma("80", false);
  expect_wgmma("100", false);
}

TEST(MatrixUnitTest, AmpereMultipliesHalves) {
  expect_unit(false, "FAKE_GPU_CAPABILITY", "80", "mma.sync");
}

}  // namespace
}  // namespace yoke::gpu
