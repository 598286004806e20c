// SPDX-License-Identifier: Apache-2.0
// tests/unit/tensor/functions_test.cpp: convolution, pooling, norms, attention, positions and losses: compared with
// values and gradients that PyTorch 2.15 computed, or with formulas where PyTorch has no function.
// tests/parity/functions_test.cpp compares random shapes with PyTorch.
#include <gtest/gtest.h>
#include <yoke/attention.h>
#include <yoke/convolution.h>
#include <yoke/normalization.h>

#include <cmath>

#include "gradient_check.h"

namespace yoke {
namespace {

using testing::values;

// Element i is sin(0.7 i + phase).
Tensor wave(const Dims& dims, double phase) {
  std::vector<double> numbers(element_count(dims));
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    numbers[i] = std::sin(0.7 * static_cast<double>(i) + phase);
  }
  return tensor<double>(numbers, dims);
}

// The sum of element i times cos(0.3 i).
double checksum(const Tensor& x) {
  const std::vector<double> numbers = values<double>(x);
  double total = 0;
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    total += numbers[i] * std::cos(0.3 * static_cast<double>(i));
  }
  return total;
}

struct Golden {
  std::string name;
  std::vector<Tensor> inputs;
  std::function<Tensor(testing::Inputs)> function;
  Dims dims;                      // of the output
  std::vector<double> checksums;  // of the output; of the gradients of the first inputs, for wave(dims, 5)
};

void PrintTo(const Golden& golden, std::ostream* out) {
  *out << golden.name;
}

class FunctionTest : public ::testing::TestWithParam<Golden> {};

TEST_P(FunctionTest, AgreesWithPyTorch) {
  const Golden& golden = GetParam();
  const Tensor y = golden.function(golden.inputs);
  ASSERT_EQ(y.dims(), golden.dims);
  EXPECT_NEAR(checksum(y), golden.checksums[0], 1e-8);
  const std::vector<Tensor> of(
      golden.inputs.begin(),
      golden.inputs.begin() + static_cast<std::ptrdiff_t>(golden.checksums.size() - 1));
  const std::vector<Tensor> found = gradients(sum(y * wave(golden.dims, 5)), of);
  for (std::size_t i = 0; i < found.size(); ++i) {
    EXPECT_NEAR(checksum(found[i]), golden.checksums[1 + i], 1e-8) << "gradient of input " << i;
  }
}

const Tensor kImage = wave({1, 6, 7, 2}, 1);
INSTANTIATE_TEST_SUITE_P(
    All, FunctionTest,
    ::testing::Values(
        Golden{"conv",
               {wave({2, 5, 6, 4}, 1), wave({6, 3, 2, 2}, 2)},
               [](testing::Inputs x) {
                 return conv(x[0], x[1], {.stride = {2, 1}, .dilation = {1, 2}, .padding = 1, .groups = 2});
               },
               {2, 3, 6, 6},
               {0.843426362, 0.89713978, 1.131091418}},
        Golden{"conv_same",
               {wave({1, 6, 2}, 1), wave({3, 4, 2}, 2)},
               [](testing::Inputs x) {
                 return conv(x[0], x[1], {.dilation = 2, .padding = ConvPadding::same()});
               },
               {1, 6, 3},
               {0.712177135, 3.063580404, -1.988425294}},
        Golden{"conv_transpose",
               {wave({1, 3, 4, 4}, 1), wave({4, 3, 2, 3}, 2)},
               [](testing::Inputs x) {
                 return conv_transpose(x[0], x[1],
                                       {.stride = 2, .padding = 1, .output_padding = 1, .groups = 2});
               },
               {1, 6, 7, 6},
               {-2.290390167, 4.919507943, 23.182446112}},
        Golden{"max_pool",
               {kImage},
               [](testing::Inputs x) {
                 return max_pool(x[0], 3, {.stride = 2, .padding = 1, .ceil_mode = true});
               },
               {1, 4, 4, 2},
               {0.690563759, 2.213135241}},
        Golden{"average_pool",
               {kImage},
               [](testing::Inputs x) {
                 return average_pool(x[0], 3, {.stride = 2, .padding = 1, .ceil_mode = true});
               },
               {1, 4, 4, 2},
               {0.038610565, 1.423390628}},
        Golden{"average_pool_of_real_elements",
               {kImage},
               [](testing::Inputs x) {
                 return average_pool(x[0], 3,
                                     {.stride = 2, .padding = 1, .ceil_mode = true, .count_padding = false});
               },
               {1, 4, 4, 2},
               {-0.243358082, 3.188904053}},
        Golden{"adaptive_average_pool",
               {wave({1, 5, 7, 2}, 1)},
               [](testing::Inputs x) { return adaptive_average_pool(x[0], 3); },
               {1, 3, 3, 2},
               {0.112039815, 0.575490821}},
        Golden{"layer_norm",
               {wave({2, 3, 4}, 1), wave({3, 4}, 2), wave({3, 4}, 3)},
               [](testing::Inputs x) { return layer_norm(x[0], x[1], x[2], 1e-5, 2); },
               {2, 3, 4},
               {2.418693301, -1.177069753, -0.010712034, 1.774043736}},
        Golden{"rms_norm",
               {wave({2, 5}, 1), wave({5}, 2)},
               [](testing::Inputs x) { return rms_norm(x[0], x[1]); },
               {2, 5},
               {2.991952252, -4.021461647, -3.834264755}},
        Golden{"group_norm",
               {wave({2, 3, 4}, 1), wave({4}, 2), wave({4}, 3)},
               [](testing::Inputs x) { return group_norm(x[0], 2, x[1], x[2]); },
               {2, 3, 4},
               {0.290702564, -2.074182594, -9.331739457, 0.71367443}},
        Golden{"batch_norm",
               {wave({2, 3, 4}, 1), wave({4}, 2), wave({4}, 3)},
               [](testing::Inputs x) { return batch_norm(x[0], channel_moments(x[0]), x[1], x[2]); },
               {2, 3, 4},
               {0.51012594, 0.112334287, -10.416996334, 0.71367443}},
        Golden{"attention",
               {wave({1, 3, 4, 2}, 1), wave({1, 3, 2, 2}, 2), wave({1, 3, 2, 3}, 3)},
               [](testing::Inputs x) { return attention(x[0], x[1], x[2], {.causal = true}); },
               {1, 3, 4, 3},
               {-1.830266125, 1.365120425, -1.642067075, 0.685632817}},
        Golden{"cross_entropy",
               {wave({1, 4, 3}, 1), tensor<std::int64_t>({0, 2, 1, 1}, {1, 4})},
               [](testing::Inputs x) { return cross_entropy(x[0], x[1], Reduce::kMean, 0.1); },
               {},
               {1.236469668, -0.054945517}},
        Golden{"binary_cross_entropy",
               {wave({6}, 1), wave({6}, 2)},
               [](testing::Inputs
                      x) { return binary_cross_entropy(20 * x[0], square(x[1]), Reduce::kMean, 2.5); },
               {},
               {14.57336863, 20 * -0.090453794}},
        Golden{"huber",
               {wave({6}, 1), wave({6}, 2)},
               [](testing::Inputs x) { return huber(2 * x[0], x[1], 0.7); },
               {},
               {0.510300639, 2 * -0.359536906}},
        Golden{"kl_divergence",
               {wave({2, 3}, 1), tensor<double>({.2, .3, .5, 0, .25, .75}, {2, 3})},
               [](testing::Inputs x) { return kl_divergence(x[0], x[1]); },
               {},
               {-0.754700664, 0.500036382}}),
    [](const auto& one) { return one.param.name; });

TEST(ConvTest, SamePaddingHasTheSizeOfXla) {
  for (const std::uint64_t size : {7U, 8U, 9U}) {
    const Tensor x = wave({1, size, 1}, 0);
    const Tensor y = conv(x, full(Type::kF64, {1, 3, 1}, 1), {.stride = 2, .padding = ConvPadding::same()});
    ASSERT_EQ(y.dims()[1], (size + 1) / 2);
    // An odd zero is after the input, so with an even size the first window has no padding.
    const auto in = values<double>(x);
    EXPECT_NEAR(values<double>(y)[0], size == 8 ? in[0] + in[1] + in[2] : in[0] + in[1], 1e-12) << size;
  }
}

TEST(PoolTest, GlobalPoolsReduceTheSpatialAxes) {
  const Tensor x = tensor<double>({1, 2, 3, 4, 5, 9}, {1, 3, 2});
  EXPECT_EQ(values<double>(global_average_pool(x)), (std::vector<double>{3, 5}));
  EXPECT_EQ(values<double>(global_max_pool(x)), (std::vector<double>{5, 9}));
  EXPECT_EQ(values<double>(max_pool(-x, 1)), values<double>(-x));  // the window's size is the default stride
}

TEST(AttentionTest, QueryThatSeesNoKeyGivesZeroAndNoGradient) {
  const Tensor x = wave({1, 2, 1, 2}, 1);
  const Tensor mask = tensor<std::int64_t>({0, 0, 1, 0}, {2, 2}) > 0;
  const Tensor y = attention(x, x, x, {.mask = mask});
  const auto in = values<double>(x);
  EXPECT_EQ(values<double>(y), (std::vector<double>{0, 0, in[0], in[1]}));
  for (const double value : values<double>(gradients(sum(slice(y, 1, 0, 1)), {x})[0])) {
    EXPECT_EQ(value, 0);
  }
}

TEST(AttentionTest, MasksOfEveryShapeAreBroadcast) {
  const Tensor q = wave({2, 3, 2, 4}, 1);
  const Tensor mask = tensor<std::int64_t>({1, 0, 1, 1, 1, 0, 0, 1, 1}, {3, 3}) > 0;
  const auto expected = values<double>(attention(q, q, q, {.mask = mask}));
  EXPECT_EQ(values<double>(attention(q, q, q, {.mask = broadcast_to(mask, {2, 3, 3})})), expected);
  EXPECT_EQ(values<double>(attention(q, q, q, {.mask = broadcast_to(mask, {2, 2, 3, 3})})), expected);
}

// The scores of rotated queries and keys depend on the distance of their positions only.
TEST(RotaryTest, ScoresDependOnTheDistanceOnly) {
  for (const bool interleaved : {false, true}) {
    const Tensor x = broadcast_to(wave({1, 1, 1, 6}, 1), {1, 5, 1, 6});
    const auto rotated = [&](std::int64_t first) {
      const Tensor positions = iota({5}, 0) + first;
      return rotary(x, {.interleaved = interleaved, .positions = positions});
    };
    const auto scores = [](const Tensor& q) { return values<double>(einsum("bqhd,bkhd->qk", q, q)); };
    const auto at_0 = scores(rotated(0));
    const auto at_7 = scores(rotated(7));
    for (std::size_t i = 0; i < at_0.size(); ++i) {
      EXPECT_NEAR(at_0[i], at_7[i], 1e-5);
      EXPECT_NEAR(at_0[i], at_0[i % 5 > i / 5 ? i % 5 - i / 5 : i / 5 - i % 5], 1e-5);
    }
    EXPECT_GT(std::abs(at_0[0] - at_0[2]), 0.1);
  }
}

TEST(RotaryTest, RotatesThePairsOfEachForm) {
  const Tensor x = tensor<double>({1, 0, 0, 2}, {1, 1, 1, 4});
  const Tensor one = tensor<std::int64_t>({1}, {1});
  const double c = std::cos(1.0), s = std::sin(1.0), c2 = std::cos(0.01), s2 = std::sin(0.01);
  const auto halves = values<double>(rotary(x, {.positions = one}));
  const auto pairs = values<double>(rotary(x, {.interleaved = true, .positions = one}));
  const std::vector<double> expected_halves{c, -2 * s2, s, 2 * c2};
  const std::vector<double> expected_pairs{c, s, -2 * s2, 2 * c2};
  for (std::size_t i = 0; i < 4; ++i) {
    EXPECT_NEAR(halves[i], expected_halves[i], 1e-6);
    EXPECT_NEAR(pairs[i], expected_pairs[i], 1e-6);
  }
}

TEST(PositionsTest, SinusoidsHaveTheWavelengthsOfThePaper) {
  const auto numbers = values<double>(sinusoidal_positions(3, 4, Type::kF64));
  for (std::size_t position = 0; position < 3; ++position) {
    const auto p = static_cast<double>(position);
    const double expected[] = {std::sin(p), std::cos(p), std::sin(p / 100), std::cos(p / 100)};
    for (std::size_t i = 0; i < 4; ++i) {
      EXPECT_NEAR(numbers[position * 4 + i], expected[i], 1e-6);
    }
  }
}

TEST(FunctionErrorTest, MessagesNameTheFunctionAndTheTensors) {
  const Tensor x = placeholder("x", Type::kF32, {1, 6, 6, 4});
  const Tensor w = placeholder("w", Type::kF32, {8, 3, 3, 4});
  EXPECT_MESSAGE(
      "conv: the input 'w' [4] is f32; it must be [batch, length, channels] or [batch, height, width, "
      "channels] of floats",
      conv(placeholder("w", Type::kF32, {4}), w));
  EXPECT_MESSAGE(
      "conv: with 3 groups, the weight 'w' [8, 3, 3, 4] does not match the channels of the input 'x' "
      "[1, 6, 6, 4]; groups must divide both numbers of channels",
      conv(x, w, {.groups = 3}));
  EXPECT_MESSAGE("conv: stride has 3 numbers; give one, or one for each of the 2 spatial axes",
                 conv(x, w, {.stride = {1, 1, 1}}));
  EXPECT_MESSAGE("conv: dilation must be at least 1", conv(x, w, {.dilation = 0}));
  EXPECT_MESSAGE(
      "conv: a window of 7 elements exceeds axis 1 of the input 'x' [1, 6, 6, 4], which has 6 with its "
      "padding",
      conv(x, w, {.dilation = 3}));
  EXPECT_MESSAGE(
      "conv_transpose: output_padding 2 must be less than the stride or the dilation",
      conv_transpose(x, placeholder("w", Type::kF32, {4, 3, 3, 2}), {.stride = 2, .output_padding = 2}));
  EXPECT_MESSAGE("max_pool: padding 2 is more than half of the window 3", max_pool(x, 3, {.padding = 2}));
  EXPECT_MESSAGE("group_norm: 3 groups do not divide the 4 channels of the input 'x' [1, 6, 6, 4]",
                 group_norm(x, 3));
  EXPECT_MESSAGE("layer_norm: the weight 'w' [8, 3, 3, 4] must have the shape [4]", layer_norm(x, w));
  EXPECT_MESSAGE("rotary: the positions 'p' [5] must be integers [6]",
                 rotary(x, {.positions = placeholder("p", Type::kI32, {5})}));
  EXPECT_MESSAGE("huber: delta 0.000000 must be greater than 0", huber(x, x, 0));
  EXPECT_THROW((void)attention(x, w, w), Error);
  EXPECT_THROW((void)attention(x, x, x, {.mask = placeholder("m", Type::kBool, {5, 6})}), Error);
  EXPECT_THROW((void)cross_entropy(x, placeholder("l", Type::kI64, {1, 6, 6}), Reduce::kMean, 1), Error);
  EXPECT_THROW((void)sinusoidal_positions(3, 3), Error);
}

}  // namespace
}  // namespace yoke
