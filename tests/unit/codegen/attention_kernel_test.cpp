// SPDX-License-Identifier: Apache-2.0
// tests/unit/codegen/attention_kernel_test.cpp: attention by yoke's own kernels, on the CPU, beside exact results.
#include <gtest/gtest.h>
#include <yoke/program/text.h>

#include <bit>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "../../support/exact_attention.h"
#include "harness.h"

namespace yoke::codegen::test {
namespace {

using yoke::test::AttentionShape;
using yoke::test::body_of;
using yoke::test::compare_attention;

Target ampere() {
  Target target;
  target.capability = 80;
  target.fused_attention = true;
  return target;
}

conformance::Case attention_case(const std::string& body) {
  return case_of("yoke.program 1\nprogram p() {\n" + body + "}\n");
}

// No kernel stores scores.
void expect_kernels(const program::Program& program, bool has_gradient) {
  const Plan plan = generate(program, ampere());
  EXPECT_EQ(plan.launches.size(), has_gradient ? 4U : 1U);
  for (const Launch& launch : plan.launches) {
    EXPECT_TRUE(launch.remark.starts_with("by yoke's kernels: ")) << launch.remark;
  }
}

std::vector<conformance::Contents> check(std::span<const AttentionShape> shapes) {
  std::vector<conformance::Case> cases;
  std::vector<conformance::Contents> starts;
  for (const AttentionShape& shape : shapes) {
    cases.push_back(attention_case(body_of(shape)));
    expect_kernels(cases.back().program, shape.has_gradient);
    starts.push_back(conformance::initial_arguments(cases.back()));
  }
  const std::vector<conformance::Contents> results = results_of(cases, starts, ampere());
  for (std::size_t i = 0; i < cases.size(); ++i) {
    EXPECT_EQ(compare_attention(shapes[i], starts[i], results[i]), "") << "shape " << i << "\n"
                                                                       << program::print(cases[i].program);
  }
  return results;
}

// Tiles have 64 keys, and 64 or 128 queries.
constexpr AttentionShape kForward[] = {
    {.batch = 1,
     .heads = 2,
     .queries = 130,
     .keys = 130,
     .size = 64,
     .value_size = 64,
     .has_gradient = false},
    {.type = "f16",
     .batch = 1,
     .heads = 1,
     .queries = 64,
     .keys = 128,
     .size = 40,
     .value_size = 16,
     .is_causal = false,
     .has_gradient = false},
    {.batch = 2, .heads = 2, .queries = 33, .keys = 65, .size = 8, .value_size = 40, .has_gradient = false},
    {.batch = 1, .heads = 1, .queries = 128, .keys = 20, .size = 16, .value_size = 8, .has_gradient = false},
    {.batch = 1,
     .heads = 1,
     .queries = 70,
     .keys = 90,
     .size = 128,
     .value_size = 72,
     .is_causal = false,
     .has_gradient = false},
    {.type = "f16",
     .batch = 1,
     .heads = 1,
     .queries = 65,
     .keys = 64,
     .size = 80,
     .value_size = 128,
     .has_gradient = false},
    {.batch = 1,
     .heads = 1,
     .queries = 2,
     .keys = 200,
     .size = 24,
     .value_size = 32,
     .is_causal = false,
     .has_gradient = false},
};

TEST(AttentionKernelTest, ResultsAreExactWithinTheRoundingOf16Bits) {
  SKIP_WITHOUT_COMPILER();
  check(kForward);
}

// Gradients: tiles have 64 keys or queries, or 32 for large heads.
constexpr AttentionShape kGradients[] = {
    {.batch = 1, .heads = 2, .queries = 130, .keys = 130, .size = 64, .value_size = 64},
    {.type = "f16",
     .batch = 1,
     .heads = 1,
     .queries = 64,
     .keys = 128,
     .size = 40,
     .value_size = 16,
     .is_causal = false},
    {.batch = 2, .heads = 2, .queries = 33, .keys = 65, .size = 8, .value_size = 40},
    {.batch = 1, .heads = 1, .queries = 128, .keys = 20, .size = 16, .value_size = 8},
    {.batch = 1, .heads = 1, .queries = 70, .keys = 90, .size = 128, .value_size = 72, .is_causal = false},
    {.type = "f16", .batch = 1, .heads = 1, .queries = 65, .keys = 64, .size = 80, .value_size = 128},
    {.batch = 1, .heads = 1, .queries = 64, .keys = 128, .size = 16, .value_size = 16},
};

TEST(AttentionKernelTest, GradientsAreExactWithinTheRoundingOf16Bits) {
  SKIP_WITHOUT_COMPILER();
  check(kGradients);
}

}  // namespace
}  // namespace yoke::codegen::test
