// SPDX-License-Identifier: Apache-2.0
// tests/unit/conformance_programs/border_programs_test.cpp: programs at the borders of types are valid for every
// device, hold the borders, and allow the results of the reference executor only.
#include "border_programs.h"

#include <gtest/gtest.h>
#include <yoke/program/execute.h>
#include <yoke/program/text.h>

#include <cmath>
#include <optional>
#include <set>
#include <utility>

#include "borders.h"
#include "evaluate.h"

namespace yoke::conformance {
namespace {

using program::Type;

constexpr auto kAllTypes = 0x3FEU;
using Programs = std::vector<Case> (*)(std::uint64_t, std::uint64_t);
constexpr std::pair<const char*, Programs> kFamilies[] = {{"operators", operator_programs},
                                                          {"casts", cast_programs},
                                                          {"reductions", reduction_programs},
                                                          {"accumulators", accumulator_programs},
                                                          {"symbols", symbol_programs},
                                                          {"tails", tail_programs},
                                                          {"axes", axis_programs},
                                                          {"loops", loop_programs},
                                                          {"nested", nested_programs},
                                                          {"crossed", crossed_programs},
                                                          {"lifetimes", lifetime_programs}};

TEST(BorderPrograms, UseOnlyTypesOfTheMask) {
  for (const auto& [name, make] : kFamilies) {
    for (const std::uint64_t mask : {0x4U, 0x44U, 0x2U, 0x1CU, 0x100U, 0x160U, 0x200U}) {
      for (const Case& one : make(1, mask)) {
        for (const program::Tensor& tensor : one.program.tensors) {
          ASSERT_NE(mask >> static_cast<unsigned>(tensor.type) & 1U, 0U)
              << name << program::print(one.program);
        }
      }
    }
  }
}

// In one element of most outputs, no other value is allowed.
TEST(BorderPrograms, AllowTheReferenceResultsOnly) {
  for (const auto& [name, make] : kFamilies) {
    const std::vector<Case> cases = make(1, kAllTypes);
    std::size_t outputs = 0;
    std::size_t noticed = 0;
    for (std::size_t number = 0; number < cases.size(); number += 13) {
      const Case& one = cases[number];
      const AllowedResults allowed(one, one.launches.back());
      Contents results = reference_results(one, one.launches.back());
      ASSERT_EQ(allowed.compare(results), "") << name << "\n" << program::print(one.program);
      const std::vector<std::uint32_t> arguments = one.program.arguments();
      for (std::size_t i = 0; i < arguments.size(); ++i) {
        const program::Tensor& tensor = one.program.tensors[arguments[i]];
        if (tensor.role == program::Role::kIn) {
          continue;
        }
        const std::vector<std::byte> right = results[i];
        std::byte& last = results[i][results[i].size() - program::byte_size(tensor.type)];
        last ^= std::byte{1};
        ++outputs;
        noticed += allowed.compare(results).empty() ? 0U : 1U;
        results[i] = right;
      }
    }
    EXPECT_GT(noticed * 10, outputs * 6) << name << ": " << noticed << " of " << outputs;
  }
}

TEST(BorderPrograms, HoldEveryPairOfBorders) {
  const Case one = operator_programs(1, 1U << static_cast<unsigned>(Type::kI64)).at(0);
  const std::vector<std::byte> a = initial_bytes(one, 0);
  const std::vector<std::byte> b = initial_bytes(one, 1);
  std::set<std::pair<std::int64_t, std::int64_t>> pairs;
  for (std::int64_t i = 0; i < kCrossedBorders * kCrossedBorders; ++i) {
    pairs.emplace(program::load(Type::kI64, a.data(), i).integer,
                  program::load(Type::kI64, b.data(), i).integer);
  }
  EXPECT_EQ(pairs.size(), static_cast<std::size_t>(kCrossedBorders * kCrossedBorders));
  EXPECT_TRUE(pairs.contains({program::lowest_integer(Type::kI64), -1}));
  EXPECT_TRUE(pairs.contains({(std::int64_t{1} << 53) + 1, std::int64_t{1} << 53}));
}

TEST(BorderPrograms, CrossEveryAssignmentWithEveryReduction) {
  std::set<std::pair<program::Assign, std::optional<program::Reduce>>> pairs;
  for (const Case& one : crossed_programs(1, kAllTypes)) {
    for (const program::Statement& statement : one.program.statements) {
      if (one.program.tensors[statement.target.tensor].name == "y") {
        pairs.emplace(statement.assign, statement.reduce);
      }
    }
  }
  for (int assign = 0; assign < 5; ++assign) {
    for (const std::optional<program::Reduce> reduce :
         {std::optional<program::Reduce>(), std::optional(program::Reduce::kSum),
          std::optional(program::Reduce::kProd), std::optional(program::Reduce::kMax),
          std::optional(program::Reduce::kMin)}) {
      EXPECT_TRUE(pairs.contains({static_cast<program::Assign>(assign), reduce})) << assign;
    }
  }
}

TEST(BorderPrograms, NeedTheirAccumulator) {
  // The sum of a wider type rounds differently than that of the elements' own type in most programs.
  std::size_t differ = 0;
  std::size_t compared = 0;
  for (const Case& one : accumulator_programs(5, 1U << 1U | 1U << 2U)) {
    Case narrow = one;
    narrow.program.statements[0].accumulator = Type::kF32;
    const program::Type target = narrow.program.tensors.back().type;
    if (target != Type::kF32) {
      continue;
    }
    ++compared;
    const AllowedResults allowed(one, one.launches[0]);
    differ += allowed.compare(reference_results(narrow, one.launches[0])).empty() ? 0U : 1U;
  }
  EXPECT_GT(compared, 4U);
  EXPECT_EQ(differ, compared);
}

}  // namespace
}  // namespace yoke::conformance
