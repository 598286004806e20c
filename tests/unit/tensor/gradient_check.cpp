// SPDX-License-Identifier: Apache-2.0
// tests/unit/tensor/gradient_check.cpp: compares gradients with finite differences.
#include "gradient_check.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <iostream>
#include <random>
#include <sstream>

namespace yoke::testing {

// Static rather than in an anonymous namespace, because check_gradients() is in none.
static std::uint64_t test_seed() {
  const char* given = std::getenv("YOKE_TEST_SEED");
  return given != nullptr ? std::strtoull(given, nullptr, 10) : 20261121;
}

static std::vector<Dims> random_shapes(const std::string& text, std::mt19937_64& random) {
  std::uniform_int_distribution<std::uint64_t> extent(1, 4);
  std::vector<std::uint64_t> extents(4);
  std::generate(extents.begin(), extents.end(), [&] { return extent(random); });
  std::vector<Dims> shapes;
  std::istringstream inputs(text);
  for (std::string input; std::getline(inputs, input, ';');) {
    std::istringstream sizes(input);
    Dims& dims = shapes.emplace_back();
    for (std::string size; sizes >> size;) {
      const bool is_digit = size[0] >= '0' && size[0] <= '9';
      dims.push_back(is_digit ? std::stoull(size) : extents.at(static_cast<std::size_t>(size[0] - 'a')));
    }
  }
  return shapes;
}

// The values of input number `input` differ from those of other inputs.
static std::vector<double> distinct_values(std::uint64_t count, double low, double high,
                                           std::mt19937_64& random, std::size_t input = 0) {
  std::vector<double> values(count);
  for (std::uint64_t i = 0; i < count; ++i) {
    values[i] = low + (high - low) * (static_cast<double>(i) + 0.31 + 0.17 * static_cast<double>(input)) /
                          static_cast<double>(count);
    values[i] += std::abs(values[i]) < 0.02 ? 0.05 : 0.0;  // keeps the difference away from kinks at 0
  }
  std::shuffle(values.begin(), values.end(), random);
  return values;
}

static std::map<std::string, Bytes> evaluate(const Lowered& lowered, Inputs inputs,
                                             const std::vector<std::vector<double>>& values) {
  Leaves leaves;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    leaves.bind(inputs[i], values[i]);
  }
  return run(lowered, leaves, {{"row", 1}});
}

static void check(const Case& one, std::mt19937_64& random) {
  std::vector<Tensor> inputs;
  std::vector<std::vector<double>> values;
  for (const Dims& dims : random_shapes(one.shapes, random)) {
    inputs.push_back(placeholder("x" + std::to_string(inputs.size()), Type::kF64, dims));
    values.push_back(distinct_values(element_count(dims), one.low, one.high, random, values.size()));
  }
  const Tensor result = one.function(inputs);
  ASSERT_EQ(result.type(), Type::kF64);
  const Tensor weights =
      tensor<double>(distinct_values(result.element_count(), -1, 1, random), result.dims());
  const Tensor loss = sum(result * weights);
  const std::vector<Tensor> slopes = gradients(loss, inputs);
  std::vector<Output> outputs = {{"loss", loss}};
  for (std::size_t i = 0; i < slopes.size(); ++i) {
    ASSERT_EQ(slopes[i].dims(), inputs[i].dims());
    outputs.push_back({"d" + std::to_string(i), slopes[i]});
  }
  const Lowered with_gradients = lower("gradients", outputs);
  const Lowered forward = lower("forward", {{"loss", loss}});
  const auto loss_at = [&](const std::vector<std::vector<double>>& moved) {
    return from_bytes<double>(evaluate(forward, inputs, moved).at("loss"))[0];
  };
  SCOPED_TRACE(text_of(with_gradients));
  const auto results = evaluate(with_gradients, inputs, values);
  constexpr double kStep = 1e-5;  // truncation error about 1e-10, rounding error about 1e-16 / 1e-5
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    const auto got = from_bytes<double>(results.at("d" + std::to_string(i)));
    for (std::size_t k = 0; k < got.size(); ++k) {
      auto moved = values;
      moved[i][k] = values[i][k] + kStep;
      const double above = loss_at(moved);
      moved[i][k] = values[i][k] - kStep;
      const double expected = (above - loss_at(moved)) / (2 * kStep);
      ASSERT_NEAR(got[k], expected, 2e-7 * (1 + std::abs(expected))) << "input " << i << ", element " << k;
    }
  }
}

void PrintTo(const Case& one, std::ostream* out) {
  *out << one.name;
}

void check_gradients(const Case& one) {
  const std::uint64_t seed = test_seed();
  ::testing::Test::RecordProperty("seed", std::to_string(seed));
  std::cout << "YOKE_TEST_SEED=" << seed << '\n';
  std::mt19937_64 random(seed);
  for (int round = 0; round < 4 && !::testing::Test::HasFatalFailure(); ++round) {
    check(one, random);
  }
}

TEST_P(GradientTest, EqualsFiniteDifferences) {
  check_gradients(GetParam());
}

}  // namespace yoke::testing
