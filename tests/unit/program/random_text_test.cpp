// SPDX-License-Identifier: Apache-2.0
// tests/unit/program/random_text_test.cpp: random programs round-trip through
// text, and invalid texts never crash.
#include <gtest/gtest.h>

#include <cstdlib>
#include <random>
#include <string>

#include "../../fuzz/harness.h"
#include "../../support/rounds.h"
#include "corpus.h"
#include "generator.h"
#include "mutate.h"

namespace yoke::program {
namespace {

// Set YOKE_TEST_SEED to repeat a run; each failure prints the seed.
std::uint32_t seed() {
  const char* text = std::getenv("YOKE_TEST_SEED");
  static const std::uint32_t value =
      text != nullptr ? static_cast<std::uint32_t>(std::strtoul(text, nullptr, 10)) : std::random_device()();
  return value;
}

TEST(RandomPrograms, RoundTripThroughText) {
  SCOPED_TRACE("YOKE_TEST_SEED=" + std::to_string(seed()));
  for (std::uint32_t i = 0; i < test::rounds(3000) && !testing::Test::HasFailure(); ++i) {
    const Program program = conformance::generate_case(seed(), i).program;
    const std::string text = print(program);
    Module again;
    ASSERT_NO_THROW(again = parse_and_verify(text)) << text;
    expect_same(program, again.programs.at(0));
    EXPECT_EQ(print(again), text);
  }
}

// Runs the checks of the program-text fuzzer, for example that a verified program stays within its buffers.
void expect_fuzzer_accepts(const std::string& text) {
  EXPECT_NO_THROW(fuzz::program_text({reinterpret_cast<const std::uint8_t*>(text.data()), text.size()}))
      << text;
}

TEST(RandomPrograms, PassTheFuzzer) {
  SCOPED_TRACE("YOKE_TEST_SEED=" + std::to_string(seed()));
  const conformance::GeneratorOptions small{.large = false, .chains = true};
  for (std::uint32_t i = 0; i < test::rounds(1000) && !testing::Test::HasFailure(); ++i) {
    expect_fuzzer_accepts(print(conformance::generate_case(seed(), i, small).program));
  }
}

TEST(InvalidTexts, EveryPrefixParsesOrThrows) {
  for (const std::string& text : corpus()) {
    for (std::size_t length = 0; length < text.size(); ++length) {
      const std::string message = error_of(text.substr(0, length));
      EXPECT_FALSE(message.empty());
      // A prefix is complete only if it lacks just the final newline or the second program.
      if (length + 1 < text.size() && text.substr(length).find("program second") == std::string::npos) {
        EXPECT_NE(message, "accepted") << text.substr(0, length);
      }
    }
  }
}

TEST(InvalidTexts, MutationsPassTheFuzzer) {
  SCOPED_TRACE("YOKE_TEST_SEED=" + std::to_string(seed()));
  conformance::Random random(seed(), "mutations");
  for (std::uint64_t round = 0; round < test::rounds(10000) && !testing::Test::HasFailure(); ++round) {
    std::string text = corpus()[random.below(corpus().size())];
    for (std::uint64_t changes = random.below(4); changes != 0; --changes) {
      text[random.below(text.size())] = static_cast<char>(random.next());
    }
    expect_fuzzer_accepts(conformance::change_tokens(text, random));
  }
}

}  // namespace
}  // namespace yoke::program
