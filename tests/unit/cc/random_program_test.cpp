// SPDX-License-Identifier: Apache-2.0
// tests/unit/cc/random_program_test.cpp: the conformance kit's programs on every instruction set.
#include <gtest/gtest.h>

#include "corpus.h"
#include "generator.h"
#include "harness.h"

namespace yoke::cc::test {
namespace {

TEST(RandomProgramTest, RandomProgramsMatchTheReferenceOnEveryInstructionSet) {
  constexpr std::uint64_t kProgramCount = 512;  // one for every operation on every type, and as many others
  for (std::uint64_t index = 0; index < kProgramCount && !HasFailure(); ++index) {
    SCOPED_TRACE("program " + std::to_string(index));
    const conformance::Case one = conformance::generate_case(7, index);
    for (const std::vector<std::int64_t>& symbols : one.launches) {
      check_launch(one, symbols, index % 5 == 0 ? 2 : 1, all_tables());
    }
  }
}

TEST(CorpusTest, CorpusMatchesTheReferenceOnEveryInstructionSet) {
  for (const conformance::CorpusText& text : conformance::corpus()) {
    SCOPED_TRACE(text.name);
    const conformance::Case one = conformance::corpus_case(text.text, 7);
    for (const std::vector<std::int64_t>& symbols : one.launches) {
      check_launch(one, symbols, 2, all_tables());
    }
  }
}

}  // namespace
}  // namespace yoke::cc::test
