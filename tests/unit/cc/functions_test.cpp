// SPDX-License-Identifier: Apache-2.0
// tests/unit/cc/functions_test.cpp: functions of f32 within their error bounds in ulp, rounding to 16 bits, random
// bits.
#include <gtest/gtest.h>
#include <yoke/program/execute.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <functional>
#include <limits>

#include "harness.h"

namespace yoke::cc::test {
namespace {

struct FunctionCase {
  const char* name;
  MapOp op;
  std::function<double(double)> exact;
  double ulp;
};

class FunctionTest : public ::testing::TestWithParam<FunctionCase> {};

// Every 4999th of the 2^32 floats, the edges of functions, and a fine grid from -20 to 20.
std::vector<float> floats() {
  std::vector<float> values;
  for (std::uint64_t bits = 0; bits < (std::uint64_t{1} << 32); bits += 4999) {
    values.push_back(std::bit_cast<float>(static_cast<std::uint32_t>(bits)));
  }
  constexpr float kEdges[] = {0.0F,    1.0F,   0.5F,        88.0F,      88.72283F, 88.73F,
                              104.0F,  103.9F, 87.4F,       128.0F,     127.999F,  149.0F,
                              150.0F,  25.5F,  9.1F,        0.92773F,   0.625F,    1.17549435e-38F,
                              3.4e38F, 1e-45F, 0.99999994F, 1.0000001F, HUGE_VALF, NAN};
  for (const float x : kEdges) {
    values.push_back(x);
    values.push_back(-x);
  }
  for (float x = -20.0F; x < 20.0F; x += 0.00037F) {
    values.push_back(x);
  }
  return values;
}

TEST_P(FunctionTest, F32StaysWithinItsUlpBound) {
  const FunctionCase& c = GetParam();
  const std::vector<float> x = floats();
  std::vector<float> first;
  for (const KernelTable* table : all_tables()) {
    std::vector<float> y(x.size());
    table->map(c.op, Reg::kF32, 0)(y.data(), x.data(), x.data(), x.data(),
                                   static_cast<std::int64_t>(x.size()));
    double worst = 0;
    float at = 0;
    for (std::size_t i = 0; i < x.size(); ++i) {
      const auto wanted = static_cast<double>(static_cast<float>(c.exact(static_cast<double>(x[i]))));
      const double exact = std::isinf(wanted) ? wanted : c.exact(static_cast<double>(x[i]));
      const double distance = ulp_distance(program::Type::kF32, static_cast<double>(y[i]), exact);
      if (!(distance <= worst)) {
        worst = distance;
        at = x[i];
      }
    }
    EXPECT_LE(worst, c.ulp) << c.name << "(" << at << ") with " << table->name;
    ::testing::Test::RecordProperty(std::string("ulp_") + table->name, std::to_string(worst));
    if (first.empty()) {
      first = y;
    }
    for (std::size_t i = 0; i < y.size(); ++i) {
      if (std::bit_cast<std::uint32_t>(y[i]) != std::bit_cast<std::uint32_t>(first[i]) && !std::isnan(y[i])) {
        ADD_FAILURE() << c.name << "(" << x[i] << ") differs between instruction sets";
        break;
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(
    All, FunctionTest,
    ::testing::Values(
        FunctionCase{"exp", MapOp::kExp, [](double x) { return std::exp(x); }, 2.0},
        FunctionCase{"exp2", MapOp::kExp2, [](double x) { return std::exp2(x); }, 2.0},
        FunctionCase{"expm1", MapOp::kExpm1, [](double x) { return std::expm1(x); }, 4.0},
        FunctionCase{"log", MapOp::kLog, [](double x) { return std::log(x); }, 2.0},
        FunctionCase{"log2", MapOp::kLog2, [](double x) { return std::log2(x); }, 4.0},
        FunctionCase{"log1p", MapOp::kLog1p, [](double x) { return std::log1p(x); }, 3.0},
        FunctionCase{"sqrt", MapOp::kSqrt, [](double x) { return std::sqrt(x); }, 0.5},
        FunctionCase{"rsqrt", MapOp::kRsqrt, [](double x) { return 1 / std::sqrt(x); }, 1.5},
        FunctionCase{"recip", MapOp::kRecip, [](double x) { return 1 / x; }, 0.5},
        FunctionCase{"sin", MapOp::kSin, [](double x) { return std::sin(x); }, 1.0},
        FunctionCase{"cos", MapOp::kCos, [](double x) { return std::cos(x); }, 1.0},
        FunctionCase{"tanh", MapOp::kTanh, [](double x) { return std::tanh(x); }, 3.0},
        FunctionCase{"sigmoid", MapOp::kSigmoid, [](double x) { return 1 / (1 + std::exp(-x)); }, 4.0},
        FunctionCase{"erf", MapOp::kErf, [](double x) { return std::erf(x); }, 4.0},
        FunctionCase{"erfc", MapOp::kErfc, [](double x) { return std::erfc(x); }, 4.0},
        FunctionCase{"floor", MapOp::kFloor, [](double x) { return std::floor(x); }, 0.0},
        FunctionCase{"ceil", MapOp::kCeil, [](double x) { return std::ceil(x); }, 0.0},
        FunctionCase{"round", MapOp::kRound, [](double x) { return std::nearbyint(x); }, 0.0},
        FunctionCase{"trunc", MapOp::kTrunc, [](double x) { return std::trunc(x); }, 0.0},
        FunctionCase{"abs", MapOp::kAbs, [](double x) { return std::fabs(x); }, 0.0},
        FunctionCase{"sign", MapOp::kSign, [](double x) { return x > 0   ? 1.0
                                                                 : x < 0 ? -1.0
                                                                         : x; }, 0.0}),
    [](const auto& one) { return std::string(one.param.name); });

TEST(RoundingTest, SixteenBitFloatsRoundLikeTheReference) {
  const std::vector<float> x = floats();
  const auto n = static_cast<std::int64_t>(x.size());
  for (const KernelTable* table : all_tables()) {
    std::vector<std::uint16_t> half(x.size());
    std::vector<std::uint16_t> brain(x.size());
    table->map(MapOp::kNarrowF16, Reg::kF32, 0)(half.data(), x.data(), x.data(), x.data(), n);
    table->map(MapOp::kNarrowBF16, Reg::kF32, 0)(brain.data(), x.data(), x.data(), x.data(), n);
    for (std::size_t i = 0; i < x.size(); ++i) {
      if (std::isnan(x[i])) {
        EXPECT_TRUE(std::isnan(program::f16_to_f32(half[i])) && std::isnan(program::bf16_to_f32(brain[i])));
        continue;
      }
      ASSERT_EQ(half[i], program::f32_to_f16(x[i])) << x[i];
      ASSERT_EQ(brain[i], program::f32_to_bf16(x[i])) << x[i];
    }
    std::vector<std::uint16_t> all(65536);
    for (std::size_t i = 0; i < all.size(); ++i) {
      all[i] = static_cast<std::uint16_t>(i);
    }
    std::vector<float> wide(all.size());
    table->map(MapOp::kWidenF16, Reg::kF32, 0)(wide.data(), all.data(), all.data(), all.data(), 65536);
    for (std::size_t i = 0; i < all.size(); ++i) {
      const float wanted = program::f16_to_f32(all[i]);
      ASSERT_TRUE(std::bit_cast<std::uint32_t>(wide[i]) == std::bit_cast<std::uint32_t>(wanted) ||
                  std::isnan(wanted))
          << i;
    }
  }
}

TEST(RandomBitsTest, VectorizedBitsMatchTheProgramLibrary) {
  std::mt19937_64 random(1);
  std::vector<std::int64_t> seed(1000), stream(1000), counter(1000);
  for (std::size_t i = 0; i < 1000; ++i) {
    seed[i] = static_cast<std::int64_t>(random());
    stream[i] = static_cast<std::int64_t>(random());
    // Consecutive from the middle of a block, with a gap, then arbitrary.
    const auto near = static_cast<std::int64_t>(i) + (i < 301 ? 2 : 1000);
    counter[i] = i < 700 ? near : static_cast<std::int64_t>(random());
    if (i >= 700 && i < 850) {  // wraps around
      counter[i] = static_cast<std::int64_t>((std::uint64_t{1} << 63U) - 64 + (i - 700));
    }
  }
  for (const KernelTable* table : all_tables()) {
    for (unsigned scalars = 0; scalars < 8; ++scalars) {
      std::vector<std::uint32_t> bits(1000);
      table->map(MapOp::kRandomBits, Reg::kI64, scalars)(bits.data(), seed.data(), stream.data(),
                                                         counter.data(), 1000);
      for (std::size_t i = 0; i < 1000; ++i) {
        ASSERT_EQ(bits[i], program::random_bits(seed[(scalars & kScalarA) != 0 ? 0 : i],
                                                stream[(scalars & kScalarB) != 0 ? 0 : i],
                                                counter[(scalars & kScalarC) != 0 ? 0 : i]));
      }
    }
  }
}

}  // namespace
}  // namespace yoke::cc::test
