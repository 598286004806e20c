// SPDX-License-Identifier: Apache-2.0
// tests/unit/codegen/atomic_scatter_test.cpp: scatters by atomic additions, which are off by default.
#include <gtest/gtest.h>

#include "harness.h"

namespace yoke::codegen::test {
namespace {

struct AtomicScatter {
  const char* name;
  bool is_deterministic;
  int atomics;
  const char* text;
};

class AtomicScatterTest : public testing::TestWithParam<AtomicScatter> {};

TEST_P(AtomicScatterTest, MatchesTheReferenceAndIsOff) {
  SKIP_WITHOUT_COMPILER();
  const conformance::Case one = case_of(std::string("yoke.program 1\nprogram p") + GetParam().text);
  Target target;
  target.capability = 80;
  const auto atomics_of = [](const Plan& plan) {
    int count = 0;
    for (std::size_t at = plan.source.find("atomicAdd("); at != std::string::npos;
         at = plan.source.find("atomicAdd(", at + 1)) {
      ++count;
    }
    return count;
  };
  const Plan ordered = generate(one.program, target);
  EXPECT_EQ(atomics_of(ordered), 0) << "atomics are off by default";
  EXPECT_TRUE(ordered.is_deterministic);
  target.atomics = true;
  const Plan plan = generate(one.program, target);
  EXPECT_EQ(atomics_of(plan), GetParam().atomics) << plan.source;
  EXPECT_EQ(plan.is_deterministic, GetParam().is_deterministic);
  check_cases({&one, 1}, target);
}

constexpr AtomicScatter kAtomicScatters[] = {
    {"FloatsInAnyOrder", false, 2, R"(() {
  arg words : i32[9, 70] in
  arg d : f32[9, 70, 20] in
  arg table : f32[50, 20] inout
  arg exact : f64[50] inout
  table[words[b, t], k] += d[b, t, k] * 0.1
  exact[words[b, t]] += sum[k] f64(d[b, t, k])
})"},
    {"IntegersHaveTheSameBits", true, 3, R"(() {
  arg words : i32[9, 70] in
  arg long : i64[50] inout
  arg short : i32[50] inout
  arg positive : u32[50] inout
  long[words[b, t]] += i64(words[b, t]) - 7
  short[words[b, t]] += i32(t) - 60
  positive[words[b, t]] += u32(t)
})"},
    // Types without atomics, other operations, values that read the target.
    {"OthersKeepTheirOrder", true, 0, R"(() {
  arg words : i32[90] in
  arg d : f32[90] in
  arg bytes : u8[50] inout
  arg halves : f16[50] inout
  arg best : f32[50] inout
  arg product : f32[50] inout
  bytes[words[b]] += 1
  halves[words[b]] += f16(d[b])
  best[words[b]] max= d[b]
  product[words[b]] *= d[b]
})"},
    // Without atomics, these updates run one after another in each column.
    {"MoreUpdatesThanOwnersCanSearch", false, 1, R"(() {
  arg words : i32[140000] in
  arg table : f32[5, 2] inout
  table[words[b], k] += f32(b % 7) * 0.125
})"},
    {"AnIndexPerElement", false, 1, R"(() {
  arg at : i64[24] in
  arg to : i32[7] in
  arg x : f32[7, 24] in
  arg y : f32[24, 40, 5] inout
  y[i, at[i], to[j]] += x[j, i]
})"},
};

INSTANTIATE_TEST_SUITE_P(Examples, AtomicScatterTest, testing::ValuesIn(kAtomicScatters),
                         [](const auto& example) { return example.param.name; });

}  // namespace
}  // namespace yoke::codegen::test
