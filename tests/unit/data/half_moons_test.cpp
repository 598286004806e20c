// SPDX-License-Identifier: Apache-2.0
// tests/unit/data/half_moons_test.cpp: positions, noise and reproducibility of the generated points.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <yoke/datasets.h>

#include <cmath>
#include <limits>

#include "test_files.h"

namespace yoke {
namespace {

using test::values_of;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(HalfMoons, PointsWithoutNoiseAreOnTheirCircle) {
  const auto data = datasets::half_moons(101, 0, 7);
  const auto points = values_of<float>(data.points.host_bytes());
  const auto labels = values_of<std::uint8_t>(data.labels.host_bytes());
  const auto signs = values_of<float>(data.signs.host_bytes());

  EXPECT_THAT(data.points.dims(), ElementsAre(101, 2));
  for (std::size_t i = 0; i < labels.size(); ++i) {
    const bool lower = labels[i] == 1;
    EXPECT_EQ(lower, i % 2 == 1);
    EXPECT_EQ(signs[i], lower ? 1.0F : -1.0F);
    const float x = points[2 * i] - (lower ? 1.0F : 0.0F);
    const float y = points[2 * i + 1] - (lower ? 0.5F : 0.0F);
    EXPECT_NEAR(x * x + y * y, 1.0F, 1e-6F);  // a few roundings of 2^-24
    EXPECT_TRUE(lower ? y <= 0 : y >= 0);
  }
}

TEST(HalfMoons, NoiseHasTheGivenDeviation) {
  const std::uint64_t count = 20000;
  const auto clean = values_of<float>(datasets::half_moons(count, 0, 3).points.host_bytes());
  const auto noisy = values_of<float>(datasets::half_moons(count, 0.1, 3).points.host_bytes());
  double squares = 0;
  for (std::size_t i = 0; i < clean.size(); ++i) {
    squares += std::pow(static_cast<double>(noisy[i]) - static_cast<double>(clean[i]), 2);
  }
  // The mean square of 40000 normal numbers has a standard error of sqrt(2 / 40000) = 0.7 %. The
  // tolerance is four times that.
  EXPECT_NEAR(squares / static_cast<double>(clean.size()), 0.01, 0.01 * 0.028);
}

TEST(HalfMoons, PointsDependOnTheSeed) {
  EXPECT_EQ(values_of<float>(datasets::half_moons(50, 0.1, 1).points.host_bytes()),
            values_of<float>(datasets::half_moons(50, 0.1, 1).points.host_bytes()));
  EXPECT_NE(values_of<float>(datasets::half_moons(50, 0.1, 1).points.host_bytes()),
            values_of<float>(datasets::half_moons(50, 0.1, 2).points.host_bytes()));
}

TEST(HalfMoons, InvalidCountOrNoiseIsAnError) {
  EXPECT_THAT(test::error_of([] { datasets::half_moons(0, 0.1, 1); }).what(), HasSubstr("count is 0"));
  EXPECT_ERROR(ErrorCode::kInvalidArgument, datasets::half_moons(5, -1, 1));
  EXPECT_ERROR(ErrorCode::kInvalidArgument, datasets::half_moons(~std::uint64_t{0}, 0.1, 1));
  EXPECT_EQ(
      test::error_of([] { datasets::half_moons(5, std::numeric_limits<double>::infinity(), 1); }).code(),
      ErrorCode::kInvalidArgument);
}

}  // namespace
}  // namespace yoke
