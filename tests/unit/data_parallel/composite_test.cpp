// SPDX-License-Identifier: Apache-2.0
// tests/unit/data_parallel/composite_test.cpp: a network with a composite trains like one without.
#include <gtest/gtest.h>

#include <cmath>

#include "common.h"

namespace yoke::testing {
namespace {

constexpr std::uint64_t kRows = 8;

std::vector<Tensor> swish(const std::vector<Tensor>& x) {
  return {x[0] * sigmoid(x[0] * 1.5)};
}

// With `scale`, the gradient of the composite is given, and multiplied by it.
std::vector<float> trained(bool is_composite, float scale = 0) {
  CompositeOptions options = {"swish", swish};
  if (scale != 0) {
    options.backward = [scale](const std::vector<Tensor>& x, const std::vector<Tensor>&,
                               const std::vector<Tensor>& dy) {
      const Tensor s = sigmoid(x[0] * 1.5);
      return std::vector<Tensor>{dy[0] * (s + x[0] * 1.5 * s * (1.0 - s)) * scale};
    };
  }
  std::vector<std::int32_t> labels(kRows);
  for (std::size_t i = 0; i < kRows; ++i) {
    labels[i] = static_cast<std::int32_t>(i % 3);
  }
  const nn::Module first = nn::named("first", nn::linear(16));
  const nn::Module second = nn::named("second", nn::linear(3));
  std::vector<float> values;
  data_parallel(
      options_for(2, 0.5F), tensor(some_numbers(kRows * 5, 3), {kRows, 5}), tensor(labels, {kRows}),
      [&](const Tensor& x, const Tensor& y) {
        const std::vector<Tensor> h = {first(x)};
        return cross_entropy(second(is_composite ? composite(options, h)[0] : swish(h)[0]), y);
      },
      [&](Trainer& trainer) {
        for (int i = 0; i < 4; ++i) {
          trainer.step();
        }
        values = all_values(trainer);
      });
  return values;
}

void expect_close(const std::vector<float>& got, const std::vector<float>& expected) {
  ASSERT_EQ(got.size(), expected.size());
  for (std::size_t i = 0; i < got.size(); ++i) {
    // 4 steps with sums of at most 16 f32 terms.
    EXPECT_NEAR(got[i], expected[i], 4 * 16 * 6e-8 * (1 + std::abs(expected[i]))) << "element " << i;
  }
}

TEST(Composite, TrainsLikeItsOperations) {
  const std::vector<float> expected = trained(false);
  expect_close(trained(true), expected);
  expect_close(trained(true, 1), expected);
}

TEST(Composite, TheGivenGradientIsUsed) {
  EXPECT_NE(trained(true, 2), trained(true, 1));
}

}  // namespace
}  // namespace yoke::testing
