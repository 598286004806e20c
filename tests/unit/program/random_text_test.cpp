// SPDX-License-Identifier: Apache-2.0
// tests/unit/program/random_text_test.cpp: random programs round-trip through
// text, and invalid texts never crash.
#include <gtest/gtest.h>
#include <yoke/program/execute.h>

#include <algorithm>
#include <cstdlib>
#include <random>
#include <string>
#include <vector>

#include "case.h"
#include "corpus.h"
#include "generator.h"

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
  for (std::uint32_t i = 0; i < 3000 && !testing::Test::HasFailure(); ++i) {
    const Program program = conformance::generate_case(seed(), i).program;
    const std::string text = print(program);
    Module again;
    ASSERT_NO_THROW(again = parse_and_verify(text)) << text;
    expect_same(program, again.programs.at(0));
    EXPECT_EQ(print(again), text);
  }
}

// A verified program never accesses memory outside its buffers; the address sanitizer would report it.
TEST(RandomPrograms, StayWithinTheirBuffers) {
  SCOPED_TRACE("YOKE_TEST_SEED=" + std::to_string(seed()));
  std::mt19937 random(seed());
  for (std::uint32_t i = 0; i < 300; ++i) {
    const conformance::Case one = conformance::generate_case(seed(), i, {0x3FE, false});
    const Program& program = one.program;
    std::vector<std::vector<std::uint8_t>> buffers;
    std::vector<void*> arguments;
    for (const std::uint32_t argument : program.arguments()) {
      const Tensor& tensor = program.tensors[argument];
      buffers.emplace_back(static_cast<std::size_t>(tensor.byte_count()));
      for (std::uint8_t& byte : buffers.back()) {
        byte = static_cast<std::uint8_t>(random() % (tensor.type == Type::kBool ? 2 : 256));
      }
    }
    for (auto& buffer : buffers) {
      arguments.push_back(buffer.data());
    }
    const auto before = buffers;
    execute(program, arguments, one.launches.at(0));
    const auto after = buffers;
    for (std::size_t t = 0; t < buffers.size(); ++t) {
      const Tensor& tensor = program.tensors[program.arguments()[t]];
      if (tensor.role == Role::kIn) {
        EXPECT_EQ(after[t], before[t]) << "changed the input " << tensor.name << " of\n" << print(program);
      }
      std::copy(before[t].begin(), before[t].end(), buffers[t].begin());
    }
    execute(program, arguments, one.launches.at(0));
    EXPECT_EQ(buffers, after) << "a second run produced different bytes\n" << print(program);
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

TEST(InvalidTexts, MutationsParseOrThrow) {
  SCOPED_TRACE("YOKE_TEST_SEED=" + std::to_string(seed()));
  std::mt19937 random(seed());
  int refused = 0;
  for (int round = 0; round < 20000; ++round) {
    std::string text = corpus()[random() % corpus().size()];
    const std::size_t changes = random() % 4 + 1;
    for (std::size_t i = 0; i < changes; ++i) {
      const std::size_t at = random() % text.size();
      switch (random() % 4) {
        case 0:
          text[at] = static_cast<char>(random());
          break;
        case 1:
          text.erase(at, random() % 8);
          break;
        case 2:
          text.insert(at, text.substr(random() % text.size(), random() % 20));
          break;
        default:
          text[at] = "()[]{}*+-<>=,:.@0129aijn"[random() % 24];
          break;
      }
    }
    try {
      const Module module = parse(text);
      EXPECT_EQ(print(parse(print(module))), print(module)) << text;
      verify(module);
    } catch (const ProgramError& error) {
      ++refused;
      EXPECT_FALSE(error.reason().empty());
    }
  }
  EXPECT_GT(refused, 1000);  // most mutations make a text invalid
}

}  // namespace
}  // namespace yoke::program
