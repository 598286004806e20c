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

TEST(AttentionOrderTest, SumsAreNotRounded) {
  expect_refused(training(), {{{{" temp rows : f32", " temp rows : bf16"},
                                {"rows[b, h, i] = sum[j]", "rows[b, h, i] = sum:f32[j]"},
                                {"-(rows[b, h, i]", "-(f32(rows[b, h, i])"}},
                               "it does not compute 'rows["},
                              {{{" temp total : f32", " temp total : f16"},
                                {"total[b, h, i] = sum[j]", "total[b, h, i] = sum:f32[j]"},
                                {"/ total[b, h, i]", "/ f32(total[b, h, i])"}},
                               "it does not compute 'total["}});
}

// The statements of another attention, whose tensors have the suffix 2. The mask is the same.
std::string second(const std::string& text) {
  std::vector<Change> changes;
  for (const char* name : {"s", "e", "top", "total", "w", "dw", "df", "rows", "part", "ds", "q", "k", "v",
                           "g", "o", "dq", "dk", "dv"}) {
    for (const char* before : {" ", "(", "-", "["}) {
      for (const char* after : {"[", " :"}) {
        const std::string from = std::string(before) + name + after;
        if (text.find(from) != std::string::npos) {
          changes.push_back({from, std::string(before) + name + "2" + after});
        }
      }
    }
  }
  return changed(text, changes);
}

// The parts of training(), in its order.
struct Parts {
  std::string tensors;
  std::string mask;
  std::string forward;
  std::string backward;
};

Parts parts_of(const std::string& text) {
  const std::size_t mask = text.find(" mask[i, j] = ");
  const std::size_t start = text.find(" s[b, h, i, j] = ");
  const std::size_t gradient = text.find(" dv[b, j, h, d] = ");
  const std::string tensors = text.substr(0, mask);
  return {tensors, text.substr(mask, start - mask), text.substr(start, gradient - start),
          text.substr(gradient)};
}

std::string tensors_of_second(const std::string& tensors) {
  const std::size_t mask = tensors.find(" temp mask");
  return second(tensors.substr(0, mask) + tensors.substr(tensors.find('\n', mask) + 1));
}

// The layers of a model: the gradient of the last one is computed first.
TEST(AttentionOrderTest, LayersAreNested) {
  const Parts one = parts_of(training());
  const std::string body = one.tensors + tensors_of_second(one.tensors) + one.mask + one.forward +
                           second(one.forward) + second(one.backward) + one.backward;
  const std::string each = found_in(training());
  const std::size_t gradient = each.find("backward");
  const std::string passes[] = {each.substr(0, gradient), each.substr(gradient)};
  EXPECT_EQ(found_in(body), passes[0] + passes[0] + passes[1] + passes[1]);
}

// The query of the second attention is where the gradient of the first one is later: if its scores are computed before
// the gradient, and the rest after it, then either call may run alone at its place, but not both.
TEST(AttentionOrderTest, AttentionMustNotUseWhatOtherAttentionMoves) {
  const Parts one = parts_of(training());
  const std::string forward2 = second(one.forward);
  const std::size_t scores = forward2.find('\n') + 1;
  const std::size_t last = one.backward.rfind(" dq[");
  std::string body = one.tensors + tensors_of_second(one.tensors) + one.mask + one.forward +
                     forward2.substr(0, scores) + one.backward.substr(0, last) + forward2.substr(scores) +
                     one.backward.substr(last);
  for (const char* unused : {"g2", "dq2", "dk2", "dv2"}) {
    const std::size_t at = body.find(std::string(" arg ") + unused);
    body.erase(at, body.find('\n', at) + 1 - at);
  }
  const std::string each = found_in(training());
  const std::string apart = found_in(body);
  EXPECT_EQ(apart.find("attention not"), std::string::npos) << apart;
  const std::string same =
      changed(body, {{" arg dq : bf16[3, 32, 2, 16] out\n", " arg x : bf16[3, 32, 2, 16] in\n"},
                     {" arg q2 : bf16[3, 32, 2, 16] in\n",
                      " temp t : bf16[3, 32, 2, 16]\n arg y : bf16[3, 32, 2, 16] out\n"},
                     {" mask[i, j] = ", " t[b, i, h, d] = x[b, i, h, d]\n mask[i, j] = "},
                     {"q2[", "t["},
                     {" dq[", " t["}}) +
      " y[b, i, h, d] = t[b, i, h, d]\n";
  const std::size_t gradient = each.find("backward");
  EXPECT_EQ(found_in(same), each.substr(0, gradient) +
                                "attention not by dnn: other attention uses the memory of an operand\n" +
                                each.substr(gradient));
}

// Attention in a repeat block, in which `first` runs before it.
std::string repeat_of(const std::string& first) {
  const std::string start = " s[b, h, i, j] = sum";
  const std::string repeat = " top[b, h, i] = 0.0\n repeat r in 0..4 {\n" + first;
  return changed(forward(), {{" temp mask", " arg seen : f32[3, 2, 32] out\n temp mask"},
                             {start, " seen[b, h, i] = 0.0\n" + repeat + start},
                             {kLast, std::string(kLast) + " }\n"}});
}

TEST(AttentionOrderTest, NextRoundMustNotReadScores) {
  EXPECT_EQ(found_in(repeat_of("")), found_in(forward()));
  expect_refused(repeat_of(" seen[b, h, i] = top[b, h, i]\n"), {{{}, "the repeat block reads its scores"}});
}

TEST(AttentionOrderTest, HeadsMustNotShareValues) {
  expect_refused(forward(),
                 {{{{"v : bf16[3, 32, 2, 16]", "v : bf16[3, 32, 1, 16]"}, {"v[b, j, h, d]", "v[b, j, 0, d]"}},
                   "heads share elements, or a tensor is too large"}});
}

}  // namespace
}  // namespace yoke::codegen::attention_programs
