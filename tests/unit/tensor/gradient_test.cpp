// SPDX-License-Identifier: Apache-2.0
// tests/unit/tensor/gradient_test.cpp: every operation's gradient against central finite differences in f64,
// on random shapes.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <functional>
#include <iostream>
#include <random>

#include "evaluate.h"

namespace yoke {
namespace {

using testing::Leaves;

using Function = std::function<Tensor(const std::vector<Tensor>&)>;
using Shapes = std::vector<Dims>;

// What a case needs: shapes from random extents (each 1 to 4), values in [low, high], all distinct and away
// from 0.
struct Case {
  std::string name;
  std::function<Shapes(const std::vector<std::uint64_t>&)> shapes;
  Function function;
  double low = -2;
  double high = 2;
};

std::uint64_t test_seed() {
  const char* given = std::getenv("YOKE_TEST_SEED");
  return given != nullptr ? std::strtoull(given, nullptr, 10) : 20261121;
}

void PrintTo(const Case& one, std::ostream* out) {
  *out << one.name;
}

// `input` sets the values of different inputs apart as well.
std::vector<double> distinct_values(std::uint64_t count, double low, double high, std::mt19937_64& random,
                                    std::size_t input = 0) {
  std::vector<double> values(count);
  for (std::uint64_t i = 0; i < count; ++i) {
    values[i] = low + (high - low) * (static_cast<double>(i) + 0.31 + 0.17 * static_cast<double>(input)) /
                          static_cast<double>(count);
    values[i] += std::abs(values[i]) < 0.02 ? 0.05 : 0.0;  // no kink within the step of the difference
  }
  std::shuffle(values.begin(), values.end(), random);
  return values;
}

double loss_of(const Lowered& lowered, const std::vector<Tensor>& inputs,
               const std::vector<std::vector<double>>& values) {
  Leaves leaves;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    leaves.bind(inputs[i], values[i]);
  }
  return testing::from_bytes<double>(testing::run(lowered, leaves, {{"row", 1}}).at("loss"))[0];
}

void check(const Case& one, std::mt19937_64& random) {
  std::uniform_int_distribution<std::uint64_t> extent(1, 4);
  std::vector<std::uint64_t> extents(4);
  std::generate(extents.begin(), extents.end(), [&] { return extent(random); });
  std::vector<Tensor> inputs;
  std::vector<std::vector<double>> values;
  for (const Dims& dims : one.shapes(extents)) {
    inputs.push_back(placeholder("x" + std::to_string(inputs.size()), Type::kF64, dims));
    values.push_back(distinct_values(element_count(dims), one.low, one.high, random, values.size()));
  }
  const Tensor result = one.function(inputs);
  ASSERT_EQ(result.type(), Type::kF64);
  const Tensor weights =
      tensor<double>(distinct_values(result.element_count(), -1, 1, random), result.dims());
  const Tensor loss = sum(result * weights);
  const std::vector<Tensor> wanted = gradients(loss, inputs);
  std::vector<Output> outputs = {{"loss", loss}};
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    ASSERT_EQ(wanted[i].dims(), inputs[i].dims());
    outputs.push_back({"d" + std::to_string(i), wanted[i]});
  }
  const Lowered with_gradients = lower("gradients", outputs);
  const Lowered forward = lower("forward", {{"loss", loss}});
  SCOPED_TRACE(testing::text_of(with_gradients));
  Leaves leaves;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    leaves.bind(inputs[i], values[i]);
  }
  auto results = testing::run(with_gradients, leaves, {{"row", 1}});
  constexpr double kStep = 1e-5;  // truncation about 1e-10, rounding about 1e-16 / 1e-5
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    const auto got = testing::from_bytes<double>(results.at("d" + std::to_string(i)));
    for (std::size_t k = 0; k < got.size(); ++k) {
      auto moved = values;
      moved[i][k] = values[i][k] + kStep;
      const double above = loss_of(forward, inputs, moved);
      moved[i][k] = values[i][k] - kStep;
      const double below = loss_of(forward, inputs, moved);
      const double expected = (above - below) / (2 * kStep);
      ASSERT_NEAR(got[k], expected, 2e-7 * (1 + std::abs(expected))) << "input " << i << ", element " << k;
    }
  }
}

using E = std::vector<std::uint64_t>;
Shapes one_matrix(const E& e) {
  return {{e[0], e[1]}};
}
Shapes two_broadcast(const E& e) {
  return {{e[0], e[1]}, {e[1]}};
}
Shapes row_and_column(const E& e) {
  return {{e[0], 1}, {1, e[1]}};
}

Case unary(const std::string& name, Tensor (*operation)(const Tensor&), double low = -2, double high = 2) {
  return {name, one_matrix, [operation](const auto& x) { return operation(x[0]); }, low, high};
}

std::vector<Case> elementwise_cases() {
  std::vector<Case> cases = {
      {"add", two_broadcast, [](const auto& x) { return x[0] + x[1]; }},
      {"subtract", row_and_column, [](const auto& x) { return x[0] - x[1]; }},
      {"multiply", two_broadcast, [](const auto& x) { return x[0] * x[1]; }},
      {"square", one_matrix, [](const auto& x) { return x[0] * x[0]; }},
      {"divide", two_broadcast, [](const auto& x) { return x[0] / x[1]; }},
      {"divide_column", row_and_column, [](const auto& x) { return x[0] / x[1]; }},
      {"negate", one_matrix, [](const auto& x) { return -x[0]; }},
      {"minimum", row_and_column, [](const auto& x) { return minimum(x[0], x[1]); }},
      {"maximum", two_broadcast, [](const auto& x) { return maximum(x[0], x[1]); }},
      {"select", row_and_column, [](const auto& x) { return select(x[0] < x[1], x[0] * 3.0, x[1] * x[1]); }},
      {"pow", two_broadcast, [](const auto& x) { return pow(x[0], x[1]); }, 0.2, 3},
      {"pow_of_constant", one_matrix, [](const auto& x) { return pow(x[0], 3.0); }},
      {"fma",
       [](const E& e) {
         return Shapes{{e[0], e[1]}, {e[1]}, {e[0], 1}};
       },
       [](const auto& x) { return fma(x[0], x[1], x[2]); }},
      {"cast", one_matrix, [](const auto& x) { return cast(x[0], Type::kF64) * 2.0; }},
      {"stop", one_matrix, [](const auto& x) { return x[0] * stop_gradient(floor(x[0])); }},
      {"rounding", one_matrix,
       [](const auto& x) { return x[0] * (sign(x[0]) + ceil(x[0]) + round(x[0] * 0.1) + trunc(x[0])); }},
      {"gelu", one_matrix, [](const auto& x) { return gelu(x[0]); }}};
  using Named = std::vector<std::pair<const char*, Tensor (*)(const Tensor&)>>;
  for (const auto& [name, operation] : Named{{"exp", exp},
                                             {"exp2", exp2},
                                             {"expm1", expm1},
                                             {"sin", sin},
                                             {"cos", cos},
                                             {"tanh", tanh},
                                             {"sigmoid", sigmoid},
                                             {"erf", erf},
                                             {"erfc", erfc},
                                             {"abs", abs},
                                             {"relu", relu}}) {
    cases.push_back(unary(name, operation));
  }
  for (const auto& [name, operation] : Named{{"log", log},
                                             {"log2", log2},
                                             {"log1p", log1p},
                                             {"sqrt", sqrt},
                                             {"rsqrt", rsqrt},
                                             {"recip", recip}}) {
    cases.push_back(unary(name, operation, 0.3, 3));
  }
  return cases;
}

Shapes one_cube(const E& e) {
  return {{e[0], e[1], e[2]}};
}

std::vector<Case> reduction_cases() {
  return {
      {"sum_all", one_cube, [](const auto& x) { return sum(exp(x[0])); }},
      {"sum_middle", one_cube, [](const auto& x) { return sum(x[0] * x[0], {1}, true); }},
      {"mean", one_cube,
       [](const auto& x) {
         return mean(x[0] * x[0], {0, 2});
       }},
      {"prod", one_cube,
       [](const auto& x) {
         return prod(x[0], {1, 2});
       }},
      {"max", one_cube,
       [](const auto& x) {
         return max(x[0], {0, 2});
       }},
      {"max_keep", one_cube, [](const auto& x) { return x[0] * max(x[0], {-1}, true); }},
      {"min", one_cube, [](const auto& x) { return min(x[0]); }},
      {"softmax", one_matrix, [](const auto& x) { return softmax(x[0]); }},
      {"softmax_of_axis_0", one_matrix, [](const auto& x) { return softmax(x[0] * x[0], 0); }},
      {"log_softmax", one_matrix, [](const auto& x) { return log_softmax(x[0]); }},
  };
}

std::vector<Case> einsum_cases() {
  const auto dense = [](const E& e) { return Shapes{{e[0], e[1]}, {e[2], e[1]}}; };
  return {
      {"dense", dense, [](const auto& x) { return einsum("b i; o i => b o", x[0], x[1]); }},
      {"outer", dense, [](const auto& x) { return einsum("b i; o i => i b o", x[0], x[1]); }},
      {"summed_alone", dense, [](const auto& x) { return einsum("b i; o i => o", x[0], x[1]); }},
      {"disjoint",
       [](const E& e) {
         return Shapes{{e[0], e[1]}, {e[2], e[3]}};
       },
       [](const auto& x) { return einsum("a b; c d => d", x[0], x[1]); }},
      {"batched",
       [](const E& e) {
         return Shapes{{e[3], e[0], e[1]}, {e[1], e[2]}};
       },
       [](const auto& x) { return matmul(x[0], x[1]); }},
      {"broadcast_rest",
       [](const E& e) {
         return Shapes{{e[3], 1, e[1]}, {e[0], e[1]}};
       },
       [](const auto& x) { return einsum("... i; ... i => ...", x[0], x[1]); }},
      {"diagonal",
       [](const E& e) {
         return Shapes{{e[0], e[0], e[1]}};
       },
       [](const auto& x) { return einsum("i i k => k i", x[0]); }},
      {"trace",
       [](const E& e) {
         return Shapes{{e[0], e[0]}};
       },
       [](const auto& x) { return einsum("i i => ", x[0]); }},
      {"transpose", one_cube, [](const auto& x) { return einsum("a b c => c a b", x[0]); }},
      {"three",
       [](const E& e) {
         return Shapes{{e[0], e[1]}, {e[1], e[2]}, {e[2], e[3]}};
       },
       [](const auto& x) { return einsum("a b; b c; c d => a d", x[0], x[1], x[2]); }},
      {"of_expressions", dense,
       [](const auto& x) { return einsum("b i; o i => b o", exp(x[0]), x[1] * x[1]); }},
      {"with_itself", one_matrix, [](const auto& x) { return einsum("a i; b i => a b", x[0], x[0]); }},
  };
}

Tensor ids_of(const Dims& dims, std::int64_t count) {
  std::vector<std::int32_t> ids(element_count(dims));
  for (std::size_t i = 0; i < ids.size(); ++i) {
    ids[i] = static_cast<std::int32_t>(static_cast<std::int64_t>(i * 7 + 1) %
                                       (count + 1));  // some are outside, some repeat
  }
  return tensor<std::int32_t>(ids, dims);
}

std::vector<Case> shape_cases() {
  const auto six = [](const E& e) { return Shapes{{4, 6, e[0]}}; };
  return {
      {"reshape_split", six,
       [](const auto& x) {
         return reshape(x[0] * x[0], {4, 2, 3, x[0].dims()[2]});
       }},
      {"reshape_join", six, [](const auto& x) { return flatten(x[0] * x[0]); }},
      {"reshape_across", six,
       [](const auto& x) {
         return reshape(exp(x[0]), {3, 8, x[0].dims()[2]}) * 2.0;
       }},
      {"reshape_both", six,
       [](const auto& x) {
         return reshape(x[0], {2, 12 * x[0].dims()[2]});
       }},
      {"permute", one_cube,
       [](const auto& x) {
         return permute(x[0] * x[0], {2, 0, 1});
       }},
      {"unsqueeze", one_matrix, [](const auto& x) { return squeeze(unsqueeze(x[0], 1) * 2.0, 1); }},
      {"broadcast", one_matrix,
       [](const auto& x) {
         return broadcast_to(unsqueeze(x[0], 0), {3, x[0].dims()[0], x[0].dims()[1]});
       }},
      {"slice", six, [](const auto& x) { return slice(x[0] * x[0], 1, 2, 5) * slice(x[0], 1, 0, 3); }},
      {"slice_of_slice", six, [](const auto& x) { return slice(slice(x[0], 1, 1, 5), 0, 1, 3) * 2.0; }},
      {"concat", one_matrix,
       [](const auto& x) {
         return concat({x[0], exp(x[0]), x[0] * x[0]}, 1);
       }},
      {"rows", six,
       [](const auto& x) {
         return rows(x[0], Symbol{"row", 0, 2, 1}, 2) * 3.0;
       }},
      {"row", six,
       [](const auto& x) {
         return x[0].at(Symbol{"row", 0, 4, 1}) * 3.0;
       }},
      {"gather",
       [](const E& e) {
         return Shapes{{e[0], e[1]}};
       },
       [](const auto& x) {
         return exp(gather(x[0], ids_of({3, 2}, static_cast<std::int64_t>(x[0].dims()[0]))));
       }},
      {"gather_of_expression",
       [](const E& e) {
         return Shapes{{e[0], e[1]}};
       },
       [](const auto& x) {
         return gather(exp(x[0]), ids_of({5}, static_cast<std::int64_t>(x[0].dims()[0])));
       }},
      {"take_along",
       [](const E& e) {
         return Shapes{{e[0], e[1], e[2]}};
       },
       [](const auto& x) {
         return exp(take_along(
             x[0], ids_of({x[0].dims()[0], x[0].dims()[1]}, static_cast<std::int64_t>(x[0].dims()[2]))));
       }},
  };
}

std::vector<Case> loss_cases() {
  const auto labels = [](const Tensor& x) {
    std::vector<std::uint8_t> numbers(x.dims()[0]);
    for (std::size_t i = 0; i < numbers.size(); ++i) {
      numbers[i] = static_cast<std::uint8_t>(i % x.dims()[1]);
    }
    return tensor<std::uint8_t>(numbers, {x.dims()[0]});
  };
  const auto pair = [](const E& e) { return Shapes{{e[0], e[1]}, {e[0], e[1]}}; };
  return {
      {"cross_entropy_mean", one_matrix,
       [=](const auto& x) { return cross_entropy(x[0] * x[0], labels(x[0])); }},
      {"cross_entropy_sum", one_matrix,
       [=](const auto& x) { return cross_entropy(x[0], labels(x[0]), Reduce::kSum); }},
      {"mse", pair, [](const auto& x) { return mse(x[0], x[1]); }},
      {"hinge", pair, [](const auto& x) { return hinge(x[0], x[1], Reduce::kSum); }},
      // Second order: the gradients are expressions like any other.
      {"second_order", one_matrix,
       [](const auto& x) { return gradients(sum(exp(x[0]) * tanh(x[0]) + x[0] * x[0] * x[0]), {x[0]})[0]; }},
      {"second_order_dense", pair,
       [](const auto& x) { return gradients(sum(tanh(einsum("a i; b i => a b", x[0], x[1]))), {x[0]})[0]; }},
  };
}

class GradientTest : public ::testing::TestWithParam<Case> {};

TEST_P(GradientTest, IsTheSlopeThatFiniteDifferencesMeasure) {
  const std::uint64_t seed = test_seed();
  RecordProperty("seed", std::to_string(seed));
  std::cout << "YOKE_TEST_SEED=" << seed << '\n';
  std::mt19937_64 random(seed);
  for (int round = 0; round < 4 && !HasFatalFailure(); ++round) {
    check(GetParam(), random);
  }
}

std::string case_name(const ::testing::TestParamInfo<Case>& info) {
  return info.param.name;
}

INSTANTIATE_TEST_SUITE_P(Elementwise, GradientTest, ::testing::ValuesIn(elementwise_cases()), case_name);
INSTANTIATE_TEST_SUITE_P(Reductions, GradientTest, ::testing::ValuesIn(reduction_cases()), case_name);
INSTANTIATE_TEST_SUITE_P(Einsum, GradientTest, ::testing::ValuesIn(einsum_cases()), case_name);
INSTANTIATE_TEST_SUITE_P(Shape, GradientTest, ::testing::ValuesIn(shape_cases()), case_name);
INSTANTIATE_TEST_SUITE_P(Losses, GradientTest, ::testing::ValuesIn(loss_cases()), case_name);

TEST(GradientTest, OfAReluAtZeroIsZero) {
  const Tensor x = tensor<float>({-1, 0, 2}, {3}, "x");
  EXPECT_EQ(testing::values<float>(gradients(sum(relu(x)), {x})[0]), (std::vector<float>{0, 0, 1}));
}

TEST(GradientTest, OfATieGoesToTheFirstOfMaximumAndMinimum) {
  const Tensor a = tensor<float>({1, 2}, {2});
  const Tensor b = tensor<float>({1, 1}, {2});
  const auto of_max = gradients(sum(maximum(a, b)), {a, b});
  EXPECT_EQ(testing::values<float>(of_max[0]), (std::vector<float>{1, 1}));
  EXPECT_EQ(testing::values<float>(of_max[1]), (std::vector<float>{0, 0}));
  const auto of_min = gradients(sum(minimum(a, b)), {a, b});
  EXPECT_EQ(testing::values<float>(of_min[0]), (std::vector<float>{1, 0}));
  EXPECT_EQ(testing::values<float>(of_min[1]), (std::vector<float>{0, 1}));
}

TEST(GradientTest, OfAMaximumOverAnAxisIsSharedByEqualElements) {
  const Tensor x = tensor<float>({3, 1, 3, 2}, {4});
  EXPECT_EQ(testing::values<float>(gradients(max(x), {x})[0]), (std::vector<float>{0.5, 0, 0.5, 0}));
}

TEST(GradientTest, OfAProductWithZerosIsTheProductOfTheOthers) {
  const Tensor x = tensor<float>({0, 2, 3, 0, 0, 5, 1, 2, 4}, {3, 3});
  EXPECT_EQ(testing::values<float>(gradients(sum(prod(x, {1})), {x})[0]),
            (std::vector<float>{6, 0, 0, 0, 0, 0, 8, 4, 2}));
}

TEST(GradientTest, OfWhatTheLossDoesNotDependOnIsZero) {
  const Tensor x = tensor<float>({3, 1}, {2});
  const Tensor y = tensor<float>({3, 1}, {2});
  EXPECT_EQ(testing::values<float>(gradients(sum(x), {y})[0]), (std::vector<float>{0, 0}));
  EXPECT_EQ(testing::values<float>(gradients(sum(stop_gradient(y)), {y})[0]), (std::vector<float>{0, 0}));
}

TEST(GradientTest, OfAnInnerNodeCanBeAskedFor) {
  const Tensor x = tensor<float>({3, 1}, {2});
  const Tensor y = x * x;
  const auto both = gradients(sum(y * 3.0), {y, x});
  EXPECT_EQ(testing::values<float>(both[0]), (std::vector<float>{3, 3}));
  EXPECT_EQ(testing::values<float>(both[1]), (std::vector<float>{18, 6}));
}

TEST(GradientTest, OfALossThatIsNoScalarIsRefused) {
  const Tensor x = placeholder("x", Type::kF32, {2, 3});
  try {
    (void)gradients(x * 2.0, {x});
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kInvalidArgument);
    EXPECT_STREQ(error.what(),
                 "gradients: the loss must be a float scalar, but an unnamed tensor [2, 3] is f32; reduce it "
                 "with sum or mean first");
  }
}

}  // namespace
}  // namespace yoke
