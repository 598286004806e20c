// SPDX-License-Identifier: Apache-2.0
// tests/unit/codegen/elementwise_test.cpp: which elementwise statements share kernels, and their results.
#include <gtest/gtest.h>
#include <yoke/program/text.h>

#include <ostream>

#include "generator.h"
#include "harness.h"
#include "printer.h"

namespace yoke::codegen::test {
namespace {

// A program whose results must match, and the number of its launches.
struct Example {
  const char* name;
  std::size_t launches;
  const char* text;
};

std::ostream& operator<<(std::ostream& out, const Example& example) {
  return out << example.name;
}

class ElementwiseTest : public testing::TestWithParam<Example> {};

TEST_P(ElementwiseTest, MatchesTheReferenceInTheExpectedLaunches) {
  SKIP_WITHOUT_COMPILER();
  const std::string text = std::string("yoke.program 1\nprogram p") + GetParam().text;
  const conformance::Case one = case_of(text);
  check_cases({&one, 1});
  EXPECT_EQ(generate(one.program, Target{}).launches.size(), GetParam().launches) << launches_of(text);
}

constexpr Example kExamples[] = {
    {"RowsAndTail", 1, R"(() {
  arg x : f32[7, 37] in
  arg y : f32[7, 37] out
  y[i, j] = x[i, j] * 2.0
})"},
    {"Broadcast", 1, R"(() {
  arg x : f32[5, 36] in
  arg b : f32[36] in
  arg s : f32[5] in
  arg y : f32[5, 36] out
  y[i, j] = (x[i, j] + b[j]) * s[i]
})"},
    {"BroadcastOverOddRows", 1, R"(() {
  arg x : f32[5, 35] in
  arg b : f32[35] in
  arg y : f32[5, 35] out
  y[i, j] = x[i, j] + b[j]
})"},
    {"MixedTypes", 1, R"(() {
  arg x : bf16[1003] in
  arg m : bool[1003] in
  arg y : f32[1003] inout
  arg z : f16[1003] out
  y[i] += select(m[i], f32(x[i]), 0.5)
  z[i] = f16(y[i]) * f16(x[i])
})"},
    {"SymbolsMoveTheStart", 1, R"((symbol row in 3..9) {
  arg x : f32[20, 8] in
  arg y : f32[4, 8] out
  y[i, j] = exp(x[row + i, j])
})"},
    {"PartsOfATensor", 3, R"(() {
  arg x : f32[64] in
  arg y : f32[64] out
  y[i + 3] for[i:40] = x[i]
  y[i] for[i:3] = 1.0
  y[i + 43] for[i:21] = y[i]
})"},
    {"Transposed", 1, R"(() {
  arg x : f32[12, 40] in
  arg y : f32[40, 12] out
  y[j, i] = x[i, j]
})"},
    {"TransposedWithBatch", 1, R"(() {
  arg x : f16[3, 45, 70] in
  arg s : f32[2, 70] in
  arg y : f32[3, 70, 45] inout
  arg z : f32[3, 70, 45] out
  y[b, j, i] += f32(x[b, i, j]) * s[1, j]
  z[b, j, i] = y[b, j, i] * f32(x[b, i, j])
})"},
    {"TransposedMiddle", 1, R"((symbol row in 1..3) {
  arg x : u8[4, 33, 5, 40] in
  arg y : u8[40, 5, 33] out
  y[j, k, i] = x[row, i, k, j]
})"},
    {"GatherAndPadding", 1, R"(() {
  arg t : f32[10, 16] in
  arg w : i32[6] in
  arg y : f32[6, 16] out
  arg z : f32[6, 16] out
  y[b, d] = (t[w[b], d] else 0)
  z[b, d] = y[b, d] + (t[b, d - 2] else -1.0) * f32(d)
})"},
    {"ChainInRegisters", 1, R"(() {
  arg x : f32[999] in
  arg y : f32[999] out
  temp a : f32[999]
  temp b : f32[999]
  a[i] = x[i] * x[i]
  b[i] = a[i] + 1.0
  b[i] *= a[i]
  y[i] = sqrt(b[i])
})"},
    {"ShiftedReadsAreNotFused", 2, R"(() {
  arg x : f32[100] in
  arg y : f32[99] out
  temp a : f32[100]
  a[i] = x[i] * x[i]
  y[i] = a[i + 1] - a[i]
})"},
    {"OverwrittenInputIsReadFirst", 2, R"(() {
  arg x : f32[100] inout
  arg y : f32[99] out
  y[i] = x[i + 1] - x[i]
  x[i] = 0
})"},
    {"Wide", 1, R"(() {
  arg y : i64[70, 3] out
  y[i, j] = i * 3000000000 + j
})"},
    {"UpdatesOfThreeTensors", 2, R"((symbol step in 1..1000) {
  arg rate : f32[] in
  arg da : f32[30, 17] in
  arg a : f32[30, 17] inout
  arg ma : f32[30, 17] inout
  arg db : f32[17] in
  arg b : f32[17] inout
  arg mb : f32[17] inout
  arg dc : f32[5000] in
  arg c : f32[5000] inout
  arg mc : f32[5000] inout
  temp scale : f32[]
  scale[] = rate[] / -expm1(f32(step) * log(0.9))
  ma[i, j] = 0.9 * ma[i, j] + 0.1 * da[i, j]
  a[i, j] = a[i, j] - scale[] * ma[i, j]
  mb[i] = 0.9 * mb[i] + 0.1 * db[i]
  b[i] = b[i] - scale[] * mb[i]
  mc[i] = 0.9 * mc[i] + 0.1 * dc[i]
  c[i] = c[i] - scale[] * mc[i]
})"},
    {"RepeatedRounds", 2, R"(() {
  arg x : f32[6, 10] in
  arg h : f32[7, 10] out
  temp u : f32[10]
  h[0, i] = 0
  repeat t in 0..6 {
    u[i] = 0.5 * h[t, i]
    h[t + 1, i] = u[i] + x[t, i]
  }
})"},
};

INSTANTIATE_TEST_SUITE_P(Examples, ElementwiseTest, testing::ValuesIn(kExamples),
                         [](const auto& example) { return example.param.name; });

TEST(ElementwiseTest, RandomChainsMatchTheReference) {
  SKIP_WITHOUT_COMPILER();
  constexpr std::uint64_t kCount = 48;
  conformance::GeneratorOptions options;
  options.chains = true;
  std::vector<conformance::Case> cases;
  for (std::uint64_t i = 0; i < kCount; ++i) {
    cases.push_back(conformance::generate_case(17, i, options));
  }
  check_cases(cases);
}

TEST(ElementwiseTest, TransposesUseSharedMemory) {
  const auto source = [](const std::string& value) {
    const std::string text =
        "yoke.program 1\nprogram p() {\narg x : f32[64, 64] in\narg y : f32[64, 64] out\n";
    return generate(program::parse_and_verify(text + "y[i, j] = " + value + "\n}\n").programs[0], Target{})
        .source;
  };
  EXPECT_NE(source("x[j, i]").find("YK_SHARED float tile0"), std::string::npos);
  EXPECT_EQ(source("x[i, j]").find("YK_SHARED float tile0"), std::string::npos);
}

TEST(ElementwiseTest, UpdatesOfManyTensorsShareOneBody) {
  std::string arguments;
  std::string statements;
  for (int i = 0; i < 100; ++i) {
    const std::string n = std::to_string(i);
    const std::string type = joined({": f32[", std::to_string(i + 2), "]"});
    arguments += joined({"arg g", n, type, " in\narg w", n, type, " inout\n"});
    statements += joined({"w", n, "[i] = w", n, "[i] - 0.1 * g", n, "[i]\n"});
  }
  const program::Program program =
      program::parse_and_verify("yoke.program 1\nprogram p() {\n" + arguments + statements + "}\n")
          .programs[0];
  const Plan plan = generate(program, Target{});
  ASSERT_EQ(plan.launches.size(), 1U);
  EXPECT_EQ(plan.launches[0].slots.size(), 200U);
  const std::size_t first = plan.source.find("0x1.99999ap-4f");
  EXPECT_NE(first, std::string::npos);
  EXPECT_EQ(plan.source.find("0x1.99999ap-4f", first + 1), std::string::npos);
}

}  // namespace
}  // namespace yoke::codegen::test
