// SPDX-License-Identifier: Apache-2.0
// tests/codegen_resources/attention_test.cpp: the attention of gpt's programs is found.
#include <gtest/gtest.h>
#include <yoke/program/text.h>

#include <optional>
#include <string>
#include <vector>

#include "codegen.h"
#include "model_programs.h"

namespace yoke::codegen::test {
namespace {

class Recorder final : public VendorLibrary<LibraryAttention> {
 public:
  const char* name() const override { return "dnn"; }
  bool is_available() override { return true; }
  std::optional<std::uint64_t> workspace_for(const LibraryAttention& call) override {
    all.push_back(call);
    return 0;
  }
  std::vector<LibraryAttention> all;
};

// Tensors of scores: [rows, heads, queries, keys].
bool has_scores(const program::Program& program, const Launch& launch) {
  for (const std::uint32_t statement : launch.statements) {
    const program::Tensor& target = program.tensors[program.statements[statement].target.tensor];
    if (target.dims == std::vector<std::uint64_t>{8, 4, 64, 64}) {
      return true;
    }
  }
  return false;
}

TEST(AttentionOfGptTest, EachLayerOfTrainingIsTwoCalls) {
  for (const bool is_f16 : {false, true}) {
    std::size_t calls = 0;
    for (const std::string& text : gpt_programs(is_f16)) {
      for (const program::Program& program : program::parse_and_verify(text).programs) {
        Recorder recorder;
        const Plan plan = generate(program, Target{}, {.attentions = &recorder});
        for (const Launch& launch : plan.launches) {
          EXPECT_EQ(launch.remark.find("attention not by"), std::string::npos) << launch.remark;
          EXPECT_TRUE(launch.attention || !has_scores(program, launch))
              << program.name << ": a kernel computes scores";
          calls += launch.attention ? 1U : 0U;
        }
        for (const LibraryAttention& call : recorder.all) {
          EXPECT_TRUE(call.is_causal && call.has_statistics);
          EXPECT_EQ(call.type, is_f16 ? program::Type::kF16 : program::Type::kBF16);
          EXPECT_FLOAT_EQ(call.scale, 0.17677669F);
          EXPECT_EQ(call.volumes[0].dims, (std::array<std::uint64_t, 4>{8, 4, 64, 32}));
          EXPECT_EQ(call.volumes[3].strides, (std::array<std::uint64_t, 4>{8192, 32, 128, 1}));
        }
      }
    }
    EXPECT_EQ(calls, 2 * 4U) << "of 4 layers";
  }
}

TEST(AttentionOfGptTest, FusedKernelsStoreNoScores) {
  Target target;
  target.capability = 80;
  target.fused_attention = true;
  std::size_t launches = 0;
  for (const std::string& text : gpt_programs(false)) {
    for (const program::Program& program : program::parse_and_verify(text).programs) {
      for (const Launch& launch : generate(program, target).launches) {
        const bool is_fused = launch.remark.starts_with("by yoke's kernels: causal");
        EXPECT_TRUE(is_fused || !has_scores(program, launch)) << program.name << ": a kernel stores scores";
        launches += is_fused ? 1U : 0U;
      }
    }
  }
  EXPECT_EQ(launches, 4 * (1 + 3U)) << "of 4 layers";
}

}  // namespace
}  // namespace yoke::codegen::test
