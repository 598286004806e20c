// SPDX-License-Identifier: Apache-2.0
// tests/unit/cc/random_program_test.cpp: the conformance kit's programs on every instruction set.
#include <gtest/gtest.h>
#include <yoke/program/text.h>

#include "../../support/shared_buffer.h"
#include "corpus.h"
#include "evaluate.h"
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

// The bits of a launch do not depend on where its arguments are. Checks results, guards and inputs, each launch with
// other ranges; returns the number of inputs that overlapped.
std::uint64_t check_in_one_buffer(const conformance::Case& one, std::uint64_t seed, int threads,
                                  const KernelTable& table) {
  SCOPED_TRACE(std::string("kernels ") + table.name + ", threads " + std::to_string(threads) + "\n" +
               program::print(one.program));
  const auto compiled = compile(one.program, threads, &table);
  std::uint64_t overlaps = 0;
  for (const std::vector<std::int64_t>& symbols : one.launches) {
    yoke::test::SharedBuffer buffer(one.program, seed++);
    buffer.fill(conformance::initial_arguments(one));
    const conformance::Contents expected =
        contents_of(run_guarded(compiled, guarded(buffer.contents()), symbols));
    run_on_cc(compiled, buffer.addresses(), symbols);
    EXPECT_EQ(buffer.changed(), "");
    const conformance::Contents got = buffer.contents();
    for (std::size_t i = 0; i < got.size(); ++i) {
      EXPECT_TRUE(got[i] == expected[i])
          << "other bits of " << one.program.tensors[one.program.arguments()[i]].name << " in one buffer";
    }
    if (buffer.overlap_count() == 0) {
      EXPECT_EQ(conformance::AllowedResults(one, symbols).compare(got), "");
    }
    overlaps += buffer.overlap_count();
  }
  return overlaps;
}

TEST(RandomProgramTest, RandomProgramsInOneBufferGiveTheBitsOfSeparateBuffers) {
  const std::vector<const KernelTable*> tables = all_tables();
  constexpr std::uint64_t kProgramCount = 512;
  std::uint64_t overlaps = 0;
  for (std::uint64_t index = 0; index < kProgramCount && !HasFailure(); ++index) {
    SCOPED_TRACE("program " + std::to_string(index));
    overlaps += check_in_one_buffer(conformance::generate_case(8, index), index, index % 5 == 0 ? 2 : 1,
                                    *tables[index % tables.size()]);
  }
  EXPECT_GT(overlaps, kProgramCount / 10) << "inputs hardly ever overlap";
}

TEST(CorpusTest, CorpusInOneBufferGivesTheBitsOfSeparateBuffers) {
  std::uint64_t seed = 0;
  for (const conformance::CorpusText& text : conformance::corpus()) {
    SCOPED_TRACE(text.name);
    const conformance::Case one = conformance::corpus_case(text.text, 7);
    for (const KernelTable* table : all_tables()) {
      check_in_one_buffer(one, seed++, 2, *table);
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
