// SPDX-License-Identifier: Apache-2.0
// tests/unit/data/half_moons_test.cpp: the generated points lie where they should, and are the same every
// time.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <yoke/datasets.h>

#include <cmath>
#include <cstring>
#include <limits>

#include "test_files.h"

namespace yoke {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

template <class Number>
std::vector<Number> values_of(const Tensor& tensor) {
  std::vector<Number> values(tensor.element_count());
  std::memcpy(values.data(), tensor.host_bytes().data(), tensor.byte_count());
  return values;
}

TEST(HalfMoons, WithoutNoiseEveryPointLiesOnItsCircle) {
  const auto data = datasets::half_moons(101, 0, 7);
  const auto points = values_of<float>(data.points);
  const auto labels = values_of<std::uint8_t>(data.labels);
  const auto signs = values_of<float>(data.signs);

  EXPECT_THAT(data.points.dims(), ElementsAre(101, 2));
  for (std::size_t i = 0; i < labels.size(); ++i) {
    const bool lower = labels[i] == 1;
    EXPECT_EQ(lower, i % 2 == 1);
    EXPECT_EQ(signs[i], lower ? 1.0F : -1.0F);
    const float x = points[2 * i] - (lower ? 1.0F : 0.0F);
    const float y = points[2 * i + 1] - (lower ? 0.5F : 0.0F);
    EXPECT_NEAR(x * x + y * y, 1.0F, 1e-6F);  // a few roundings of numbers near 1: 2^-24 each
    EXPECT_TRUE(lower ? y <= 0 : y >= 0);
  }
}

TEST(HalfMoons, NoiseHasTheStatedDeviation) {
  const std::uint64_t count = 20000;
  const auto clean = values_of<float>(datasets::half_moons(count, 0, 3).points);
  const auto noisy = values_of<float>(datasets::half_moons(count, 0.1, 3).points);
  double squares = 0;
  for (std::size_t i = 0; i < clean.size(); ++i) {
    squares += std::pow(static_cast<double>(noisy[i]) - static_cast<double>(clean[i]), 2);
  }
  // 40000 normal numbers: their mean square is off by a factor of sqrt(2 / 40000) = 0.7 % as a rule; four
  // times that is allowed.
  EXPECT_NEAR(squares / static_cast<double>(clean.size()), 0.01, 0.01 * 0.028);
}

TEST(HalfMoons, TheSeedDecides) {
  EXPECT_EQ(values_of<float>(datasets::half_moons(50, 0.1, 1).points),
            values_of<float>(datasets::half_moons(50, 0.1, 1).points));
  EXPECT_NE(values_of<float>(datasets::half_moons(50, 0.1, 1).points),
            values_of<float>(datasets::half_moons(50, 0.1, 2).points));
}

TEST(HalfMoons, NoPointsOrBadNoiseIsAnError) {
  EXPECT_THAT(test::error_of([] { datasets::half_moons(0, 0.1, 1); }).what(), HasSubstr("count 0"));
  EXPECT_EQ(test::error_of([] { datasets::half_moons(5, -1, 1); }).code(), ErrorCode::kInvalidArgument);
  EXPECT_EQ(
      test::error_of([] { datasets::half_moons(5, std::numeric_limits<double>::infinity(), 1); }).code(),
      ErrorCode::kInvalidArgument);
}

}  // namespace
}  // namespace yoke
