// SPDX-License-Identifier: Apache-2.0
// tests/unit/codegen/library_attention_test.cpp: which statements are attention for a library of the vendor.
#include <gtest/gtest.h>
#include <yoke/program/text.h>

#include <string>
#include <vector>

#include "attention_programs.h"

namespace yoke::codegen::attention_programs {
namespace {

TEST(LibraryAttentionTest, ForwardPassAndGradientAreOneCallEach) {
  EXPECT_EQ(found_in(training()), "forward bf16 scale 0.2500 causal statistics" + repeated(kVolume, 4) +
                                      "\nbackward bf16 scale 0.2500 causal statistics" +
                                      repeated(kVolume, 8) + "\n");
  EXPECT_EQ(found_in(forward()), "forward bf16 scale 0.2500 causal" + repeated(kVolume, 4) + "\n");
}

TEST(LibraryAttentionTest, OnlyTheMaskIsComputedByAKernel) {
  Recorder recorder;
  recorder.workspace = 1000;
  const Plan plan = plan_of(training(), recorder);
  ASSERT_EQ(plan.launches.size(), 3U);
  EXPECT_EQ(plan.launches[0].statements, (std::vector<std::uint32_t>{0}));
  EXPECT_EQ(plan.launches[1].statements, (std::vector<std::uint32_t>{1, 2, 3, 4, 5, 6, 7}));
  EXPECT_EQ(plan.launches[2].statements, (std::vector<std::uint32_t>{8, 9, 10, 11, 12, 13, 14, 15}));
  EXPECT_EQ(plan.launches[1].remark, "by dnn: causal attention, 6 heads of 16, 32 queries, 32 keys");
  EXPECT_EQ(plan.launches[2].remark,
            "by dnn: causal gradient of attention, 6 heads of 16, 32 queries, 32 keys");
  // Mask, statistics, and the workspaces of the library: no scores.
  EXPECT_EQ(plan.workspace_byte_count, 1024U + 768U + 1024U);
}

// The program itself uses the result only before the gradient.
TEST(LibraryAttentionTest, ResultIsKeptForTheGradient) {
  Recorder recorder;
  const std::string result = " arg o : bf16[3, 32, 2, 16] out\n";
  const std::string body =
      changed(training(), {{result,
                            " arg y : bf16[3, 32, 2, 16] out\n arg z : bf16[3, 32, 2, 16] out\n temp o : "
                            "bf16[3, 32, 2, 16]\n temp x : bf16[3, 32, 2, 16]\n"},
                           {" dv[b, j, h, d] = sum",
                            " y[b, i, h, d] = o[b, i, h, d]\n x[b, i, h, d] = y[b, 31 - i, h, d]\n"
                            " z[b, i, h, d] = x[b, 31 - i, h, d]\n dv[b, j, h, d] = sum"}});
  const Plan plan = plan_of(body, recorder);
  // The mask, the statistics, and both temporaries, of 6 KiB each.
  EXPECT_EQ(plan.workspace_byte_count, 1024U + 768U + 2 * 6144U);
  EXPECT_TRUE(plan.launches.back().attention);
}

TEST(LibraryAttentionTest, FormulasMayBeWrittenOtherwise) {
  const std::string usual = found_in(training());
  const std::vector<std::vector<Change>> equal = {
      // The mask in place, and without the temporary of its bits.
      {{"select(mask[i, j], 0.25", "select(j <= i, 0.25"}, {"select(mask[i, j], (", "select(i >= j, ("}},
      // The gradient of hidden scores is 0 without a mask, because their weights are.
      {{"select(mask[i, j], (df", "((df"}, {"e[b, h, i, j], 0) * 0.25", "e[b, h, i, j]) * 0.25"}},
      // The weights of the gradient are those of the forward pass.
      {{"df[b, h, i, j] * (e[b, h, i, j] / total[b, h, i])", "df[b, h, i, j] * f32(w[b, h, i, j])"}},
      // The scale after the mask.
      {{"select(mask[i, j], 0.25 * f32(s[b, h, i, j]), -1.7e+38)",
        "0.25 * select(mask[i, j], f32(s[b, h, i, j]), -inf)"}},
      // The sums before the division.
      {{"df[b, h, i, j] * (e[b, h, i, j] / total[b, h, i])", "df[b, h, i, j] * e[b, h, i, j]"},
       {"-(rows[b, h, i] / total[b, h, i])", "-rows[b, h, i] / total[b, h, i] / total[b, h, i]"}},
      // Scores and gradients of weights that are not rounded.
      {{" temp s : bf16", " temp s : f32"}, {"f32(s[b, h, i, j])", "s[b, h, i, j]"}},
      {{" temp dw : bf16", " temp dw : f32"}, {"= f32(dw[b, h, i, j])", "= dw[b, h, i, j]"}}};
  for (const std::vector<Change>& changes : equal) {
    EXPECT_EQ(found_in(changed(training(), changes)), usual) << changes[0].to;
  }
}

TEST(LibraryAttentionTest, ShapesTypesScalesAndMasksAreThoseOfTheProgram) {
  EXPECT_EQ(found_in(changed(forward(), {{"bf16", "f16"}, {"0.25", "3.0"}})),
            "forward f16 scale 3.0000 causal" + repeated(kVolume, 4) + "\n");
  // No scale, and no mask.
  EXPECT_EQ(found_in(changed(forward(), {{"select(mask[i, j], 0.25 * f32(s[b, h, i, j]), -1.7e+38)",
                                          "f32(s[b, h, i, j])"}})),
            "forward bf16 scale 1.0000" + repeated(kVolume, 4) + "\n");
  // Other keys than queries, values of another size, and heads that are not interleaved.
  EXPECT_EQ(found_in(changed(forward(), {{"k : bf16[3, 32, 2, 16]", "k : bf16[3, 48, 2, 16]"},
                                         {"v : bf16[3, 32, 2, 16]", "v : bf16[3, 2, 48, 24]"},
                                         {"v[b, j, h, d]", "v[b, h, j, d]"},
                                         {"o : bf16[3, 32, 2, 16]", "o : bf16[3, 32, 2, 24]"},
                                         {"[3, 2, 32, 32]", "[3, 2, 32, 48]"},
                                         {"[32, 32]", "[32, 48]"}})),
            "forward bf16 scale 0.2500 causal 3,2,32,16/1024,16,32,1 3,2,48,16/1536,16,32,1 "
            "3,2,48,24/2304,1152,24,1 3,2,32,24/1536,24,48,1\n");
  // One tensor for query, key and value, and a result whose heads are joined.
  EXPECT_EQ(found_in(changed(forward(),
                             {{" arg q : bf16[3, 32, 2, 16] in\n", " arg q : bf16[3, 32, 3, 2, 16] in\n"},
                              {"q[b, i, h, d]", "q[b, i, 0, h, d]"},
                              {"k[b, j, h, d]", "q[b, j, 1, h, d]"},
                              {"v[b, j, h, d]", "q[b, j, 2, h, d]"},
                              {"o : bf16[3, 32, 2, 16]", "o : bf16[3, 32, 32]"},
                              {"o[b, i, h, d]", "o[b, i, 16*h + d]"}})),
            "forward bf16 scale 0.2500 causal 3,2,32,16/3072,16,96,1 3,2,32,16/3072,16,96,1@32 "
            "3,2,32,16/3072,16,96,1@64 3,2,32,16/1024,16,32,1\n");
}

TEST(LibraryAttentionTest, BatchMayBeMissing) {
  const std::string one =
      changed(training(), {{"[3, 32, ", "[32, "}, {"[3, 2, 32", "[2, 32"}, {"[b, ", "["}});
  const std::string volume = " 1,2,32,16/1024,16,32,1";
  EXPECT_EQ(found_in(one), "forward bf16 scale 0.2500 causal statistics" + repeated(volume.c_str(), 4) +
                               "\nbackward bf16 scale 0.2500 causal statistics" +
                               repeated(volume.c_str(), 8) + "\n");
}

TEST(LibraryAttentionTest, OtherFormulasAreLeftToKernels) {
  const std::string loop = "select(mask[i, j], 0.25 * f32(s[b, h, i, j]), -1.7e+38)";
  const std::string weights = "bf16(e[b, h, i, j] / total[b, h, i])";
  expect_refused(
      forward(),
      {{{{"i >= j", "i > j"}}, "it does not compute 'e["},
       {{{"i >= j", "i <= j"}}, "it does not compute 'e["},
       {{{"mask[i, j] = i >= j", "mask[i, j] = i >= j\n mask[0, j] = true"}}, "it does not compute 'e["},
       {{{"i >= j", "i > j"}, {" o[b, i, h, d] = ", " mask[i, j] = i >= j\n o[b, i, h, d] = "}},
        "it does not compute 'e["},
       {{{"exp(e[b, h, i, j] - ", "exp(select(mask[i, j], 0.25 * f32(s[b, h, i, j]), 0) - "}},
        "it does not compute 'e["},
       {{{"-1.7e+38", "-65504.0"}}, "it does not compute 'top["},
       {{{loop, "select(mask[i, j], 0.25 * f32(s[b, h, i, j]), 0)"}}, "it does not compute 'top["},
       {{{"0.25 * f32", "-0.25 * f32"}}, "it does not compute 'top["},
       {{{loop, loop + " + f32(g[b, i, h, 0])"}}, "it does not compute 'e["},  // a bias
       {{{loop, "f32(g[b, i, h, 0]) * " + loop}}, "it does not compute 'e["},  // a scale that is not known
       {{{"max[j]", "min[j]"}}, ""},
       {{{"exp(", "exp2("}}, "it does not compute 'e["},
       {{{"exp(e[b, h, i, j] - top[b, h, i])", "exp(2.0 * e[b, h, i, j] - top[b, h, i])"}},
        "it does not compute 'e["},
       {{{"exp(e[b, h, i, j] - top[b, h, i])", "exp(e[b, h, i, j])"}}, "it does not compute 'e["},
       {{{weights, "bf16(e[b, h, i, j] / total[b, h, i] * f32(g[b, i, h, 0]))"}},
        "it does not compute 'w["},  // dropout
       {{{weights, "bf16(e[b, h, i, j])"}}, "it does not compute 'w["},
       {{{weights, "bf16(e[b, h, j, i] / total[b, h, i])"}}, "it does not compute 'w["},
       {{{"f32(q[b, i, h, d]) * f32(k[b, j, h, d])", "f32(q[b, i, h, d]) * f32(k[b, j, h, d]) * 0.5"}}, ""},
       {{{"f32(v[b, j, h, d])\n", "f32(v[b, i, h, d])\n"}}, "it does not compute 'o["},
       {{{"f32(w[b, h, i, j])", "f32(w[b, h, j, i])"}}, "it does not compute 'o["},
       {{{"o[b, i, h, d] = ", "o[b, i, h, d] += "},
         {"o : bf16[3, 32, 2, 16] out", "o : bf16[3, 32, 2, 16] inout"}},
        "it does not compute 'o["}});
}

TEST(LibraryAttentionTest, OtherGradientsAreLeftToKernels) {
  expect_refused(training(),
                 {{{{"e[b, h, i, j], 0) * 0.25", "e[b, h, i, j], 0) * 0.5"}}, "it does not compute 'ds["},
                  {{{"e[b, h, i, j], 0) * 0.25", "e[b, h, i, j], 1) * 0.25"}}, "it does not compute 'dk["},
                  {{{"part[b, h, i, 0]", "part[b, h, i, 0] * 2.0"}}, "it does not compute 'ds["},
                  {{{"sum[j] df", "max[j] df"}}, "it does not compute 'rows["},
                  {{{"f32(g[b, i, h, d]) * f32(v[b, j, h, d])", "f32(g[b, j, h, d]) * f32(v[b, i, h, d])"}},
                   "it does not compute"},
                  {{{"f32(ds[b, h, i, j]) * f32(q[b, i, h, d])", "f32(ds[b, h, i, j]) * f32(g[b, i, h, d])"}},
                   "it does not compute 'dk["},
                  {{{"f32(ds[b, h, i, j]) * f32(k[b, j, h, d])", "f32(ds[b, h, i, j]) * f32(v[b, j, h, d])"}},
                   "it does not compute 'dq["},
                  {{{" dq[b, i, h, d] = sum:f32[j] f32(ds[b, h, i, j]) * f32(k[b, j, h, d])\n", ""},
                    {" arg dq : bf16[3, 32, 2, 16] out\n", ""}},
                   "a part of the gradient is missing"}});
}

TEST(LibraryAttentionTest, ScoresThatAreUsedOtherwiseStay) {
  const std::string out = " arg seen : f32[3, 2, 32] out\n";
  const std::string last = " o[b, i, h, d] = sum:f32[j] f32(w[b, h, i, j]) * f32(v[b, j, h, d])\n";
  const auto after = [&](const std::string& more) {
    return std::vector<Change>{{" temp mask", out + " temp mask"}, {last, last + more}};
  };
  expect_refused(forward(),
                 {{after(" seen[b, h, i] = f32(w[b, h, i, 0])\n"), "it does not compute 'seen["},
                  {after(" seen[b, h, i] = top[b, h, i]\n"), "it does not compute 'seen["},
                  {after(" seen[b, h, i] = sum[j] f32(w[b, h, i, j])\n"), "it does not compute 'seen["},
                  {after(" seen[b, h, i] = 0\n total[b, h, i] += 1.0\n"), "it does not compute 'total["},
                  {{{" temp total", " arg total"}, {"total : f32[3, 2, 32]", "total : f32[3, 2, 32] out"}},
                   "it does not compute 'total["}});
  // A temporary that is used for something else later is none.
  EXPECT_EQ(found_in(changed(forward(), after(" top[b, h, i] = 2.0\n seen[b, h, i] = top[b, h, i]\n"))),
            found_in(forward()));
}

TEST(LibraryAttentionTest, MemoryOfOperandsMustNotChangeBeforeTheCall) {
  const std::string scores = " s[b, h, i, j] = sum";
  const std::string weights = " w[b, h, i, j] = bf16";
  const std::string rows = " rows[b, h, i] = sum";
  const std::string dv = " dv[b, j, h, d] = sum";
  const std::string q = " q[b, i, h, d] = q[b, i, h, d] + q[b, i, h, d]\n";
  expect_refused(
      training(),
      {{{{"q : bf16[3, 32, 2, 16] in", "q : bf16[3, 32, 2, 16] inout"}, {weights, q + weights}},
        "other statements use the memory of an operand"},
       {{{"q : bf16[3, 32, 2, 16] in", "q : bf16[3, 32, 2, 16] inout"}, {rows, q + rows}},
        "other statements use the memory of an operand"},
       {{{dv, " o[b, i, h, d] = o[b, i, h, d] + o[b, i, h, d]\n" + dv}},
        "other statements use the memory of an operand"},
       {{{rows, " dk[b, j, h, d] = g[b, j, h, d]\n" + rows}},
        "other statements use the memory of an operand"},
       {{{"dq : bf16[3, 32, 2, 16] out\n", "dq : bf16[3, 32, 2, 16] out\n arg c : bf16[3, 32, 2, 16] out\n"},
         {rows, " dq[b, i, h, d] = q[b, i, h, d]\n c[b, i, h, d] = dq[b, i, h, d]\n" + rows}},
        "other statements use the memory of an operand"},
       {{{" arg q : bf16[3, 32, 2, 16] in", " arg q : bf16[3, 32, 2, 16] inout"},
         {" arg dq : bf16[3, 32, 2, 16] out\n", ""},
         {"dq[b, i, h, d]", "q[b, i, h, d]"}},
        "a result has the memory of an operand"}});
  // The value may be computed after the scores, and the statistics may be where something else was before.
  EXPECT_EQ(
      found_in(changed(training(),
                       {{" arg v : bf16[3, 32, 2, 16] in\n", " temp v : bf16[3, 32, 2, 16]\n"},
                        {" o[b, i, h, d]", " v[b, j, h, d] = g[b, j, h, d] + k[b, j, h, d]\n o[b, i, h, d]"},
                        {scores, " total[b, h, i] = 1.0\n top[b, h, i] = total[b, h, i]\n" + scores}})),
      found_in(training()));
}

TEST(LibraryAttentionTest, VolumesMustFitTheLibrary) {
  expect_refused(
      forward(),
      {{{{"bf16(e", "(e"},
         {"bf16", "f32"},
         {"f32(s[b, h, i, j])", "s[b, h, i, j]"},
         {"f32(q[b, i, h, d]) * f32(k[b, j, h, d])", "q[b, i, h, d] * k[b, j, h, d]"},
         {"f32(w[b, h, i, j]) * f32(v[b, j, h, d])", "w[b, h, i, j] * v[b, j, h, d]"}},
        ""},  // f32 is never taken
       {{{"q : bf16", "q : f16"}}, ""},
       {{{"v : bf16", "v : f16"}}, "it does not compute 'o["},
       {{{"o : bf16", "o : f32"}}, "it does not compute 'o["},
       {{{"q : bf16[3, 32, 2, 16]", "q : bf16[3, 32, 40]"}, {"q[b, i, h, d]", "q[b, i, 20*h + d]"}},
        "a tensor is misaligned"},
       {{{"q : bf16[3, 32, 2, 16]", "q : bf16[3, 32, 2, 24]"}, {"q[b, i, h, d]", "q[b, i, h, d + 4]"}},
        "a tensor is misaligned"},
       {{{"v : bf16[3, 32, 2, 16]", "v : bf16[3, 2, 16, 32]"}, {"v[b, j, h, d]", "v[b, h, d, j]"}},
        "the elements of a head are not neighbors"},
       {{{"k : bf16[3, 32, 2, 16]", "k : bf16[3, 32, 1, 16]"}, {"k[b, j, h, d]", "k[b, j, 0, d]"}}, ""}});
  const std::string symbols = changed(forward(), {{"q : bf16[3, 32, 2, 16]", "q : bf16[9, 32, 2, 16]"},
                                                  {"q[b, i, h, d]", "q[b + first, i, h, d]"}});
  const std::string text = "yoke.program 1\nprogram p(symbol first in 0..6 step 3) {\n" + symbols + "}\n";
  Recorder recorder;
  const Plan plan =
      generate(program::parse_and_verify(text).programs.at(0), Target{}, {.attentions = &recorder});
  for (const Launch& launch : plan.launches) {
    EXPECT_FALSE(launch.attention) << launch.remark;
  }
}

TEST(LibraryAttentionTest, LibraryThatLacksTheGradientComputesNothing) {
  Recorder recorder;
  recorder.has_backward = false;
  EXPECT_EQ(found_in(training(), recorder), "attention not by dnn: it does not support the attention\n");
  EXPECT_NE(found_in(forward(), recorder), "");
}

}  // namespace
}  // namespace yoke::codegen::attention_programs
