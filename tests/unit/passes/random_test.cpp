// SPDX-License-Identifier: Apache-2.0
// tests/unit/passes/random_test.cpp: random programs of the conformance kit
// give the same bits before and after every pass.
#include <algorithm>
#include <cstdlib>
#include <string>
#include <vector>

#include "../../support/rounds.h"
#include "corpus.h"
#include "generator.h"
#include "pass_text.h"
#include "results.h"

namespace yoke::passes {
namespace {

using conformance::Case;

struct NamedPass {
  const char* name;
  Function pass;
};

class RandomPrograms : public testing::TestWithParam<NamedPass> {};

// YOKE_FUZZ_COUNT runs more programs than a unit test should.
std::uint64_t program_count() {
  const char* const text = std::getenv("YOKE_FUZZ_COUNT");
  return text != nullptr ? std::strtoull(text, nullptr, 10) : test::rounds(250);
}

// Each tenth one has extents around powers of two, and so around tiles.
Case random_case(std::uint64_t index) {
  return conformance::generate_case(1, index, {.large = index % 10 == 9, .chains = true});
}

TEST_P(RandomPrograms, GiveTheSameBits) {
  std::uint64_t changed = 0;
  for (std::uint64_t index = 0; index < program_count(); ++index) {
    SCOPED_TRACE("index " + std::to_string(index));
    const Case one = random_case(index);
    const std::string before = program::print(one.program);
    ASSERT_NO_THROW(program::verify(one.program)) << before;
    program::Program after;
    ASSERT_NO_THROW(after = GetParam().pass(one.program)) << before;
    const std::string text = program::print(after);
    changed += text != before ? 1U : 0U;
    ASSERT_NO_THROW(ASSERT_EQ(program::print(program_of(text)), text)) << text;
    ASSERT_EQ(program::print(GetParam().pass(one.program)), text) << "not deterministic";
    for (const auto& symbols : one.launches) {
      ASSERT_EQ(results_of(one, after, symbols), results_of(one, one.program, symbols))
          << before << "became\n"
          << text;
    }
  }
  EXPECT_GT(changed, program_count() / 20) << "the pass hardly ever changes a program";
}

// The arguments are ranges of one buffer, some inputs overlap, and temporaries share bytes.
TEST_P(RandomPrograms, GiveTheSameBitsInOneBuffer) {
  std::uint64_t overlaps = 0;
  std::uint64_t shared_bytes = 0;
  for (std::uint64_t index = 0; index < program_count(); ++index) {
    const Case one = random_case(index);
    const program::Program after = GetParam().pass(one.program);
    SCOPED_TRACE("index " + std::to_string(index) + "\n" + program::print(one.program) + "became\n" +
                 program::print(after));
    std::uint64_t sum = 0;
    for (const program::Lifetime& life : program::lifetimes(after)) {
      sum += life.byte_count;
    }
    shared_bytes += sum - std::min(sum, arena_byte_count(after));
    test::SharedBuffer buffer(after, index, arena_byte_count(after));
    overlaps += buffer.overlap_count();
    for (const auto& symbols : one.launches) {
      buffer.fill(conformance::initial_arguments(one));
      const conformance::Contents start = buffer.contents();
      ASSERT_EQ(results_in(buffer, after, symbols), results_of(one.program, start, symbols));
      ASSERT_EQ(buffer.changed(), "");
    }
  }
  EXPECT_GT(overlaps, program_count() / 10) << "inputs hardly ever overlap";
  EXPECT_GT(shared_bytes, 0U) << "temporaries never share bytes";
}

INSTANTIATE_TEST_SUITE_P(Passes, RandomPrograms,
                         testing::Values(NamedPass{"remove_dead_statements", remove_dead_statements},
                                         NamedPass{"fold_constants", fold_constants},
                                         NamedPass{"eliminate_common", eliminate_common},
                                         NamedPass{"fuse", fuse}, NamedPass{"schedule", schedule},
                                         NamedPass{"share", share}, NamedPass{"form_regions", form_regions},
                                         NamedPass{"optimize", optimized}),
                         [](const auto& named) { return std::string(named.param.name); });

TEST(CorpusOptimize, GivesTheSameBits) {
  for (const conformance::CorpusText& text : conformance::corpus()) {
    SCOPED_TRACE(text.name);
    const Case one = conformance::corpus_case(text.text, 1);
    const program::Program after = optimize(one.program).program;
    for (const auto& symbols : one.launches) {
      EXPECT_EQ(results_of(one, after, symbols), results_of(one, one.program, symbols))
          << program::print(after);
    }
  }
}

std::vector<std::string> named_hints(const program::Program& program) {
  std::vector<std::string> names;
  for (const program::Hint& hint : program.hints) {
    if (hint.name != "fused") {
      names.push_back(hint.name);
    }
  }
  return names;
}

TEST(RandomOptimize, NamedHintsStay) {
  std::size_t kept = 0;
  std::size_t lost = 0;
  for (std::uint64_t index = 0; index < program_count(); ++index) {
    // A hint may only vanish with all its results.
    const program::Program before = remove_dead_statements(random_case(index).program);
    const std::size_t count = named_hints(before).size();
    const std::size_t left = named_hints(optimized(before)).size();
    ASSERT_LE(left, count) << "index " << index;
    kept += left;
    lost += count - left;
  }
  EXPECT_GT(kept, program_count() / 20);
  EXPECT_LE(lost, kept / 20);
}

TEST(RandomOptimize, IsIdempotent) {
  for (std::uint64_t index = 0; index < test::rounds(300); ++index) {
    const program::Program once = optimized(random_case(index).program);
    ASSERT_EQ(program::print(optimized(once)), program::print(once)) << "index " << index;
  }
}

}  // namespace
}  // namespace yoke::passes
