// SPDX-License-Identifier: Apache-2.0
// tests/unit/tensor/random_test.cpp: counter-based random numbers.
#include <gtest/gtest.h>
#include <yoke/program/execute.h>

#include <cmath>
#include <set>

#include "evaluate.h"

namespace yoke {
namespace {

using testing::values;

TEST(RandomTest, BitsMatchTheProgramFormat) {
  const auto bits = values<std::uint32_t>(random_bits({2, 3}, {5, false}), {}, {{"seed", 42}});
  for (std::size_t i = 0; i < bits.size(); ++i) {
    EXPECT_EQ(bits[i], program::random_bits(42, 5, static_cast<std::int64_t>(i)));
  }
}

TEST(RandomTest, ViewOfADrawSelectsItsElements) {
  const Tensor draw = random_bits({4, 6}, {5, false});
  const auto whole = values<std::uint32_t>(draw);
  const auto part = values<std::uint32_t>(transpose(slice(draw, 1, 2, 4)));
  for (std::size_t i = 0; i < 2; ++i) {
    for (std::size_t j = 0; j < 4; ++j) {
      EXPECT_EQ(part[i * 4 + j], whole[j * 6 + i + 2]);
    }
  }
}

TEST(RandomTest, EveryStepDrawsNewNumbers) {
  const Tensor steady = uniform({100}, {1, false});
  const Tensor moving = uniform({100}, {1, true});
  EXPECT_EQ(values<float>(moving, {}, {{"step", 0}}), values<float>(steady));
  EXPECT_NE(values<float>(moving, {}, {{"step", 1}}), values<float>(steady));
  EXPECT_EQ(values<float>(moving, {}, {{"step", 9}}), values<float>(moving, {}, {{"step", 9}}));
}

TEST(RandomTest, DifferentDrawsOfOneProgramDiffer) {
  const Tensor a = uniform({1000});
  const Tensor b = uniform({1000});
  const auto differences = values<float>(a - b);
  EXPECT_GT(*std::max_element(differences.begin(), differences.end()), 0.5F);
  for (const float difference : values<float>(a - (a + 0.0))) {
    EXPECT_EQ(difference, 0.0F);
  }
}

TEST(RandomTest, RebuiltGraphDrawsTheSameNumbers) {
  const auto build = [] { return in_mode(nn::dropout(0.5)(uniform({50})), Mode::kTrain) + normal({50}); };
  const Tensor first = build();
  const Tensor between = uniform({3});  // a draw of another graph has no effect
  EXPECT_EQ(values<float>(first, {}, {{"seed", 3}}), values<float>(build(), {}, {{"seed", 3}}));
}

// A shard with the rows from 2 on draws the numbers that these rows have in a whole batch.
TEST(RandomTest, DrawsByRowAreFunctionsOfTheRowInTheBatch) {
  const RandomKey key{.stream = 5, .every_step = true, .by_row = true};
  const auto whole =
      values<std::uint32_t>(random_bits({4, 3}, key), {}, {{"run_seed", 42}, {"batch_row", 0}, {"step", 7}});
  const auto part =
      values<std::uint32_t>(random_bits({2, 3}, key), {}, {{"run_seed", 42}, {"batch_row", 2}, {"step", 7}});
  EXPECT_TRUE(std::equal(part.begin(), part.end(), whole.begin() + 6));
  for (std::int64_t i = 0; i < 12; ++i) {
    const std::int64_t stream = 5 + (i / 3) * (std::int64_t{1} << 34U);
    EXPECT_EQ(whole[static_cast<std::size_t>(i)], program::random_bits(42, stream, i % 3 + 7 * 3));
  }
  EXPECT_EQ(std::set(whole.begin(), whole.end()).size(), 12U);
  EXPECT_MESSAGE("a random draw by row needs an axis, the rows", uniform({}, key));
  EXPECT_MESSAGE("the stream -1 of a random draw by row is out of range [0, 2^34)",
                 normal({2}, {.stream = -1, .by_row = true}));
}

TEST(RandomTest, UniformAndNormalHaveTheirDistributions) {
  const auto u = values<float>(uniform({10000}), {}, {{"seed", 11}});
  double chi_square = 0;
  std::vector<int> histogram(20, 0);
  for (const float number : u) {
    ASSERT_GE(number, 0.0F);
    ASSERT_LT(number, 1.0F);
    ++histogram[static_cast<std::size_t>(number * 20)];
  }
  for (const int count : histogram) {
    chi_square += (count - 500) * (count - 500) / 500.0;
  }
  EXPECT_LT(chi_square, 36.2);  // 19 degrees of freedom, p = 0.01; the seed is fixed
  const auto n = values<double>(normal({10000}, {}, Type::kF64), {}, {{"seed", 11}});
  double mean = 0;
  double square = 0;
  int outside = 0;
  for (const double number : n) {
    mean += number / 10000;
    square += number * number / 10000;
    outside += std::abs(number) > 1.959964 ? 1 : 0;
  }
  EXPECT_NEAR(mean, 0, 0.04);
  EXPECT_NEAR(square, 1, 0.05);
  EXPECT_NEAR(outside, 500, 90);
}

TEST(RandomTest, F64DrawsUseMoreThan24Bits) {
  const auto u = values<double>(uniform({100}, {}, Type::kF64));
  int fine = 0;
  for (const double number : u) {
    ASSERT_GE(number, 0);
    ASSERT_LT(number, 1);
    fine += std::fmod(number * 0x1p24, 1.0) != 0 ? 1 : 0;
  }
  EXPECT_GT(fine, 95);
}

TEST(RandomTest, SymbolNamedStepReplacesTheStepSymbol) {
  const Symbol step{"step", 0, 10, 1};
  const Tensor x = uniform({2}, {1, true}) * cast(symbol_value(step), Type::kF32);
  const Lowered lowered = lower("p", {{"y", x}});
  const auto number = lowered.program.find_symbol("step");
  ASSERT_TRUE(number);
  EXPECT_EQ(lowered.program.symbols[*number].high, 10);
  EXPECT_EQ(lowered.program.symbols.size(), 2U);
}

}  // namespace
}  // namespace yoke
