// SPDX-License-Identifier: Apache-2.0
// tests/unit/codegen/attention_order_test.cpp: attention whose masks, roundings or order no library has.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "attention_programs.h"

namespace yoke::codegen::attention_programs {
namespace {

constexpr const char* kLast = " o[b, i, h, d] = sum:f32[j] f32(w[b, h, i, j]) * f32(v[b, j, h, d])\n";

// The gradient reads the result and the statistics of the forward pass.
TEST(AttentionOrderTest, GradientFollowsTheResult) {
  const std::string first = " dv[b, j, h, d] = sum:f32[i] f32(g[b, i, h, d]) * f32(w[b, h, i, j])\n";
  expect_refused(training(), {{{{first, ""}, {kLast, first + kLast}}, "it does not compute 'dv["}});
}

}  // namespace
}  // namespace yoke::codegen::attention_programs
