// SPDX-License-Identifier: Apache-2.0
// tests/unit/tensor/parameter_test.cpp: parameters, and the distributions of initializers.
#include <gtest/gtest.h>

#include <cmath>
#include <numeric>

#include "evaluate.h"

namespace yoke {
namespace {

using testing::values;

struct Statistics {
  double mean = 0;
  double deviation = 0;
  double low = 0;
  double high = 0;
};

Statistics statistics(const std::vector<float>& numbers) {
  Statistics result;
  const auto count = static_cast<double>(numbers.size());
  result.mean = std::accumulate(numbers.begin(), numbers.end(), 0.0) / count;
  for (const float number : numbers) {
    result.deviation += (number - result.mean) * (number - result.mean) / count;
  }
  result.deviation = std::sqrt(result.deviation);
  const auto [low, high] = std::minmax_element(numbers.begin(), numbers.end());
  result.low = *low;
  result.high = *high;
  return result;
}

Statistics of(const Initializer& initializer) {
  const Parameter parameter("w", {200, 300}, initializer);
  return statistics(values<float>(parameter.init_tensor(3), {}, {{"seed", 7}}));
}

// For 60000 draws, the standard error of the mean is deviation / 245, and that of the deviation under 0.5 %.
void expect_moments(const Statistics& got, double mean, double deviation) {
  EXPECT_NEAR(got.mean, mean, 4 * deviation / 245);
  EXPECT_NEAR(got.deviation, deviation, 0.02 * deviation);
}

TEST(InitializerTest, UniformInitializersFillTheirBounds) {
  const std::pair<Initializer, double> bounds[] = {{Initializer::kaiming_uniform(), std::sqrt(6.0 / 300)},
                                                   {Initializer::xavier_uniform(), std::sqrt(6.0 / 500)},
                                                   {Initializer::uniform(-0.25, 0.25), 0.25}};
  for (const auto& [initializer, bound] : bounds) {
    const Statistics got = of(initializer);
    expect_moments(got, 0, bound / std::sqrt(3.0));
    EXPECT_GE(got.low, -bound * 1.000001);
    EXPECT_LE(got.high, bound * 1.000001);
    EXPECT_LT(got.low, -bound * 0.999);
    EXPECT_GT(got.high, bound * 0.999);
  }
}

TEST(InitializerTest, NormalInitializersHaveTheirDeviation) {
  expect_moments(of(Initializer::kaiming_normal()), 0, std::sqrt(2.0 / 300));
  expect_moments(of(Initializer::xavier_normal()), 0, std::sqrt(2.0 / 500));
  expect_moments(of(Initializer::normal(3, 0.5)), 3, 0.5);
  EXPECT_LT(of(Initializer::normal(0, 1)).low, -3.5);
}

TEST(InitializerTest, ConstantInitializersSetEveryElement) {
  EXPECT_EQ(values<float>(Parameter("b", {3}, Initializer::constant(0.5)).init_tensor(0)),
            (std::vector<float>{0.5, 0.5, 0.5}));
  EXPECT_EQ(values<double>(Parameter("b", {1}, Initializer::zeros(), Type::kF64).init_tensor(0)),
            (std::vector<double>{0}));
}

TEST(InitializerTest, ValuesDependOnSeedAndOrderNumber) {
  const Parameter w("w", {4, 4}, Initializer::kaiming_uniform());
  const auto draw = [&](std::int64_t order, std::int64_t seed) {
    return values<float>(w.init_tensor(order), {}, {{"seed", seed}});
  };
  EXPECT_EQ(draw(0, 1), draw(0, 1));
  EXPECT_NE(draw(0, 1), draw(0, 2));
  EXPECT_NE(draw(0, 1), draw(1, 1));
}

TEST(InitializerTest, SixteenBitParametersAreDrawnInF32) {
  const Parameter half("w", {8}, Initializer::normal(0, 1), Type::kBF16);
  const Parameter single("w", {8}, Initializer::normal(0, 1));
  EXPECT_EQ(values<float>(cast(half.init_tensor(0), Type::kF32)),
            values<float>(cast(cast(single.init_tensor(0), Type::kBF16), Type::kF32)));
}

TEST(InitializerTest, IsFoundByName) {
  EXPECT_EQ(Initializer::by_name("xavier_normal").kind(), Initializer::Kind::kXavierNormal);
  const Error error = test::error_of([] { (void)Initializer::by_name("he"); });
  EXPECT_EQ(error.code(), ErrorCode::kNotFound);
  EXPECT_STREQ(error.what(),
               "unknown initializer 'he'; choose one of kaiming_uniform, kaiming_normal, xavier_uniform, "
               "xavier_normal, uniform, normal, ones, zeros");
}

TEST(ParameterTest, CopiesShareNameDimsAndValues) {
  const Parameter w = Parameter::deferred("w", Initializer::zeros());
  const Parameter copy = w;
  copy.set_dims({2}, "test");
  copy.rename("v");
  const float numbers[] = {1, 2};
  copy.set_values(std::as_bytes(std::span(numbers)));
  EXPECT_EQ(w.name(), "v");
  EXPECT_EQ(w.dims(), (Dims{2}));
  EXPECT_EQ(w.float_values()[1], 2.0F);
  EXPECT_TRUE(w.tensor().is(copy.tensor()));
  EXPECT_EQ(w.tensor().host_bytes().size(), 8U);
  EXPECT_EQ(values<float>(w.tensor() * 2.0), (std::vector<float>{2, 4}));
  w.clear_values();
  EXPECT_FALSE(copy.has_values());
}

TEST(ParameterTest, InvalidUsesAreErrors) {
  const Parameter w = Parameter::deferred("w", Initializer::zeros());
  EXPECT_THROW((void)w.tensor(), Error);
  w.set_dims({2}, "test");
  EXPECT_STREQ(test::error_of([&] { w.set_dims({3}, "linear(3)"); }).what(),
               "linear(3): parameter 'w' has dims [2] from its first use, but this use needs [3]");
  EXPECT_THROW(w.set_values({}), Error);
  EXPECT_THROW((void)Parameter::of(placeholder("x", Type::kF32, {2})), Error);
  EXPECT_THROW(Parameter("n", {2}, Initializer::zeros(), Type::kI64), Error);
}

TEST(ParameterTest, ParametersOfALossAreInCreationOrder) {
  const Parameter a("a", {2}, Initializer::zeros());
  const Parameter b("b", {2}, Initializer::zeros());
  const Parameter unused("unused", {2}, Initializer::zeros());
  const auto found = parameters_of(sum(b.tensor() * a.tensor() + a.tensor()));
  ASSERT_EQ(found.size(), 2U);
  EXPECT_TRUE(found[0].is(a));
  EXPECT_TRUE(found[1].is(b));
}

}  // namespace
}  // namespace yoke
