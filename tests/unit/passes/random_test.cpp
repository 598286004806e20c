// SPDX-License-Identifier: Apache-2.0
// tests/unit/passes/random_test.cpp: random programs give the same bits before and behind every pass.
#include <cstdlib>

#include "pass_text.h"
#include "random_program.h"

namespace yoke::passes {
namespace {

struct NamedPass {
  const char* name;
  Pass pass;
};

class RandomPrograms : public testing::TestWithParam<NamedPass> {};

// YOKE_FUZZ_COUNT asks for more programs than a unit test should take.
std::uint32_t program_count() {
  const char* const text = std::getenv("YOKE_FUZZ_COUNT");
  return text != nullptr ? static_cast<std::uint32_t>(std::strtoul(text, nullptr, 10)) : 500;
}

TEST_P(RandomPrograms, GiveTheSameBits) {
  std::uint32_t valid = 0;
  std::uint32_t changed = 0;
  for (std::uint32_t seed = 1; seed <= program_count(); ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    const std::optional<program::Program> before = random_program(seed);
    if (!before) {
      continue;
    }
    ++valid;
    program::Program after;
    ASSERT_NO_THROW(after = GetParam().pass(*before)) << program::print(*before);
    const std::string text = program::print(after);
    changed += text != program::print(*before) ? 1U : 0U;
    ASSERT_NO_THROW(program::parse_and_verify(text)) << text;
    ASSERT_EQ(program::print(program_of(text)), text);
    ASSERT_EQ(program::print(GetParam().pass(*before)), text) << "not deterministic";
    for (std::uint32_t data_seed = 1; data_seed <= 2; ++data_seed) {
      ASSERT_EQ(results_of(after, data_seed), results_of(*before, data_seed))
          << "data seed " << data_seed << "\n"
          << program::print(*before) << "became\n"
          << text;
    }
  }
  EXPECT_GT(valid, program_count() / 2) << "the generator draws too few valid programs";
  EXPECT_GT(changed, valid / 20) << "the pass hardly ever does anything";
}

INSTANTIATE_TEST_SUITE_P(Passes, RandomPrograms,
                         testing::Values(NamedPass{"remove_dead_statements", remove_dead_statements},
                                         NamedPass{"fold_constants", fold_constants},
                                         NamedPass{"eliminate_common", eliminate_common},
                                         NamedPass{"fuse", fuse}, NamedPass{"optimize", optimize}),
                         [](const auto& named) { return std::string(named.param.name); });

TEST(RandomOptimize, IsAtAFixedPoint) {
  for (std::uint32_t seed = 1; seed <= 300; ++seed) {
    if (const std::optional<program::Program> before = random_program(seed)) {
      const program::Program once = optimize(*before);
      ASSERT_EQ(program::print(optimize(once)), program::print(once)) << "seed " << seed;
    }
  }
}

}  // namespace
}  // namespace yoke::passes
