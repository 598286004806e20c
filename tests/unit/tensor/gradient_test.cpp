// SPDX-License-Identifier: Apache-2.0
// tests/unit/tensor/gradient_test.cpp: the gradient of every operation, compared with central finite
// differences in f64 on random shapes.
#include "gradient_check.h"
#include "node.h"

namespace yoke::testing {
namespace {

using Floats = std::vector<float>;

std::vector<Case> elementwise_cases() {
  std::vector<Case> cases = {
      {"add", "a b; b", [](Inputs x) { return x[0] + x[1]; }},
      {"subtract", "a 1; 1 b", [](Inputs x) { return x[0] - x[1]; }},
      {"multiply", "a b; b", [](Inputs x) { return x[0] * x[1]; }},
      {"square", "a b", [](Inputs x) { return x[0] * x[0]; }},
      {"divide", "a b; b", [](Inputs x) { return x[0] / x[1]; }},
      {"divide_column", "a 1; 1 b", [](Inputs x) { return x[0] / x[1]; }},
      {"negate", "a b", [](Inputs x) { return -x[0]; }},
      {"minimum", "a 1; 1 b", [](Inputs x) { return minimum(x[0], x[1]); }},
      {"maximum", "a b; b", [](Inputs x) { return maximum(x[0], x[1]); }},
      {"select", "a 1; 1 b", [](Inputs x) { return where(x[0] < x[1], x[0] * 3.0, x[1] * x[1]); }},
      {"pow", "a b; b", [](Inputs x) { return pow(x[0], x[1]); }, 0.2, 3},
      {"pow_of_constant", "a b", [](Inputs x) { return pow(x[0], 3.0); }},
      {"fma", "a b; b; a 1", [](Inputs x) { return fma(x[0], x[1], x[2]); }},
      {"cast", "a b", [](Inputs x) { return cast(x[0], Type::kF64) * 2.0; }},
      {"stop", "a b", [](Inputs x) { return x[0] * stop_gradient(floor(x[0])); }},
      {"rounding", "a b",
       [](Inputs x) { return x[0] * (sign(x[0]) + ceil(x[0]) + round(x[0] * 0.1) + trunc(x[0])); }}};
  using Unary = Tensor (*)(const Tensor&);
  const auto add_unary = [&](const std::vector<std::pair<const char*, Unary>>& operations, double low,
                             double high) {
    for (const auto& [name, operation] : operations) {
      cases.push_back({name, "a b", [f = operation](Inputs x) { return f(x[0]); }, low, high});
    }
  };
  add_unary({{"exp", exp},
             {"exp2", exp2},
             {"expm1", expm1},
             {"sin", sin},
             {"cos", cos},
             {"tanh", tanh},
             {"sigmoid", sigmoid},
             {"erf", erf},
             {"erfc", erfc},
             {"abs", abs},
             {"relu", relu},
             {"gelu", gelu}},
            -2, 2);
  add_unary(
      {{"log", log}, {"log2", log2}, {"log1p", log1p}, {"sqrt", sqrt}, {"rsqrt", rsqrt}, {"recip", recip}},
      0.3, 3);
  return cases;
}

const Axes kOuterAxes = {0, 2};
const Axes kLastAxes = {1, 2};

std::vector<Case> reduction_cases() {
  return {
      {"sum_all", "a b c", [](Inputs x) { return sum(exp(x[0])); }},
      {"sum_middle", "a b c", [](Inputs x) { return sum(x[0] * x[0], {1}, true); }},
      {"mean", "a b c", [](Inputs x) { return mean(x[0] * x[0], kOuterAxes); }},
      {"prod", "a b c", [](Inputs x) { return prod(x[0], kLastAxes); }},
      {"prod_outer", "a b c", [](Inputs x) { return prod(x[0], kOuterAxes); }},
      {"prod_second_order", "a 4",
       [](Inputs x) { return gradients(sum(prod(x[0], {1})), {x[0]})[0] * x[0]; }},
      {"max", "a b c", [](Inputs x) { return max(x[0], kOuterAxes); }},
      {"max_keep", "a b c", [](Inputs x) { return x[0] * max(x[0], {-1}, true); }},
      {"min", "a b c", [](Inputs x) { return min(x[0]); }},
      {"softmax", "a b", [](Inputs x) { return softmax(x[0]); }},
      {"softmax_of_axis_0", "a b", [](Inputs x) { return softmax(x[0] * x[0], 0); }},
      {"log_softmax", "a b", [](Inputs x) { return log_softmax(x[0]); }},
  };
}

std::vector<Case> einsum_cases() {
  return {
      {"dense", "a b; c b", [](Inputs x) { return einsum("b i; o i => b o", x[0], x[1]); }},
      {"outer", "a b; c b", [](Inputs x) { return einsum("b i; o i => i b o", x[0], x[1]); }},
      {"summed_alone", "a b; c b", [](Inputs x) { return einsum("b i; o i => o", x[0], x[1]); }},
      {"disjoint", "a b; c d", [](Inputs x) { return einsum("a b; c d => d", x[0], x[1]); }},
      {"batched", "d a b; b c", [](Inputs x) { return matmul(x[0], x[1]); }},
      {"broadcast_rest", "d 1 b; a b", [](Inputs x) { return einsum("... i; ... i => ...", x[0], x[1]); }},
      {"diagonal", "a a b", [](Inputs x) { return einsum("i i k => k i", x[0]); }},
      {"trace", "a a", [](Inputs x) { return einsum("i i => ", x[0]); }},
      {"transpose", "a b c", [](Inputs x) { return einsum("a b c => c a b", x[0]); }},
      {"three", "a b; b c; c d", [](Inputs x) { return einsum("a b; b c; c d => a d", x[0], x[1], x[2]); }},
      {"of_expressions", "a b; c b",
       [](Inputs x) { return einsum("b i; o i => b o", exp(x[0]), x[1] * x[1]); }},
      {"with_itself", "a b", [](Inputs x) { return einsum("a i; b i => a b", x[0], x[0]); }},
  };
}

// x with other dims in front of its last axis.
Tensor reshape_front(const Tensor& x, Dims front) {
  front.push_back(x.dims().back());
  return reshape(x, front);
}

const Dims kSplit = {4, 2, 3};
const Dims kAcross = {3, 8};
const Axes kRotation = {2, 0, 1};
const Symbol kRow{"row", 0, 2, 1};

std::vector<Case> shape_cases() {
  return {
      {"reshape_split", "4 6 a", [](Inputs x) { return reshape_front(x[0] * x[0], kSplit); }},
      {"reshape_join", "4 6 a", [](Inputs x) { return flatten(x[0] * x[0]); }},
      {"reshape_across", "4 6 a", [](Inputs x) { return reshape_front(exp(x[0]), kAcross) * 2.0; }},
      {"reshape_both", "4 6 a",
       [](Inputs x) {
         return reshape(x[0], {2, 12 * x[0].dims()[2]});
       }},
      {"permute", "a b c", [](Inputs x) { return permute(x[0] * x[0], kRotation); }},
      {"unsqueeze", "a b", [](Inputs x) { return squeeze(unsqueeze(x[0], 1) * 2.0, 1); }},
      {"broadcast", "a b",
       [](Inputs x) {
         return broadcast_to(unsqueeze(x[0], 0), {3, x[0].dims()[0], x[0].dims()[1]});
       }},
      {"slice", "4 6 a", [](Inputs x) { return slice(x[0] * x[0], 1, 2, 5) * slice(x[0], 1, 0, 3); }},
      {"slice_of_slice", "4 6 a", [](Inputs x) { return slice(slice(x[0], 1, 1, 5), 0, 1, 3) * 2.0; }},
      {"concat", "a b",
       [](Inputs x) {
         return concat({x[0], exp(x[0]), x[0] * x[0]}, 1);
       }},
      {"rows", "4 6 a", [](Inputs x) { return rows(x[0], kRow, 2) * 3.0; }},
      {"row", "4 6 a", [](Inputs x) { return x[0].at(kRow) * 3.0; }},
  };
}

// A valid class for each row of x.
Tensor labels_of(const Tensor& x) {
  std::vector<std::uint8_t> numbers(x.dims()[0]);
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    numbers[i] = static_cast<std::uint8_t>(i % x.dims()[1]);
  }
  return tensor<std::uint8_t>(numbers, {x.dims()[0]});
}

std::vector<Case> loss_cases() {
  return {
      {"cross_entropy_mean", "a b", [](Inputs x) { return cross_entropy(x[0] * x[0], labels_of(x[0])); }},
      {"cross_entropy_sum", "a b",
       [](Inputs x) { return cross_entropy(x[0], labels_of(x[0]), Reduce::kSum); }},
      {"mse", "a b; a b", [](Inputs x) { return mse(x[0], x[1]); }},
      {"hinge", "a b; a b", [](Inputs x) { return hinge(x[0], x[1], Reduce::kSum); }},
      {"second_order", "a b",
       [](Inputs x) { return gradients(sum(exp(x[0]) * tanh(x[0]) + x[0] * x[0] * x[0]), {x[0]})[0]; }},
      {"second_order_dense", "a b; a b",
       [](Inputs x) { return gradients(sum(tanh(einsum("a i; b i => a b", x[0], x[1]))), {x[0]})[0]; }},
  };
}

const auto case_name = ::testing::PrintToStringParamName();

INSTANTIATE_TEST_SUITE_P(Elementwise, GradientTest, ::testing::ValuesIn(elementwise_cases()), case_name);
INSTANTIATE_TEST_SUITE_P(Reductions, GradientTest, ::testing::ValuesIn(reduction_cases()), case_name);
INSTANTIATE_TEST_SUITE_P(Einsum, GradientTest, ::testing::ValuesIn(einsum_cases()), case_name);
INSTANTIATE_TEST_SUITE_P(Shape, GradientTest, ::testing::ValuesIn(shape_cases()), case_name);
INSTANTIATE_TEST_SUITE_P(Losses, GradientTest, ::testing::ValuesIn(loss_cases()), case_name);

TEST(Gradients, ReluHasZeroGradientAtZero) {
  const Tensor x = tensor<float>({-1, 0, 2}, {3}, "x");
  EXPECT_EQ(values<float>(gradients(sum(relu(x)), {x})[0]), (Floats{0, 0, 1}));
}

TEST(Gradients, MaximumAndMinimumUseTheFirstOfEqualOperands) {
  const Tensor a = tensor<float>({1, 2}, {2});
  const Tensor b = tensor<float>({1, 1}, {2});
  const auto of_max = gradients(sum(maximum(a, b)), {a, b});
  EXPECT_EQ(values<float>(of_max[0]), (Floats{1, 1}));
  EXPECT_EQ(values<float>(of_max[1]), (Floats{0, 0}));
  const auto of_min = gradients(sum(minimum(a, b)), {a, b});
  EXPECT_EQ(values<float>(of_min[0]), (Floats{1, 0}));
  EXPECT_EQ(values<float>(of_min[1]), (Floats{0, 1}));
}

TEST(Gradients, MaxSharesItsGradientBetweenEqualElements) {
  const Tensor x = tensor<float>({3, 1, 3, 2}, {4});
  EXPECT_EQ(values<float>(gradients(max(x), {x})[0]), (Floats{0.5, 0, 0.5, 0}));
}

TEST(Gradients, ProdHandlesZeros) {
  const Tensor x = tensor<float>({0, 2, 3, 0, 0, 5, 1, 2, 4}, {3, 3});
  EXPECT_EQ(values<float>(gradients(sum(prod(x, {1})), {x})[0]), (Floats{6, 0, 0, 0, 0, 0, 8, 4, 2}));
}

TEST(Gradients, ProdCanBeDifferentiatedAgainAtZeros) {
  const auto second = [](const std::vector<double>& numbers) {
    const Tensor x = tensor<double>(numbers, {numbers.size()});
    const Tensor first = gradients(prod(x), {x})[0];
    return values<double>(gradients(sum(first * tensor<double>({1, 10, 100, 1000}, {4})), {x})[0]);
  };
  // The second derivative by elements i and j is the product of the other elements.
  EXPECT_EQ(second({2, 0, 3, 5}), (std::vector<double>{150, 7015, 100, 60}));
  EXPECT_EQ(second({2, 0, 3, 0}), (std::vector<double>{0, 6000, 0, 60}));
}

TEST(Gradients, IsZeroForTensorsThatTheLossDoesNotDependOn) {
  const Tensor x = tensor<float>({3, 1}, {2});
  const Tensor y = tensor<float>({3, 1}, {2});
  EXPECT_EQ(values<float>(gradients(sum(x), {y})[0]), (Floats{0, 0}));
  EXPECT_EQ(values<float>(gradients(sum(stop_gradient(y)), {y})[0]), (Floats{0, 0}));
}

TEST(Gradients, IsAvailableForInnerNodes) {
  const Tensor x = tensor<float>({3, 1}, {2});
  const Tensor y = x * x;
  const auto both = gradients(sum(y * 3.0), {y, x});
  EXPECT_EQ(values<float>(both[0]), (Floats{3, 3}));
  EXPECT_EQ(values<float>(both[1]), (Floats{18, 6}));
}

TEST(Gradients, AnOperationWithoutADerivativeIsAnErrorThatNamesIt) {
  const Tensor x = placeholder("x", Type::kF32, {3});
  const auto message_of = [&](const std::shared_ptr<detail::Node>& node) {
    node->args = {x};
    const Tensor y = detail::finish(node);
    return std::string(test::error_of([&] { (void)gradients(sum(y), {x}); }).what());
  };
  const auto bits = detail::new_node(detail::Kind::kMap, Type::kF32, {3});
  bits->op = program::Op::kBitNot;
  EXPECT_EQ(message_of(bits),
            "gradients: '~' of 'x' [3] has no derivative; use stop_gradient to treat it as a constant");
  const auto index = detail::new_node(detail::Kind::kReduce, Type::kF32, {});
  index->reduce = program::Reduce::kArgMax;
  index->labels = {{0}};
  index->reduced = {3};
  EXPECT_EQ(message_of(index),
            "gradients: 'argmax' of 'x' [3] has no derivative; use stop_gradient to treat it as a constant");
}

TEST(Gradients, StepsAndIntegersHaveNoGradient) {
  const Tensor x = tensor<float>({0.3F, 1.7F}, {2}, "x");
  const Tensor steps = sign(x) + floor(x) + ceil(x) + round(x) + trunc(x);
  const Tensor through_integers = cast(cast(x, Type::kI32), Type::kF32) + cast(x > 1.0, Type::kF32);
  EXPECT_EQ(values<float>(gradients(sum(steps + through_integers), {x})[0]), (Floats{0, 0}));
}

TEST(Gradients, LossMustBeAScalar) {
  const Tensor x = placeholder("x", Type::kF32, {2, 3});
  const Error error = test::error_of([&] { (void)gradients(x * 2.0, {x}); });
  EXPECT_EQ(error.code(), ErrorCode::kInvalidArgument);
  EXPECT_STREQ(error.what(),
               "gradients: the loss must be a floating-point scalar, but got [2, 3] of type f32; "
               "reduce it with sum or mean first");
}

}  // namespace
}  // namespace yoke::testing
