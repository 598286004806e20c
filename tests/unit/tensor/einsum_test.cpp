// SPDX-License-Identifier: Apache-2.0
// tests/unit/tensor/einsum_test.cpp: einsum compared with the results of numpy.einsum.
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

using Values = std::vector<double>;

TEST(EinsumTest, DenseLayer) {
  const Values expected = {14, 32, 50, 68, 32, 77, 122, 167};
  for (const char* spec : {"b i; o i => b o", "batch in; out in => batch out", "  b   i ;o i=>b o  "}) {
    EXPECT_EQ(values<double>(einsum(spec, counting({2, 3}), counting({4, 3}))), expected) << spec;
  }
}

TEST(EinsumTest, NumpyNotationEqualsThatOfWords) {
  const Tensor a = counting({2, 3});
  const Tensor b = counting({4, 3});
  const auto expected = values<double>(einsum("b i; o i => b o", a, b));
  for (const char* spec : {"bi,oi->bo", " b i , o i -> b o ", "zi,Ai->zA"}) {
    EXPECT_EQ(values<double>(einsum(spec, a, b)), expected) << spec;
  }
  const Tensor c = counting({5, 2, 3});
  EXPECT_EQ(values<double>(einsum("...i,oi->...o", c, b)),
            values<double>(einsum("... i; o i => ... o", c, b)));
  EXPECT_EQ(values<double>(einsum("ij->", a)), (Values{21}));
  EXPECT_EQ(values<double>(einsum(",a->a", Tensor(counting({}, 2)), counting({3}))), (Values{2, 4, 6}));
}

TEST(EinsumTest, WithoutAnArrowTheResultHasTheIndicesThatOccurOnce) {
  const Tensor x = counting({2, 3});
  EXPECT_EQ(values<double>(einsum("ba", x)), values<double>(transpose(x))) << "in alphabetical order";
  EXPECT_EQ(values<double>(einsum("bi,oi", x, counting({4, 3}))),
            values<double>(einsum("bi,oi->bo", x, counting({4, 3}))));
  EXPECT_EQ(values<double>(einsum("ii", counting({3, 3}))), (Values{15}));
  EXPECT_EQ(einsum("b...a", counting({2, 5, 3})).dims(), (Dims{5, 3, 2})) << "`...` comes first";
}

TEST(EinsumTest, TransposeIsAView) {
  const Tensor x = counting({2, 3});
  const Tensor y = einsum("a b => b a", x);
  EXPECT_EQ(y.dims(), (Dims{3, 2}));
  EXPECT_EQ(values<double>(y), (Values{1, 4, 2, 5, 3, 6}));
  EXPECT_EQ(lower("p", {{"y", matmul(x, y)}}).program.statements.size(), 1U);
}

TEST(EinsumTest, SumsOverIndicesMissingInTheResult) {
  EXPECT_EQ(values<double>(einsum("a b => a", counting({2, 3}))), (Values{6, 15}));
  EXPECT_EQ(values<double>(einsum("a b => ", counting({2, 3}))), (Values{21}));
}

TEST(EinsumTest, RepeatedIndexSelectsTheDiagonal) {
  EXPECT_EQ(values<double>(einsum("i i => i", counting({3, 3}))), (Values{1, 5, 9}));
  EXPECT_EQ(values<double>(einsum("i i =>", counting({3, 3}))), (Values{15}));
  EXPECT_EQ(values<double>(einsum("i i; i => i", counting({2, 2}), counting({2}))), (Values{1, 8}));
}

TEST(EinsumTest, OuterProductAndElementwiseProduct) {
  EXPECT_EQ(values<double>(einsum("a; b => a b", counting({2}), counting({3}))), (Values{1, 2, 3, 2, 4, 6}));
  EXPECT_EQ(values<double>(einsum("a; a => a", counting({3}), counting({3}))), (Values{1, 4, 9}));
  EXPECT_EQ(values<double>(einsum("; a => a", Tensor(counting({}, 2)), counting({3}))), (Values{2, 4, 6}));
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
  EXPECT_EQ(values<double>(einsum("... i; ... i => ... i", counting({2, 1, 2}), counting({3, 2}))),
            (Values{1, 4, 3, 8, 5, 12, 3, 8, 9, 16, 15, 24}));
  EXPECT_EQ(values<double>(einsum("... i => i", counting({2, 3, 2}))), (Values{36, 42})) << "a sum";
}

TEST(EinsumTest, ThreeOperands) {
  EXPECT_EQ(values<double>(einsum("a b; b c; c => a", counting({2, 3}), counting({3, 2}), counting({2}))),
            (Values{78, 177}));
}

TEST(EinsumTest, SumsOfIndicesAreWindows) {
  const Tensor x = counting({2, 11, 3});
  const Tensor w = counting({3, 3, 4});
  const struct {
    const char* axis;
    std::uint64_t stride;
    std::uint64_t dilation;
  } cases[] = {{"o+k", 1, 1},     {"2*o+k", 2, 1},  {"o+3*k", 1, 3},
               {"3*o+2*k", 3, 2}, {"2*o<+k", 2, 1}, {"1*o+1*k", 1, 1}};
  for (const auto& [axis, stride, dilation] : cases) {
    const std::string spec = "b " + std::string(axis) + " c; k c d => b o d";
    EXPECT_EQ(values<double>(einsum(spec, x, w)),
              values<double>(einsum("b o c k; k c d => b o d", windows(x, 1, 3, stride, dilation), w)))
        << axis;
    EXPECT_EQ(einsum(spec, x, w).dims(), (Dims{2, (11 - 1 - 2 * dilation) / stride + 1, 4})) << axis;
  }
  // The size of the other index may be the known one, or both.
  EXPECT_EQ(values<double>(einsum("2*o+k; o => k", counting({9}), counting({3}))),
            values<double>(einsum("o k; o => k", windows(counting({9}), 0, 5, 2), counting({3}))));
  EXPECT_EQ(values<double>(einsum("2*o+k; o; k => o", counting({9}), counting({2}), counting({3}))),
            values<double>(einsum("o k; o; k => o", slice(windows(counting({9}), 0, 3, 2), 0, 0, 2),
                                  counting({2}), counting({3}))));
}

TEST(EinsumTest, WindowsOfTwoAxesAreAConvolution) {
  const Tensor x = counting({2, 7, 8, 2});
  const Tensor w = counting({3, 2, 2, 5});
  const Tensor explicit_windows = windows(windows(x, 1, 3, 2), 2, 2, 1, 3);
  EXPECT_EQ(values<double>(einsum("b 2*y+i x+3*j c; i j c d => b y x d", x, w)),
            values<double>(einsum("b y x c i j; i j c d => b y x d", explicit_windows, w)));
  EXPECT_EQ(einsum("... 2*y+i x; i => ... y x", counting({4, 5, 7, 8}), counting({3})).dims(),
            (Dims{4, 5, 3, 8}));
}

TEST(EinsumTest, PaddedWindowsAreAsManyAsStrides) {
  for (const std::uint64_t size : {5U, 6U, 7U, 8U}) {
    for (const std::uint64_t count : {1U, 2U, 3U, 4U}) {
      const Tensor x = counting({size});
      const Tensor w = counting({count});
      const std::uint64_t outputs = (size + 1) / 2;
      const std::uint64_t span = (outputs - 1) * 2 + count;
      const std::uint64_t zeros = span > size ? span - size : 0;
      const Tensor padded = pad(x, {{zeros / 2, zeros - zeros / 2}});
      EXPECT_EQ(values<double>(einsum("2*o=+k; k => o", x, w)),
                values<double>(einsum("o k; k => o", windows(padded, 0, count, 2), w)))
          << size << ", " << count;
    }
  }
}

TEST(EinsumTest, NumbersAndStridesSelectElements) {
  const Tensor x = counting({3, 4});
  EXPECT_EQ(values<double>(einsum("i 2 => i", x)), (Values{3, 7, 11}));
  EXPECT_EQ(values<double>(einsum("1 2*j => j", x)), (Values{5, 7}));
  EXPECT_EQ(values<double>(einsum("... 0; 3*k => ... k", x, counting({4}))), (Values{1, 4, 5, 20, 9, 36}));
}

TEST(EinsumTest, GradientsOfWindowsAreThoseOfExplicitOnes) {
  const Tensor x = placeholder("x", Type::kF64, {2, 10, 3});
  const Tensor w = placeholder("w", Type::kF64, {3, 3, 4});
  testing::Leaves leaves;
  leaves.bind(x, values<double>(counting({2, 10, 3}))).bind(w, values<double>(counting({3, 3, 4})));
  for (const bool is_padded : {false, true}) {
    const Tensor y = einsum(is_padded ? "b 3*o=+2*k c; k c d => b o d" : "b 3*o+2*k c; k c d => b o d", x, w);
    const Tensor whole = is_padded ? pad(x, {{0, 0}, {2, 2}, {0, 0}}) : x;
    const Tensor expected = einsum("b o c k; k c d => b o d", windows(whole, 1, 3, 3, 2), w);
    ASSERT_EQ(values<double>(y, leaves), values<double>(expected, leaves));
    const auto slopes = gradients(sum(square(y)), {x, w});
    const auto known = gradients(sum(square(expected)), {x, w});
    for (std::size_t i = 0; i < 2; ++i) {
      EXPECT_EQ(values<double>(slopes[i], leaves), values<double>(known[i], leaves))
          << is_padded << ", " << i;
    }
  }
}

TEST(EinsumTest, ErrorsOfWindowsNameTheSizesAndWhereTheyCameFrom) {
  const Tensor x = placeholder("x", Type::kF32, {8});
  const Tensor w = placeholder("w", Type::kF32, {9});
  const Tensor y = placeholder("y", Type::kF32, {5});
  const Tensor v = placeholder("v", Type::kF32, {3});
  EXPECT_MESSAGE("einsum \"2*o+k; k => o\": 2*o+k of 'x' [8] has 8 elements, too few where k is 9 in 'w' [9]",
                 einsum("2*o+k; k => o", x, w));
  EXPECT_MESSAGE(
      "einsum \"2*o+k; o; k => o\": 2*o+k of 'x' [8] has 8 elements, too few where o is 5 in 'y' [5] and k "
      "is 3 "
      "in 'v' [3]",
      einsum("2*o+k; o; k => o", x, y, v));
  EXPECT_MESSAGE(
      "einsum \"2*o+k; k; o+j; j => o\": o+j of 'y' [5] has 5 elements, too few where o is 3 in 2*o+k of 'x' "
      "[8], "
      "where k is 3 in 'v' [3] and j is 9 in 'w' [9]",
      einsum("2*o+k; k; o+j; j => o", x, v, y, w));
  EXPECT_MESSAGE("einsum \"2*o=+k; o; k => o\": index o is 5 in 'y' [5] but 4 in 2*o=+k of 'x' [8]",
                 einsum("2*o=+k; o; k => o", x, y, v));
  EXPECT_MESSAGE(
      "einsum \"2*o+k => o\": the sizes of o and k in 2*o+k of 'x' [8] are not known; an operand needs the "
      "index k "
      "or o",
      einsum("2*o+k => o", x));
  EXPECT_MESSAGE("einsum \"8 => \": element 8 is out of range for axis 0 of 'x' [8]", einsum("8 => ", x));
  EXPECT_MESSAGE("einsum \"k => 2*k\": index 2*k of the result must be a letter or a word",
                 einsum("k => 2*k", x));
  for (const char* spec :
       {"2*o+ => o", "0*o+k; k => o", "o+o => o", "2* => ", "2*o+2 => o", "o- => o", "2o => o"}) {
    EXPECT_EQ(test::error_of([&] { (void)einsum(spec, x); }).code(), ErrorCode::kInvalidArgument) << spec;
  }
}

// The definition of einsum: the sum of the product of all operands over all indices that the result lacks.
Values by_definition(const std::vector<std::string>& operands, const std::string& result,
                     const std::vector<Tensor>& args, const std::string& letters, const Dims& extents) {
  const auto place = [&](const std::string& indices, const Dims& at) {
    std::size_t number = 0;
    for (const char letter : indices) {
      const std::size_t i = letters.find(letter);
      number = number * extents[i] + at[i];
    }
    return number;
  };
  std::vector<Values> numbers;
  for (const Tensor& arg : args) {
    numbers.push_back(values<double>(arg));
  }
  Dims last = extents;
  for (auto& extent : last) {
    --extent;
  }
  Values sums(place(result, last) + 1);
  for (Dims at(extents.size());;) {
    double product = 1;
    for (std::size_t i = 0; i < operands.size(); ++i) {
      product *= numbers[i][place(operands[i], at)];
    }
    sums[place(result, at)] += product;
    std::size_t next = extents.size();
    while (next > 0 && at[next - 1] == last[next - 1]) {
      at[--next] = 0;
    }
    if (next == 0) {
      return sums;
    }
    ++at[next - 1];
  }
}

TEST(EinsumTest, ManyOperandsEqualTheDefinition) {
  const std::string letters = "abcde";
  const Dims extents = {2, 3, 2, 1, 4};
  const std::vector<std::vector<std::string>> specs = {
      {"ab", "bc", "ce", "ae"}, {"ab", "bcd", "ce", "e", "da"}, {"a", "b", "c"}, {"abe", "e", "e", "cb"}};
  for (const std::vector<std::string>& operands : specs) {
    for (const std::string result : {"a", "", "ea", "bc"}) {
      std::string all;
      std::vector<Tensor> args;
      for (const std::string& operand : operands) {
        Dims dims;
        for (const char letter : operand) {
          dims.push_back(extents[letters.find(letter)]);
        }
        args.push_back(counting(dims, static_cast<double>(args.size())));
        all += (all.empty() ? "" : ",") + operand;
      }
      if (result.find_first_not_of(all) != std::string::npos) {
        continue;
      }
      Dims used = extents;
      for (std::size_t i = 0; i < letters.size(); ++i) {
        used[i] = all.find(letters[i]) == std::string::npos ? 1 : extents[i];
      }
      EXPECT_EQ(values<double>(einsum(all + "->" + result, args)),
                by_definition(operands, result, args, letters, used))
          << all << "->" << result;
    }
  }
}

TEST(EinsumTest, OperandsAreMultipliedInPairsInTheCheapestOrder) {
  const auto statements_of = [](const std::vector<Dims>& dims) {
    const auto leaf = [&](std::size_t i) {
      return placeholder(std::string(1, "xyz"[i]), Type::kF32, dims[i]);
    };
    return testing::text_of(einsum("ab,bc,cd->ad", leaf(0), leaf(1), leaf(2)));
  };
  const std::string left = statements_of({{2, 50}, {50, 50}, {50, 50}});
  EXPECT_NE(left.find("sum[k] x[i, k] * y_2[k, j]"), std::string::npos) << left;
  const std::string right = statements_of({{50, 50}, {50, 50}, {50, 2}});
  EXPECT_NE(right.find("sum[k] y_2[i, k] * z[k, j]"), std::string::npos) << right;
  EXPECT_THROW(einsum("a,a,a,a,a,a,a,a,a,a,a,a,a->a", std::vector<Tensor>(13, counting({2}))), Error);
}

TEST(EinsumTest, IndexOfOneOperandIsSummedFirst) {
  const std::string text = testing::text_of(
      einsum("ab,bc->c", placeholder("x", Type::kF32, {4, 5}), placeholder("y", Type::kF32, {5, 6})));
  EXPECT_NE(text.find("sum[j] x[j, i]"), std::string::npos) << text;
}

TEST(EinsumTest, ConstantOperandsScaleTheSum) {
  EXPECT_EQ(values<double>(einsum("a b; a b => a", counting({2, 3}), full(Type::kF64, {2, 3}, 2))),
            (Values{12, 30}));
  EXPECT_EQ(values<double>(einsum("a b => a", full(Type::kF64, {2, 3}, 2))), (Values{6, 6}));
}

TEST(EinsumTest, SixteenBitFloatsMultiplyAndAccumulateInF32) {
  for (const Type type : {Type::kBF16, Type::kF16}) {
    const Tensor x = placeholder("x", type, {2, 3});
    const std::string text = testing::text_of(einsum("a i; b i => a b", x, x));
    EXPECT_NE(text.find("sum:f32[k] f32(x[i, k]) * f32(x[j, k])"), std::string::npos) << text;
    const std::string sum = testing::text_of(einsum("a i => a", x));
    EXPECT_NE(sum.find("sum:f32[j] x[i, j]"), std::string::npos) << sum;
  }
}

TEST(EinsumTest, AcceptsIntegers) {
  EXPECT_EQ(values<std::int32_t>(einsum("a i; i => a", tensor<std::int32_t>({1, 2, 3, 4}, {2, 2}),
                                        tensor<std::int32_t>({5, 6}, {2}))),
            (std::vector<std::int32_t>{17, 39}));
}

}  // namespace
}  // namespace yoke
