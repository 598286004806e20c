// SPDX-License-Identifier: Apache-2.0
// tests/unit/tensor/view_test.cpp: values of views and selections, and the programs that they become.
#include <gtest/gtest.h>

#include <limits>
#include <numeric>

#include "evaluate.h"

namespace yoke {
namespace {

using testing::text_of;
using testing::values;
using Floats = std::vector<float>;

Tensor counting(const Dims& dims) {
  Floats numbers(element_count(dims));
  std::iota(numbers.begin(), numbers.end(), 1.0F);
  return tensor(numbers, dims);
}

std::size_t statement_count(const Tensor& x) {
  return lower("p", {{"y", x}}).program.statements.size();
}

TEST(ViewTest, SlicesTakeEveryStepthElement) {
  EXPECT_EQ(values<float>(slice(counting({7}), 0, 1, 7, 3)), (Floats{2, 5}));
  EXPECT_EQ(values<float>(slice(counting({7}), 0, 0, 7, 3)), (Floats{1, 4, 7}));
  EXPECT_EQ(values<float>(slice(counting({7}), 0, 2, 5, 100)), (Floats{3}));
}

TEST(ViewTest, FlipReversesAxes) {
  EXPECT_EQ(values<float>(flip(counting({2, 3}), {1})), (Floats{3, 2, 1, 6, 5, 4}));
  EXPECT_EQ(values<float>(flip(counting({2, 3}))), (Floats{6, 5, 4, 3, 2, 1}));
}

TEST(ViewTest, RollMovesElementsForwardAndBackward) {
  EXPECT_EQ(values<float>(roll(counting({4}), 1)), (Floats{4, 1, 2, 3}));
  EXPECT_EQ(values<float>(roll(counting({4}), -5)), (Floats{2, 3, 4, 1}));
  EXPECT_EQ(values<float>(roll(counting({2, 2}), 2, 1)), (Floats{1, 2, 3, 4}));
  EXPECT_EQ(values<float>(slice(flip(roll(roll(counting({5}), 1), 2)), 0, 1, 4)), (Floats{1, 5, 4}));
  const float infinity = std::numeric_limits<float>::infinity();
  EXPECT_EQ(values<float>(roll(tensor<float>({infinity, 1}, {2}), 1)), (Floats{1, infinity}));
}

TEST(ViewTest, RollIsReadInPlaceAndSoIsItsGradient) {
  const Tensor x = placeholder("x", Type::kF32, {4, 5});
  const Tensor w = placeholder("w", Type::kF32, {4, 5});
  EXPECT_EQ(statement_count(exp(roll(x, 2, 1))), 1U) << text_of(exp(roll(x, 2, 1)));
  const Tensor slope = gradients(sum(roll(x, 2, 1) * w), {x})[0];
  EXPECT_EQ(statement_count(slope), 1U) << text_of(slope);
}

TEST(ViewTest, PadAddsAValueAroundTheTensor) {
  EXPECT_EQ(values<float>(pad(counting({2}), {{1, 2}})), (Floats{0, 1, 2, 0, 0}));
  const float low = -std::numeric_limits<float>::infinity();
  EXPECT_EQ(values<float>(pad(counting({1, 2}), {{1, 0}, {0, 1}}, low)), (Floats{low, low, low, 1, 2, low}));
  EXPECT_EQ(values<float>(pad(pad(counting({1}), {{1, 1}}, 7), {{1, 1}}, 8)), (Floats{8, 7, 1, 7, 8}));
  EXPECT_EQ(values<float>(pad(full(Type::kF32, {2}, 5), {{1, 0}})), (Floats{0, 5, 5}));
  EXPECT_EQ(values<std::int32_t>(pad(tensor<std::int32_t>({4}, {1}), {{1, 0}}, -3)),
            (std::vector<std::int32_t>{-3, 4}));
}

TEST(ViewTest, PaddingHidesWhatASliceLeftOut) {
  const Tensor middle = slice(counting({4}), 0, 1, 3);
  EXPECT_EQ(values<float>(pad(middle, {{1, 1}})), (Floats{0, 2, 3, 0}));
  EXPECT_EQ(values<float>(pad(slice(counting({4}), 0, 0, 2), {{0, 1}})), (Floats{1, 2, 0}));
  EXPECT_EQ(values<float>(take(slice(counting({4}), 0, 0, 2), tensor<std::int32_t>({1, 2}, {2}))),
            (Floats{2, 0}));
  EXPECT_EQ(values<float>(pad(slice(counting({5}), 0, 0, 5, 2), {{1, 1}})), (Floats{0, 1, 3, 5, 0}));
}

TEST(ViewTest, SplitAndStack) {
  const auto halves = split(counting({4, 1}), 2);
  ASSERT_EQ(halves.size(), 2U);
  EXPECT_EQ(values<float>(halves[1]), (Floats{3, 4}));
  const auto parts = split(counting({2, 3}), Dims{1, 2}, -1);
  EXPECT_EQ(values<float>(parts[1]), (Floats{2, 3, 5, 6}));
  const Tensor x = counting({2});
  EXPECT_EQ(values<float>(stack({x, x * 10.0})), (Floats{1, 2, 10, 20}));
  EXPECT_EQ(values<float>(stack({x, x * 10.0}, -1)), (Floats{1, 10, 2, 20}));
}

TEST(ViewTest, WindowsOverlap) {
  const Tensor x = counting({6});
  EXPECT_EQ(values<float>(windows(x, 0, 3, 2)), (Floats{1, 2, 3, 3, 4, 5}));
  EXPECT_EQ(values<float>(windows(x, 0, 2, 1, 4)), (Floats{1, 5, 2, 6}));
  EXPECT_EQ(windows(counting({2, 7, 3}), 1, 4, 2).dims(), (Dims{2, 2, 3, 4}));
}

TEST(ViewTest, ViewsOfViewsAreOneRead) {
  const Tensor x = placeholder("x", Type::kF32, {9});
  const Tensor y = flip(windows(pad(x, {{2, 2}}), 0, 3, 2));
  EXPECT_NE(text_of(y).find("(x[-2*i - j + 10] else 0)"), std::string::npos) << text_of(y);
  EXPECT_EQ(statement_count(y), 1U);
  const Tensor inside = slice(pad(x, {{2, 2}}), 0, 3, 9);
  EXPECT_EQ(text_of(inside).find("else"), std::string::npos) << text_of(inside);
  EXPECT_TRUE(slice(pad(x, {{2, 2}}), 0, 2, 11).is(x));
  EXPECT_TRUE(flip(flip(x)).is(x));
}

TEST(ViewTest, AConvolutionAndItsGradientsAreOneSumEach) {
  const Tensor x = placeholder("x", Type::kF32, {2, 3, 9});
  const Tensor w = placeholder("w", Type::kF32, {4, 3, 3});
  const Tensor y = einsum("bcik,dck->bdi", windows(pad(x, {{0, 0}, {0, 0}, {1, 1}}), 2, 3, 2), w);
  EXPECT_EQ(statement_count(y), 1U) << text_of(y);
  const Tensor upstream = placeholder("dy", Type::kF32, y.dims());
  const auto slopes = gradients(sum(y * upstream), {x, w});
  EXPECT_EQ(statement_count(slopes[0]), 1U) << text_of(slopes[0]);
  EXPECT_EQ(statement_count(slopes[1]), 1U) << text_of(slopes[1]);
  EXPECT_NE(text_of(slopes[0]).find("/ 2] * w[m, j, l] else 0)"), std::string::npos) << text_of(slopes[0]);
}

TEST(ViewTest, ProductsOutsideOfTheSourceAreZeroEvenForInfiniteFactors) {
  const float infinity = std::numeric_limits<float>::infinity();
  const Tensor patches = windows(pad(counting({2}), {{1, 1}}), 0, 3);
  EXPECT_EQ(values<float>(einsum("ik,k->i", patches, tensor<float>({infinity, 1, 1}, {3}))),
            (Floats{3, infinity}));
}

TEST(ViewTest, TakeReplacesAnAxisByTheAxesOfTheIndices) {
  const Tensor x = counting({2, 3});
  const Tensor ids = tensor<std::uint8_t>({2, 0, 3, 1}, {2, 2});
  EXPECT_EQ(take(x, ids, 1).dims(), (Dims{2, 2, 2}));
  EXPECT_EQ(values<float>(take(x, ids, 1)), (Floats{3, 1, 0, 2, 6, 4, 0, 5}));
  EXPECT_EQ(values<float>(take(x, tensor<std::int32_t>({1}, {}), -2)), (Floats{4, 5, 6}));
}

TEST(ViewTest, TakeAlongAxisPicksElements) {
  const Tensor x = counting({2, 3});
  EXPECT_EQ(values<float>(take_along_axis(x, tensor<std::int32_t>({2, 0, 1, 3}, {2, 2}), 1)),
            (Floats{3, 1, 5, 0}));
  EXPECT_EQ(values<float>(take_along_axis(x, tensor<std::int32_t>({1, 0, -1}, {1, 3}), 0)),
            (Floats{4, 2, 0}));
}

TEST(ViewTest, DynamicSliceStartsAtNumbersSymbolsAndTensors) {
  const Tensor x = counting({3, 4});
  const Symbol row{"row", 0, 2, 1};
  EXPECT_EQ(values<float>(dynamic_slice(x, {row, 1}, {2, 2}), {}, {{"row", 1}}), (Floats{6, 7, 10, 11}));
  const Tensor start = tensor<std::int32_t>({2}, {});
  EXPECT_EQ(values<float>(dynamic_slice(x, {row, start}, {1, 2}), {}, {{"row", 1}}), (Floats{7, 8}));
  const Tensor far = tensor<std::int64_t>({100}, {});
  EXPECT_EQ(values<float>(dynamic_slice(x, {far, far * -1}, {1, 2})), (Floats{9, 10})) << "as in JAX";
  EXPECT_EQ(values<float>(dynamic_slice(x, {100, -5}, {1, 2})), (Floats{9, 10}));
  EXPECT_TRUE(dynamic_slice(x, {0, 0}, {3, 4}).is(x));
}

}  // namespace
}  // namespace yoke
