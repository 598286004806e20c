// SPDX-License-Identifier: Apache-2.0
// tests/unit/passes/cut_test.cpp: the parts of a program give its bits, and share memory.
#include <algorithm>
#include <random>

#include "../../support/rounds.h"
#include "corpus.h"
#include "generator.h"
#include "pass_text.h"
#include "results.h"

namespace yoke::passes {
namespace {

using conformance::Case;
using conformance::Contents;

// Runs the parts one after the other, with what they carry in one block of memory filled with 0xFF.
Contents results_of_parts(const Case& one, const Cut& cut, std::span<const std::int64_t> symbols) {
  Contents memory = conformance::initial_arguments(one);
  const std::vector<std::uint32_t> arguments = one.program.arguments();
  std::vector<std::byte> carried(cut.carried_byte_count, std::byte{0xFF});
  const auto place_of = [&](const std::string& name) -> void* {
    for (std::size_t i = 0; i < arguments.size(); ++i) {
      if (one.program.tensors[arguments[i]].name == name) {
        return memory[i].data();
      }
    }
    const auto found = std::find_if(cut.carried.begin(), cut.carried.end(),
                                    [&](const Cut::Carried& each) { return each.tensor.name == name; });
    EXPECT_NE(found, cut.carried.end()) << name;
    EXPECT_LE(found->offset + found->tensor.byte_count(), carried.size());
    return carried.data() + found->offset;
  };
  for (const program::Program& part : cut.parts) {
    std::vector<void*> pointers;
    for (const std::uint32_t tensor : part.arguments()) {
      pointers.push_back(place_of(part.tensors[tensor].name));
    }
    if (!part.statements.empty()) {
      program::execute(part, pointers, symbols);
    }
  }
  unify_nans(one.program, memory);
  return memory;
}

// Cuts the program at up to three random places. Returns the number of temporaries that parts carry.
std::size_t expect_same_bits(const Case& one, const program::Program& program, std::uint32_t seed) {
  std::mt19937 random(seed);
  std::vector<std::uint32_t> after(1 + random() % 3);
  for (std::uint32_t& place : after) {
    place = static_cast<std::uint32_t>(random() % (program.statements.size() + 1));
  }
  std::sort(after.begin(), after.end());
  SCOPED_TRACE(::testing::PrintToString(after) + "\n" + program::print(program));
  const Cut parts = cut(program, after);
  std::size_t statements = 0;
  for (const program::Program& part : parts.parts) {
    statements += part.statements.size();
    if (!part.statements.empty()) {
      EXPECT_NO_THROW(program_of(program::print(part)));
    }
  }
  EXPECT_EQ(statements, program.statements.size());
  for (const auto& symbols : one.launches) {
    EXPECT_EQ(results_of_parts(one, parts, symbols), results_of(one, program, symbols));
  }
  return parts.carried.size();
}

TEST(CutCorpus, PartsGiveTheSameBits) {
  for (const conformance::CorpusText& text : conformance::corpus()) {
    SCOPED_TRACE(text.name);
    const Case one = conformance::corpus_case(text.text, 1);
    for (std::uint32_t seed = 0; seed < test::rounds(12); ++seed) {
      expect_same_bits(one, one.program, seed);
      expect_same_bits(one, optimized(one.program), seed);
    }
  }
}

TEST(CutRandom, PartsGiveTheSameBits) {
  std::size_t carried = 0;
  const std::uint64_t count = test::rounds(300);
  for (std::uint32_t index = 0; index < count; ++index) {
    SCOPED_TRACE("index " + std::to_string(index));
    const Case one = conformance::generate_case(1, index, {.large = false, .chains = true});
    carried += expect_same_bits(one, one.program, index);
    carried += expect_same_bits(one, optimized(one.program), index);
    ASSERT_FALSE(::testing::Test::HasFailure());
  }
  EXPECT_GT(carried, count / 4) << "hardly any program needs a temporary in several parts";
}

std::vector<std::size_t> sizes_of(const Cut& cut) {
  std::vector<std::size_t> sizes;
  for (const program::Program& part : cut.parts) {
    sizes.push_back(part.statements.size());
  }
  return sizes;
}

using Sizes = std::vector<std::size_t>;
using After = std::vector<std::uint32_t>;

TEST(CutPlaces, GroupsStayWhole) {
  const program::Program program = program_of(
      program_text("arg x : f32[4, 8] in; arg h : f32[5, 8] out; arg y : f32[4, 8] out; temp t : f32[4, 8];"
                   "h[0, i] = 0; repeat k in 0..4 {h[k + 1, i] = h[k, i] + x[k, i]; }; "
                   "@fused[n, i] {t[n, i] = x[n, i] * 2; y[n, i] = t[n, i] + 1; }; y[n, i] = y[n, i] * 3"));
  EXPECT_EQ(sizes_of(cut(program, After{1, 3})), (Sizes{1, 3, 1}));
  EXPECT_EQ(sizes_of(cut(program, After{3})), (Sizes{4, 1})) << "not inside of @fused";
  EXPECT_EQ(sizes_of(cut(program, After{4, 2, 99})), (Sizes{4, 0, 1, 0}));
  EXPECT_EQ(sizes_of(cut(program, After{})), Sizes{5});
  EXPECT_TRUE(cut(program, After{3}).carried.empty()) << "only @fused uses t";
}

TEST(CutPlaces, PartsWithoutStatementsHaveANameAndTheSymbols) {
  const program::Program program =
      program_of(program_text("arg x : f32[8] in; arg y : f32[4] out; y[i] = x[i + s]", "symbol s in 0..5"));
  const Cut parts = cut(program, After{0});
  EXPECT_EQ(sizes_of(parts), (Sizes{0, 1}));
  EXPECT_EQ(parts.parts[0].name, "p_part_1");
  EXPECT_EQ(parts.parts[0].launch_symbol_count(), 1U);
  EXPECT_TRUE(parts.parts[0].arguments().empty());
}

TEST(CutPlaces, ArgumentsAreUsedUntilTheEndOfAGroup) {
  const program::Program program = program_of(
      program_text("arg x : f32[8] in; arg y : f32[8] out; arg z : f32[8] out; arg u : f32[8] in; "
                   "y[i] = x[i] * 2; @fused[i] {z[i] = y[i]; z[i] = z[i] + 1; }; z[i] = z[i] * 3"));
  EXPECT_EQ(used_until(program), (After{1, 3, 4, 0})) << "z reads y after y is final";
}

TEST(CutMemory, TemporariesOfDifferentPartsShareBytes) {
  // a lives in parts 1 and 2, b in 2 and 3, c in 3 and 4.
  const program::Program program = program_of(
      program_text("arg x : f32[100] in; arg y : f32[100] out; temp a : f32[100]; temp b : f32[100]; "
                   "temp c : f32[100]; a[i] = x[i] + 1; b[i] = a[i] * 2; c[i] = b[i] + x[i]; y[i] = c[i]"));
  const Cut parts = cut(program, After{1, 2, 3});
  ASSERT_EQ(parts.carried.size(), 3U);
  EXPECT_EQ(parts.carried[0].offset, parts.carried[2].offset);
  EXPECT_NE(parts.carried[0].offset, parts.carried[1].offset);
  EXPECT_EQ(parts.carried_byte_count, 2 * 512U) << "400 bytes each, from a multiple of 256 on";
}

TEST(CutMemory, UnusedTemporariesTakeNone) {
  const program::Program program = program_of(program_text(
      "arg x : f32[8] in; arg y : f32[8] out; temp never : f32[100]; y[i] = x[i]; y[i] = y[i] + 1"));
  EXPECT_TRUE(cut(program, After{1}).carried.empty());
}

TEST(CutRoles, ArgumentsThatSeveralPartsWriteKeepTheirElements) {
  const program::Program program = program_of(
      program_text("arg x : f32[8] in; arg y : f32[8] out; arg z : f32[8] out; y[i] for[i:4] = x[i]; "
                   "y[i + 4] for[i:4] = x[i + 4] * 2; z[i] = y[i]; z[i] = z[i] + y[i]"));
  const Cut parts = cut(program, After{1, 3});
  const auto role = [&](std::size_t part, const char* name) {
    return parts.parts[part].tensors[parts.parts[part].find_tensor(name).value()].role;
  };
  EXPECT_EQ(role(0, "y"), program::Role::kInOut) << "writes only half of it";
  EXPECT_EQ(role(1, "y"), program::Role::kInOut);
  EXPECT_EQ(role(1, "z"), program::Role::kOut);
  EXPECT_EQ(role(2, "y"), program::Role::kIn);
  EXPECT_EQ(role(2, "z"), program::Role::kInOut);
  EXPECT_FALSE(parts.parts[0].find_tensor("z").has_value()) << "it does not use z";
}

TEST(CutRoles, AnArgumentThatOnePartWritesInPiecesIsAnOutputOfIt) {
  const program::Program program = program_of(
      program_text("arg x : f32[8] in; arg y : f32[8] out; arg z : f32[8] out; y[i] for[i:4] = x[i]; "
                   "y[i + 4] for[i:4] = x[i + 4] * 2; z[i] = y[i]"));
  const program::Program part = cut(program, After{2}).parts.at(0);
  EXPECT_EQ(part.tensors[part.find_tensor("y").value()].role, program::Role::kOut);
}

}  // namespace
}  // namespace yoke::passes
