// SPDX-License-Identifier: Apache-2.0
// tests/unit/passes/collision_test.cpp: programs whose statements collide give the same bits after every pass.
#include "../../support/colliding_programs.h"
#include "../../support/rounds.h"
#include "corpus.h"
#include "pass_text.h"
#include "results.h"

namespace yoke::passes {
namespace {

TEST(Collisions, KeepTheirResultsInEveryPass) {
  constexpr Function kPasses[] = {
      remove_dead_statements, fold_constants, eliminate_common, fuse, schedule, share,
      form_regions,           optimized};
  std::uint64_t changed[std::size(kPasses)] = {};
  const std::uint64_t count = test::rounds(1000);
  for (std::uint64_t index = 0; index < count; ++index) {
    const std::string text = test::CollidingProgram(index, 4).text();
    const conformance::Case one = conformance::corpus_case(text, index);
    std::vector<conformance::Contents> expected;
    for (const auto& symbols : one.launches) {
      expected.push_back(results_of(one, one.program, symbols));
    }
    for (std::size_t pass = 0; pass < std::size(kPasses); ++pass) {
      SCOPED_TRACE("program " + std::to_string(index) + ", pass " + std::to_string(pass));
      program::Program after;
      ASSERT_NO_THROW(after = kPasses[pass](one.program)) << text;
      const std::string after_text = program::print(after);
      if (after_text == program::print(one.program)) {
        continue;
      }
      ++changed[pass];
      for (std::size_t i = 0; i < one.launches.size(); ++i) {
        ASSERT_EQ(results_of(one, after, one.launches[i]), expected[i]) << text << "became\n" << after_text;
      }
    }
  }
  for (const std::uint64_t one : changed) {
    EXPECT_GT(one, count / 50) << "a pass hardly ever changes a program";
  }
}

// Temporaries share bytes, also those of repeat blocks, which keep some of them for the next round.
TEST(Collisions, KeepTheirResultsInOneBuffer) {
  for (std::uint64_t index = 0; index < test::rounds(600); ++index) {
    SCOPED_TRACE("program " + std::to_string(index));
    const std::string text = test::CollidingProgram(index, 4).text();
    const conformance::Case one = conformance::corpus_case(text, index);
    for (const Function pass : {remove_dead_statements, optimized}) {
      const program::Program after = pass(one.program);
      test::SharedBuffer buffer(after, index, arena_byte_count(after));
      for (const auto& symbols : one.launches) {
        buffer.fill(conformance::initial_arguments(one));
        const conformance::Contents start = buffer.contents();
        ASSERT_EQ(results_in(buffer, after, symbols), results_of(one.program, start, symbols))
            << text << "became\n"
            << program::print(after);
        ASSERT_EQ(buffer.changed(), "");
      }
    }
  }
}

}  // namespace
}  // namespace yoke::passes
