// SPDX-License-Identifier: Apache-2.0
// tests/unit/tensor/ops_test.cpp: values of operations, compared with numbers computed by hand.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "evaluate.h"

namespace yoke {
namespace {

using testing::values;
using Floats = std::vector<float>;
using Longs = std::vector<std::int64_t>;

TEST(OpsTest, ArithmeticBroadcastsLikeNumpy) {
  const Tensor column = tensor<float>({1, 2}, {2, 1});
  const Tensor row = tensor<float>({10, 20, 30}, {3});
  EXPECT_EQ(values<float>(column + row), (Floats{11, 21, 31, 12, 22, 32}));
  EXPECT_EQ(values<float>(row - column), (Floats{9, 19, 29, 8, 18, 28}));
  EXPECT_EQ(values<float>(row * 2.0), (Floats{20, 40, 60}));
  EXPECT_EQ(values<float>(1 / column), (Floats{1, 0.5}));
  EXPECT_EQ(values<float>(-column), (Floats{-1, -2}));
}

TEST(OpsTest, PlainNumbersTakeTheTypeOfTheOtherOperand) {
  EXPECT_EQ((tensor<double>({1}, {1}) * 0.1F).type(), Type::kF64);
  EXPECT_EQ(values<double>(tensor<double>({1}, {1}) * 0.1)[0], 0.1);
  EXPECT_EQ(values<float>(tensor<float>({1}, {1}) * 0.1)[0], 0.1F);
  EXPECT_EQ(values<std::uint8_t>(tensor<std::uint8_t>({250}, {1}) + 10)[0], 4);
  EXPECT_EQ(values<float>(Tensor(0.5) + Tensor(1)), (Floats{1.5}));
  EXPECT_EQ(values<float>(exp(Tensor(0))), (Floats{1}));
  EXPECT_EQ(values<double>(fma(tensor<double>({1}, {1}), 3, 0.25))[0], 3.25);
}

TEST(OpsTest, IntegerDivisionTruncatesAndIsZeroForZeroDivisors) {
  EXPECT_EQ(
      values<std::int64_t>(tensor<std::int64_t>({7, -7, 5}, {3}) / tensor<std::int64_t>({2, 2, 0}, {3})),
      (Longs{3, -3, 0}));
  EXPECT_EQ(
      values<std::int64_t>(tensor<std::int64_t>({7, -7, 5}, {3}) % tensor<std::int64_t>({4, 4, 0}, {3})),
      (Longs{3, -3, 0}));
}

TEST(OpsTest, ComparisonsSelectAndLogicalOperations) {
  const Tensor x = tensor<float>({1, 2, 3}, {3});
  EXPECT_EQ(values<float>(where(x > 1.5, x, 0)), (Floats{0, 2, 3}));
  EXPECT_EQ(values<float>(where(logical_and(x >= 2, logical_not(equal(x, 3))), 1.0F, -x)),
            (Floats{-1, 1, -3}));
  EXPECT_EQ(values<float>(cast(logical_or(x < 2, not_equal(x, 2)), Type::kF32)), (Floats{1, 0, 1}));
  EXPECT_EQ(values<float>(cast(x <= 2, Type::kF32)), (Floats{1, 1, 0}));
}

TEST(OpsTest, BitOperations) {
  const Tensor x = tensor<std::uint32_t>({12, 10}, {2});
  EXPECT_EQ(values<std::uint32_t>(bit_and(x, 6)), (std::vector<std::uint32_t>{4, 2}));
  EXPECT_EQ(values<std::uint32_t>(bit_or(x, 3)), (std::vector<std::uint32_t>{15, 11}));
  EXPECT_EQ(values<std::uint32_t>(bit_xor(x, x)), (std::vector<std::uint32_t>{0, 0}));
  EXPECT_EQ(values<std::uint32_t>(shift_right(shift_left(bit_not(x), 4), 4)),
            (std::vector<std::uint32_t>{0x0FFFFFF3, 0x0FFFFFF5}));
}

TEST(OpsTest, UnaryFunctions) {
  const double at = 0.7;
  const std::pair<Tensor (*)(const Tensor&), double> functions[] = {
      {exp, std::exp(at)},
      {exp2, std::exp2(at)},
      {expm1, std::expm1(at)},
      {log, std::log(at)},
      {log2, std::log2(at)},
      {log1p, std::log1p(at)},
      {sqrt, std::sqrt(at)},
      {rsqrt, 1 / std::sqrt(at)},
      {recip, 1 / at},
      {sin, std::sin(at)},
      {cos, std::cos(at)},
      {tanh, std::tanh(at)},
      {sigmoid, 1 / (1 + std::exp(-at))},
      {erf, std::erf(at)},
      {erfc, std::erfc(at)},
      {abs, at},
      {sign, 1},
      {floor, 0},
      {ceil, 1},
      {round, 1},
      {trunc, 0},
      {square, at * at},
      {relu, at},
      {gelu, at * (1 + std::erf(at / std::sqrt(2.0))) / 2}};
  int number = 0;
  for (const auto& [function, expected] : functions) {
    EXPECT_NEAR(values<double>(function(tensor<double>({at}, {1})))[0], expected, 1e-15)
        << "function number " << number;
    ++number;
  }
  EXPECT_NEAR(values<double>(pow(tensor<double>({at}, {1}), 2.5))[0], std::pow(at, 2.5), 1e-15);
}

TEST(OpsTest, CastsTruncateAndNonzeroBecomesTrue) {
  EXPECT_EQ(values<std::int32_t>(cast(tensor<float>({1.9F, -1.9F}, {2}), Type::kI32)),
            (std::vector<std::int32_t>{1, -1}));
  EXPECT_EQ(values<float>(cast(cast(tensor<float>({0, 0.5F}, {2}), Type::kBool), Type::kF32)),
            (Floats{0, 1}));
}

TEST(OpsTest, Reductions) {
  const Tensor x = tensor<float>({1, 5, 3, 4, 2, 6}, {2, 3});
  EXPECT_EQ(values<float>(sum(x)), (Floats{21}));
  EXPECT_EQ(values<float>(sum(x, {0})), (Floats{5, 7, 9}));
  EXPECT_EQ(values<float>(mean(x, {1})), (Floats{3, 4}));
  EXPECT_EQ(values<float>(prod(x, {-1})), (Floats{15, 48}));
  EXPECT_EQ(values<float>(max(x, {1})), (Floats{5, 6}));
  EXPECT_EQ(values<float>(min(x, {0})), (Floats{1, 2, 3}));
  EXPECT_EQ(sum(x, {1}, true).dims(), (Dims{2, 1}));
  EXPECT_EQ(values<float>(x - max(x, {1}, true)), (Floats{-4, 0, -2, -2, -4, 0}));
  EXPECT_EQ(values<float>(cast(any(x > 5, {1}), Type::kF32)), (Floats{0, 1}));
  EXPECT_EQ(values<float>(cast(all(x > 1, {1}), Type::kF32)), (Floats{0, 1}));
}

TEST(OpsTest, ArgmaxAndArgminReturnTheLowestIndex) {
  const Tensor x = tensor<float>({1, 5, 5, 4, 2, 4}, {2, 3});
  EXPECT_EQ(values<std::int64_t>(argmax(x)), (Longs{1, 0}));
  EXPECT_EQ(values<std::int64_t>(argmin(x, 0)), (Longs{0, 1, 1}));
  EXPECT_EQ(argmax(x, 1, true).dims(), (Dims{2, 1}));
}

TEST(OpsTest, SumsOfSmallIntegersDoNotWrap) {
  EXPECT_EQ(values<std::int64_t>(sum(tensor<std::uint8_t>({200, 100}, {2}))), (Longs{300}));
  EXPECT_EQ(values<std::int64_t>(sum(tensor<float>({1, 2, 3}, {3}) > 1.5)), (Longs{2}));
}

TEST(OpsTest, MaximumAndMinimumPropagateNan) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const Tensor x = tensor<float>({nan, 1}, {2});
  EXPECT_TRUE(std::isnan(values<float>(maximum(x, 0))[0]));
  EXPECT_TRUE(std::isnan(values<float>(relu(x))[0]));
  EXPECT_TRUE(std::isnan(values<float>(min(x))[0]));
}

TEST(OpsTest, ReshapeKeepsTheRowMajorOrder) {
  std::vector<float> numbers(24);
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    numbers[i] = static_cast<float>(i);
  }
  const Tensor x = tensor<float>(numbers, {4, 6});
  for (const Dims& dims : {Dims{24}, Dims{2, 12}, Dims{2, 2, 3, 2}, Dims{3, 8}, Dims{8, 3}, Dims{1, 4, 1, 6},
                           Dims{4, 6, 1}, Dims{6, 4}}) {
    EXPECT_EQ(values<float>(reshape(x, dims)), numbers) << dims_text(dims);
    EXPECT_EQ(values<float>(reshape(reshape(x + 1.0, dims), {12, 2}) - 1.0), numbers) << dims_text(dims);
  }
  EXPECT_EQ(values<float>(reshape(transpose(x), {24}))[1], 6.0F);
}

TEST(OpsTest, ReshapeThatSplitsAnAxisIsAView) {
  const Tensor x = placeholder("x", Type::kF32, {5, 24});
  EXPECT_EQ(lower("p", {{"y", sum(reshape(x, {5, 4, 6}), {1})}}).program.statements.size(), 1U);
}

TEST(OpsTest, SliceAndConcat) {
  const Tensor x = tensor<float>({1, 2, 3, 4, 5, 6}, {2, 3});
  EXPECT_EQ(values<float>(slice(x, 1, 1, 3)), (Floats{2, 3, 5, 6}));
  EXPECT_EQ(values<float>(concat({slice(x, 1, 2, 3), x * 10.0}, 1)), (Floats{3, 10, 20, 30, 6, 40, 50, 60}));
  EXPECT_EQ(values<float>(concat({x, x}, 0)), (Floats{1, 2, 3, 4, 5, 6, 1, 2, 3, 4, 5, 6}));
}

TEST(OpsTest, RowsFollowTheSymbol) {
  const Tensor x = tensor<float>({0, 1, 2, 3, 4, 5}, {6});
  const Symbol row{"row", 0, 6, 2};
  EXPECT_EQ(values<float>(rows(x, row, 2), {}, {{"row", 4}}), (Floats{4, 5}));
  EXPECT_EQ(values<float>(x[Symbol{"k", 0, 6, 1}], {}, {{"k", 3}}), (Floats{3}));
  EXPECT_EQ(values<std::int64_t>(symbol_value(row) * 10, {}, {{"row", 2}}), (Longs{20}));
}

TEST(OpsTest, TakeReturnsZerosForIndicesOutOfRange) {
  const Tensor table = tensor<float>({1, 2, 3, 4}, {2, 2});
  const Tensor ids = tensor<std::int32_t>({1, 0, 2, -1}, {2, 2});
  EXPECT_EQ(values<float>(take(table, ids)), (Floats{3, 4, 1, 2, 0, 0, 0, 0}));
  EXPECT_EQ(values<float>(take(exp(table - table), ids)), (Floats{1, 1, 1, 1, 0, 0, 0, 0}));
  EXPECT_EQ(values<float>(take(slice(concat({table, table}, 0), 0, 1, 3), ids)),
            (Floats{1, 2, 3, 4, 0, 0, 0, 0}))
      << "an index out of range for the slice gives 0, even if the sliced tensor has such a row";
}

TEST(OpsTest, OneHot) {
  EXPECT_EQ(values<float>(one_hot(tensor<std::uint8_t>({2, 0, 3}, {3}), 3)),
            (Floats{0, 0, 1, 1, 0, 0, 0, 0, 0}));
}

TEST(OpsTest, IotaFullAndZeros) {
  EXPECT_EQ(values<std::int64_t>(iota({2, 3}, -1)), (Longs{0, 1, 2, 0, 1, 2}));
  EXPECT_EQ(values<float>(full(Type::kF32, {2}, 0.1)), (Floats{0.1F, 0.1F}));
  EXPECT_EQ(values<double>(zeros(Type::kF64, {2})), (std::vector<double>{0, 0}));
}

TEST(OpsTest, SixteenBitFloatsRoundAfterEachOperation) {
  const Tensor x = cast(tensor<float>({1.0F, 256.0F}, {2}), Type::kBF16);
  EXPECT_EQ(values<float>(cast(x + 1.0, Type::kF32)), (Floats{2, 256}));
}

}  // namespace
}  // namespace yoke
