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

// A mask of the sums alone is another formula than a mask of the scores.
TEST(AttentionOrderTest, SumsHaveTheMaskOfTheScores) {
  const Change no_mask = {"select(mask[i, j], 0.25 * f32(s[b, h, i, j]), -1.7e+38)",
                          "0.25 * f32(s[b, h, i, j])"};
  const Change no_mask_of_gradient = {"select(mask[i, j], (df", "((df"};
  const Change no_hidden_gradient = {"e[b, h, i, j], 0) * 0.25", "e[b, h, i, j]) * 0.25"};
  const std::string total = "sum[j] e[b, h, i, j]";
  const std::string rows = "df[b, h, i, j] * (e[b, h, i, j] / total[b, h, i])";
  const Change masked_total = {total, "sum[j] select(mask[i, j], e[b, h, i, j], 0)"};
  const Change masked_rows = {rows, "select(mask[i, j], " + rows + ", 0)"};
  expect_refused(forward(), {{{no_mask, masked_total}, "it does not compute 'total["}});
  expect_refused(training(), {{{no_mask, no_mask_of_gradient, no_hidden_gradient, masked_rows},
                               "it does not compute 'rows["}});
  EXPECT_EQ(found_in(changed(training(), {masked_total, masked_rows})), found_in(training()));
}

}  // namespace
}  // namespace yoke::codegen::attention_programs
