// SPDX-License-Identifier: Apache-2.0
// tests/unit/codegen/codegen_test.cpp: runs generated kernels on the CPU and compares the results with the
// reference executor.
#include <gtest/gtest.h>
#include <yoke/program/text.h>

#include <cstring>

#include "../../support/rounds.h"
#include "corpus.h"
#include "evaluate.h"
#include "generator.h"
#include "harness.h"
#include "runner.h"

namespace yoke::codegen::test {
namespace {

TEST(CodegenTest, CorpusMatchesTheReference) {
  SKIP_WITHOUT_COMPILER();
  std::vector<conformance::Case> cases;
  for (const conformance::CorpusText& text : conformance::corpus()) {
    cases.push_back(conformance::corpus_case(text.text, 7));
  }
  check_cases(cases);
}

// HIP refuses a launch of 2^32 threads.
TEST(CodegenTest, LaunchesHaveFewerThanTwoToThe32Threads) {
  Target target;
  target.dialect = Dialect::kHip;
  target.architecture = "gfx90a";
  target.warp_size = 64;
  for (const char* text : {R"(yoke.program 1
program rows() {
  arg x : bf16[134217728, 600] in
  arg y : f32[134217728] out
  y[n] = sum:f32[i] f32(x[n, i])
})",
                           R"(yoke.program 1
program elements() {
  arg x : f32[8589934592, 64] inout
  x[n, i] = x[n, i] + 1.0
})",
                           R"(yoke.program 1
program updates() {
  arg at : i32[131072] in
  arg x : f32[131072, 65536] in
  arg y : f32[1000, 65536] inout
  y[at[n], i] += x[n, i]
})"}) {
    const program::Program program = program::parse_and_verify(text).programs.at(0);
    const Plan plan = generate(program, target);
    for (const Launch& launch : plan.launches) {
      const std::uint64_t threads = plan.kernels[launch.kernel].threads;
      EXPECT_LT(launch.grid[0] * threads, std::uint64_t{1} << 32U) << launches_of(text);
    }
  }
}

class RandomProgramTest : public testing::TestWithParam<std::uint64_t> {};

TEST_P(RandomProgramTest, MatchesTheReference) {
  SKIP_WITHOUT_COMPILER();
  constexpr std::uint64_t kBatch = yoke::test::rounds(64);
  std::vector<conformance::Case> cases;
  for (std::uint64_t i = 0; i < kBatch; ++i) {
    cases.push_back(conformance::generate_case(11, GetParam() * kBatch + i));
  }
  check_cases(cases);
}

INSTANTIATE_TEST_SUITE_P(Batches, RandomProgramTest, testing::Range<std::uint64_t>(0, 8));

}  // namespace
}  // namespace yoke::codegen::test
