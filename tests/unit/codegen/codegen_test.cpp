// SPDX-License-Identifier: Apache-2.0
// tests/unit/codegen/codegen_test.cpp: runs generated kernels on the CPU and compares the results with the
// reference executor.
#include <gtest/gtest.h>
#include <yoke/program/text.h>

#include <cstring>

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

class RandomProgramTest : public testing::TestWithParam<std::uint64_t> {};

TEST_P(RandomProgramTest, MatchesTheReference) {
  SKIP_WITHOUT_COMPILER();
  constexpr std::uint64_t kBatch = 64;
  std::vector<conformance::Case> cases;
  for (std::uint64_t i = 0; i < kBatch; ++i) {
    cases.push_back(conformance::generate_case(11, GetParam() * kBatch + i));
  }
  check_cases(cases);
}

INSTANTIATE_TEST_SUITE_P(Batches, RandomProgramTest, testing::Range<std::uint64_t>(0, 8));

}  // namespace
}  // namespace yoke::codegen::test
