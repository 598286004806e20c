// SPDX-License-Identifier: Apache-2.0
// tests/unit/tensor/einsum_test.cpp: einsum compared with explicit loops.
#include <gtest/gtest.h>

#include "evaluate.h"

namespace yoke {
namespace {

using testing::values;

// A tensor of consecutive numbers.
Tensor counting(const Dims& dims, double first = 1) {
  std::vector<double> numbers(element_count(dims));
  for (double& number : numbers) {
    number = first++;
  }
  return tensor<double>(numbers, dims);
}

double at(std::uint64_t flat, double first = 1) {
  return first + static_cast<double>(flat);
}

TEST(EinsumTest, DenseLayer) {
  const auto y = values<double>(einsum("b i; o i => b o", counting({2, 3}), counting({4, 3})));
  for (std::uint64_t b = 0; b < 2; ++b) {
    for (std::uint64_t o = 0; o < 4; ++o) {
      double expected = 0;
      for (std::uint64_t i = 0; i < 3; ++i) {
        expected += at(b * 3 + i) * at(o * 3 + i);
      }
      EXPECT_EQ(y[b * 4 + o], expected);
    }
  }
}

TEST(EinsumTest, AcceptsWordsAsIndices) {
  EXPECT_EQ(values<double>(einsum("batch in; out in => out batch", counting({2, 3}), counting({4, 3}))),
            values<double>(einsum("b i; o i => o b", counting({2, 3}), counting({4, 3}))));
}

TEST(EinsumTest, IgnoresExtraSpaces) {
  EXPECT_EQ(values<double>(einsum("  b   i ;o i=>b o  ", counting({2, 3}), counting({4, 3}))),
            values<double>(einsum("b i; o i => b o", counting({2, 3}), counting({4, 3}))));
}

TEST(EinsumTest, TransposeIsAView) {
  const Tensor x = counting({2, 3});
  const Tensor y = einsum("a b => b a", x);
  EXPECT_EQ(y.dims(), (Dims{3, 2}));
  EXPECT_EQ(values<double>(y), (std::vector<double>{1, 4, 2, 5, 3, 6}));
  EXPECT_EQ(lower("p", {{"y", matmul(x, y)}}).program.statements.size(), 1U);
}

TEST(EinsumTest, SumsOverIndicesMissingInTheResult) {
  EXPECT_EQ(values<double>(einsum("a b => a", counting({2, 3}))), (std::vector<double>{6, 15}));
  EXPECT_EQ(values<double>(einsum("a b => ", counting({2, 3}))), (std::vector<double>{21}));
}

TEST(EinsumTest, RepeatedIndexSelectsTheDiagonal) {
  EXPECT_EQ(values<double>(einsum("i i => i", counting({3, 3}))), (std::vector<double>{1, 5, 9}));
  EXPECT_EQ(values<double>(einsum("i i =>", counting({3, 3}))), (std::vector<double>{15}));
  EXPECT_EQ(values<double>(einsum("i i; i => i", counting({2, 2}), counting({2}))),
            (std::vector<double>{1, 8}));
}

TEST(EinsumTest, OuterProductAndElementwiseProduct) {
  EXPECT_EQ(values<double>(einsum("a; b => a b", counting({2}), counting({3}))),
            (std::vector<double>{1, 2, 3, 2, 4, 6}));
  EXPECT_EQ(values<double>(einsum("a; a => a", counting({3}), counting({3}))),
            (std::vector<double>{1, 4, 9}));
  EXPECT_EQ(values<double>(einsum("; a => a", Tensor(counting({}, 2)), counting({3}))),
            (std::vector<double>{2, 4, 6}));
}

TEST(EinsumTest, EllipsisStandsForAnyNumberOfAxes) {
  const Tensor x = counting({2, 3, 4});
  EXPECT_EQ(values<double>(einsum("... i => ...", x)), values<double>(sum(x, {-1})));
  EXPECT_EQ(values<double>(einsum("i ... => ... i", x)), values<double>(permute(x, {1, 2, 0})));
  EXPECT_EQ(values<double>(einsum("a ... b => b ... a", x)), values<double>(permute(x, {2, 1, 0})));
  EXPECT_EQ(einsum("... i; o i => ... o", x, counting({5, 4})).dims(), (Dims{2, 3, 5}));
  EXPECT_EQ(einsum("... i; o i => ... o", counting({4}), counting({5, 4})).dims(), (Dims{5}));
}

TEST(EinsumTest, EllipsisBroadcastsLikeNumpy) {
  const auto y = values<double>(einsum("... i; ... i => ... i", counting({2, 1, 2}), counting({3, 2})));
  ASSERT_EQ(y.size(), 12U);
  for (std::uint64_t a = 0; a < 2; ++a) {
    for (std::uint64_t b = 0; b < 3; ++b) {
      for (std::uint64_t i = 0; i < 2; ++i) {
        EXPECT_EQ(y[(a * 3 + b) * 2 + i], at(a * 2 + i) * at(b * 2 + i));
      }
    }
  }
}

TEST(EinsumTest, SumsOverEllipsisMissingInTheResult) {
  EXPECT_EQ(values<double>(einsum("... i => i", counting({2, 3, 2}))), (std::vector<double>{36, 42}));
}

TEST(EinsumTest, ThreeOperands) {
  const auto y =
      values<double>(einsum("a b; b c; c => a", counting({2, 3}), counting({3, 2}), counting({2})));
  for (std::uint64_t a = 0; a < 2; ++a) {
    double expected = 0;
    for (std::uint64_t b = 0; b < 3; ++b) {
      for (std::uint64_t c = 0; c < 2; ++c) {
        expected += at(a * 3 + b) * at(b * 2 + c) * at(c);
      }
    }
    EXPECT_EQ(y[a], expected);
  }
}

TEST(EinsumTest, ConstantOperandsScaleTheSum) {
  EXPECT_EQ(values<double>(einsum("a b; a b => a", counting({2, 3}), full(Type::kF64, {2, 3}, 2))),
            (std::vector<double>{12, 30}));
  EXPECT_EQ(values<double>(einsum("a b => a", full(Type::kF64, {2, 3}, 2))), (std::vector<double>{6, 6}));
}

TEST(EinsumTest, SixteenBitFloatsAccumulateInF32) {
  const Tensor x = placeholder("x", Type::kBF16, {2, 3});
  const std::string text = testing::text_of(einsum("a i; b i => a b", x, x));
  EXPECT_NE(text.find("sum:f32[k]"), std::string::npos) << text;
}

TEST(EinsumTest, AcceptsIntegers) {
  EXPECT_EQ(values<std::int32_t>(einsum("a i; i => a", tensor<std::int32_t>({1, 2, 3, 4}, {2, 2}),
                                        tensor<std::int32_t>({5, 6}, {2}))),
            (std::vector<std::int32_t>{17, 39}));
}

}  // namespace
}  // namespace yoke
