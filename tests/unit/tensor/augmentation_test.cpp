// SPDX-License-Identifier: Apache-2.0
// tests/unit/tensor/augmentation_test.cpp: random flips and crops of images.
#include <gtest/gtest.h>
#include <yoke/augmentation.h>
#include <yoke/mode.h>

#include <algorithm>
#include <numeric>
#include <set>

#include "evaluate.h"

namespace yoke::testing {
namespace {

constexpr std::uint64_t kRows = 64;
constexpr std::int64_t kHeight = 4;
constexpr std::int64_t kWidth = 5;
constexpr std::int64_t kPixels = kHeight * kWidth * 2;  // two channels

std::vector<float> numbered() {
  std::vector<float> pixels(kRows * kPixels);
  std::iota(pixels.begin(), pixels.end(), 1.0F);  // no pixel is 0
  return pixels;
}

Tensor images() {
  return tensor(numbered(), {kRows, kHeight, kWidth, 2});
}

std::vector<float> in_training(const Tensor& x, std::int64_t seed, std::int64_t step) {
  return values<float>(in_mode(x, Mode::kTrain), {}, {{"run_seed", seed}, {"batch_row", 0}, {"step", step}});
}

float pixel(const std::vector<float>& all, std::int64_t row, std::int64_t y, std::int64_t x, std::int64_t c) {
  const bool is_inside = y >= 0 && y < kHeight && x >= 0 && x < kWidth;
  return is_inside ? all[static_cast<std::size_t>(row * kPixels + (y * kWidth + x) * 2 + c)] : 0;
}

// Whether the row is the original moved by (dy, dx), mirrored before if `flipped`.
bool is_moved(const std::vector<float>& got, std::int64_t row, std::int64_t dy, std::int64_t dx,
              bool flipped) {
  const std::vector<float> all = numbered();
  for (std::int64_t i = 0; i < kPixels; ++i) {
    const std::int64_t y = i / (2 * kWidth) + dy;
    const std::int64_t x = i / 2 % kWidth + dx;
    const std::int64_t column = flipped ? kWidth - 1 - x : x;
    if (got[static_cast<std::size_t>(row * kPixels + i)] != pixel(all, row, y, column, i % 2)) {
      return false;
    }
  }
  return true;
}

TEST(Augmentation, FlipMirrorsAboutHalfOfTheRowsAnewInEachStep) {
  std::set<std::vector<bool>> choices;
  for (std::int64_t step = 0; step < 4; ++step) {
    const std::vector<float> got = in_training(random_flip(images()), 3, step);
    std::vector<bool> flipped;
    for (std::int64_t row = 0; row < static_cast<std::int64_t>(kRows); ++row) {
      flipped.push_back(is_moved(got, row, 0, 0, true));
      EXPECT_TRUE(flipped.back() || is_moved(got, row, 0, 0, false)) << row;
    }
    const auto count = std::count(flipped.begin(), flipped.end(), true);
    EXPECT_GT(count, 16);  // of 64: 4 deviations from the mean
    EXPECT_LT(count, 48);
    choices.insert(flipped);
  }
  EXPECT_EQ(choices.size(), 4U);
  EXPECT_EQ(in_training(random_flip(images(), 0), 3, 0), numbered());
  EXPECT_TRUE(is_moved(in_training(random_flip(images(), 1), 3, 0), 5, 0, 0, true));
}

TEST(Augmentation, CropMovesRowsByUpToThePadding) {
  std::set<std::pair<std::int64_t, std::int64_t>> moves;
  for (std::int64_t step = 0; step < 4; ++step) {
    const std::vector<float> got = in_training(random_crop(random_flip(images(), 1), 2), 8, step);
    for (std::int64_t row = 0; row < static_cast<std::int64_t>(kRows); ++row) {
      int matches = 0;
      for (std::int64_t dy = -2; dy <= 2; ++dy) {
        for (std::int64_t dx = -2; dx <= 2; ++dx) {
          if (is_moved(got, row, dy, dx, true)) {
            moves.emplace(dy, dx);
            ++matches;
          }
        }
      }
      EXPECT_EQ(matches, 1) << row;
    }
  }
  EXPECT_EQ(moves.size(), 25U);  // of 256 draws
  EXPECT_EQ(in_training(random_crop(images(), 0), 8, 0), numbered());
}

TEST(Augmentation, DoesNothingInEvaluation) {
  const Tensor x = random_crop(random_flip(images()), 2);
  EXPECT_EQ(values<float>(in_mode(x, Mode::kEval)), numbered());
}

TEST(Augmentation, GradientIsThatOfTheMovedPixels) {
  const Tensor x = placeholder("x", Type::kF32, {kRows, kHeight, kWidth, 2});
  const Tensor loss = in_mode(sum(random_crop(random_flip(x), 2) * 3.0F), Mode::kTrain);
  const auto slope = values<float>(gradients(loss, {x})[0], Leaves().bind(x, numbered()),
                                   {{"run_seed", 8}, {"batch_row", 0}, {"step", 1}});
  const auto moved = in_training(random_crop(random_flip(images()), 2), 8, 1);
  std::set<float> kept(moved.begin(), moved.end());
  for (std::size_t i = 0; i < slope.size(); ++i) {
    EXPECT_EQ(slope[i], kept.contains(static_cast<float>(i + 1)) ? 3.0F : 0.0F) << i;
  }
}

TEST(Augmentation, WrongArgumentsAreErrors) {
  const Tensor flat = placeholder("flat", Type::kF32, {3, 4});
  EXPECT_MESSAGE(
      "random_flip: 'flat' [3, 4] has too few axes for images, which have rows, a height and a width",
      random_flip(flat));
  EXPECT_MESSAGE("random_flip: the probability is 2; it must be from 0 to 1", random_flip(images(), 2));
  const Tensor small = placeholder("small", Type::kF32, {3, 4, 2});
  EXPECT_MESSAGE("random_crop: the padding 2 is not less than the size of axis 2 of 'small' [3, 4, 2]",
                 random_crop(small, 2));
}

}  // namespace
}  // namespace yoke::testing
