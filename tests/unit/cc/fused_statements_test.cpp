// SPDX-License-Identifier: Apache-2.0
// tests/unit/cc/fused_statements_test.cpp: loops, targets and roundings of statements that share a kernel.
#include <gtest/gtest.h>

#include <string>

#include "harness.h"

namespace yoke::cc::test {
namespace {

// A program with the same statements, each in a kernel of its own.
program::Program without_hints(program::Program program) {
  for (program::Statement& statement : program.statements) {
    statement.hint = -1;
  }
  return program;
}

// Checks that fused statements write the same bits as single ones.
void expect_same_bits_as_alone(const std::string& text) {
  const conformance::Case one = case_of(text);
  const std::vector<Guarded> start = start_of(one);
  const std::vector<Guarded> expected =
      run_guarded(compile(without_hints(one.program), 1, nullptr, 0), start, {});
  EXPECT_TRUE(same_bytes(expected, run_guarded(compile(one.program, 1, nullptr, 0), start, {}))) << text;
}

// All reads could step through one long loop, but one target could not.
TEST(FusedStatementsTest, LoopsAreMergedOnlyIfAllTargetsAllowIt) {
  for (const std::string target : {"z[40*i + j]", "z[29 - i, 39 - j]"}) {
    const std::string dims = target.find(',') == std::string::npos ? "[1400]" : "[30, 40]";
    const std::string text = text_of("  arg x : f32[30, 30] in\n  arg y : f32[30, 30] out\n  arg z : f32" +
                                     dims + " inout\n  @group {\n    y[i, j] = x[i, j] + 1\n    " + target +
                                     " for[i:30, j:30] = x[i, j] * 2\n  }\n");
    EXPECT_EQ(notes_of(text)[0], "tile kernel, one of 2 fused statements");
    expect_like_reference(text, 1);
  }
}

// Loops are merged without regard to a target that no statement reads. Storing it would write to other memory.
TEST(FusedStatementsTest, TargetsThatNoStatementReadsAreNotStored) {
  const std::string text = text_of(
      "  arg x : f32[30, 30] in\n  arg y : f32[30, 30] out\n  temp t : f32[30, 40]\n  @group {\n"
      "    t[i, j] for[i:30, j:30] = x[i, j] * 2\n    y[i, j] = x[i, j] + 1\n  }\n");
  EXPECT_EQ(notes_of(text)[0], "tile kernel, one of 2 fused statements, result stays in registers");
  EXPECT_EQ(compile(read(text))->temp_offset[2], CompiledProgram::kNotInMemory);
  expect_like_reference(text, 1);
}

TEST(FusedStatementsTest, OnlyStatementsWithAllLoopsButOneAreRowValues) {
  expect_like_reference(text_of("  arg x : f32[6, 60, 40] in\n  arg v : f32[6] in\n  arg r : f32[6] inout\n"
                                "  arg y : f32[6, 60, 40] out\n  @group {\n    r[i] += v[i]\n"
                                "    y[i, j, k] = x[i, j, k] * 2\n  }\n"),
                        1, {.kind = conformance::DataKind::kDyadic});
}

TEST(FusedStatementsTest, ScattersWithoutLoopsRunAlone) {
  expect_like_reference(
      text_of("  arg e : i32[1] in\n  arg s : f32[] out\n  arg t : f32[4] inout\n  @group {\n"
              "    s[] = 3\n    t[e[0]] += 2\n  }\n"),
      1, {.kind = conformance::DataKind::kUnit});
}

// The next statement reads the value from a register, which has more bits than memory.
TEST(FusedStatementsTest, AccumulatedValuesAreRoundedBeforeTheyAreRead) {
  for (const std::string type : {"f16", "bf16"}) {
    for (const std::string assign : {"+=", "*=", "max="}) {
      const std::string text = text_of("  arg x : " + type + "[100] in\n  arg t : " + type +
                                       "[100] inout\n  arg y : f32[100] out\n  @group {\n    t[i] " + assign +
                                       " x[i]\n    y[i] = f32(t[i])\n  }\n");
      EXPECT_EQ(notes_of(text)[0], "tile kernel, one of 2 fused statements");
      expect_same_bits_as_alone(text);
    }
  }
}

}  // namespace
}  // namespace yoke::cc::test
