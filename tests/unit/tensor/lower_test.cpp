// SPDX-License-Identifier: Apache-2.0
// tests/unit/tensor/lower_test.cpp: the form of lowered programs, before and after the runtime's passes: few
// statements, plain contractions, safe updates in place.
#include <gtest/gtest.h>
#include <yoke/program/text.h>
#include <yoke/runtime/passes.h>

#include <algorithm>
#include <set>

#include "evaluate.h"

namespace yoke {
namespace {

using program::Expr;
using program::Op;
using program::Program;
using program::Statement;
using Floats = std::vector<float>;

// The statements that sum products of two reads.
std::vector<const Statement*> contractions(const Program& program) {
  std::vector<const Statement*> found;
  for (const Statement& statement : program.statements) {
    const bool product = statement.value.op == Op::kMul && statement.value.args[0].op == Op::kRead &&
                         statement.value.args[1].op == Op::kRead;
    if (statement.reduce == program::Reduce::kSum && product) {
      found.push_back(&statement);
    }
  }
  return found;
}

// Whether every index is a loop, or a loop plus a symbol.
bool is_plain(const Expr& read) {
  return !read.access.otherwise &&
         std::all_of(read.access.indices.begin(), read.access.indices.end(), [](const auto& index) {
           return !index.element_of && index.affine.constant == 0 && !index.affine.terms.empty() &&
                  !index.affine.terms[0].is_symbol && index.affine.terms[0].coefficient == 1 &&
                  (index.affine.terms.size() == 1 ||
                   (index.affine.terms.size() == 2 && index.affine.terms[1].is_symbol));
         });
}

Lowered optimized(Lowered lowered) {
  lowered.program = passes::optimize(std::move(lowered.program)).program;
  return lowered;
}

Lowered mlp_gradient() {
  const nn::Module model = nn::sequential(nn::linear(500), nn::relu(), nn::linear(10));
  const Symbol row{"row", 0, 60000, 50};
  const Tensor x = rows(placeholder("images", Type::kF32, {60000, 784}), row, 50);
  const Tensor y = rows(placeholder("labels", Type::kU8, {60000}), row, 50);
  const Tensor loss = cross_entropy(model(x), y);
  std::vector<Tensor> leaves;
  for (const Parameter& parameter : parameters_of(loss)) {
    leaves.push_back(parameter.tensor());
  }
  const auto wanted = gradients(loss, leaves);
  std::vector<Output> outputs = {{"loss", loss}};
  for (std::size_t i = 0; i < leaves.size(); ++i) {
    outputs.push_back({"grad_" + leaves[i].name(), wanted[i]});
  }
  return optimized(lower("gradient", outputs));
}

std::vector<std::string> names_of(const Lowered& lowered) {
  std::vector<std::string> names;
  for (const LoweredArgument& argument : lowered.arguments) {
    names.push_back(argument.name);
  }
  return names;
}

TEST(LowerTest, MlpGradientHasFiveContractionsOfPlainReadsAndDoesNotCopyTheDataSet) {
  const Lowered lowered = mlp_gradient();
  program::verify(lowered.program);
  EXPECT_LE(lowered.program.statements.size(), 17U) << testing::text_of(lowered);
  const auto found = contractions(lowered.program);
  EXPECT_EQ(found.size(), 5U) << testing::text_of(lowered);
  for (const Statement* statement : found) {
    EXPECT_TRUE(is_plain(statement->value.args[0]) && is_plain(statement->value.args[1]))
        << program::print(lowered.program, *statement);
  }
  for (const program::Tensor& tensor : lowered.program.tensors) {
    if (tensor.role == program::Role::kTemp) {
      EXPECT_LE(tensor.element_count(), 50U * 500U) << tensor.name;
    }
  }
}

TEST(LowerTest, ArgumentsHaveNamesKindsAndLeaves) {
  const Lowered lowered = mlp_gradient();
  EXPECT_EQ(testing::text_of(lowered), testing::text_of(mlp_gradient())) << "it is deterministic";
  for (const LoweredArgument& argument : lowered.arguments) {
    EXPECT_EQ(static_cast<bool>(argument.leaf), argument.kind != LoweredArgument::Kind::kOutput);
  }
  EXPECT_EQ(names_of(lowered), (std::vector<std::string>{"p_0_weight", "p_0_bias", "p_2_weight", "p_2_bias",
                                                         "images", "labels", "loss", "grad_0_weight",
                                                         "grad_0_bias", "grad_2_weight", "grad_2_bias"}));
  EXPECT_EQ(lowered.arguments[0].kind, LoweredArgument::Kind::kParameter);
  EXPECT_EQ(lowered.find(lowered.arguments[4].leaf), 4U);
  EXPECT_THROW((void)lowered.find(placeholder("other", Type::kF32, {})), Error);
}

TEST(LowerTest, AScalarIsAnArgumentThatTheProgramOnlyReads) {
  const Scalar rate = scalar("lr", 0.1);
  const Tensor x = placeholder("x", Type::kF32, {2});
  const Lowered lowered = lower("p", {}, {{x, x - rate * 2.0}});
  const LoweredArgument& argument = lowered.arguments[lowered.find(rate)];
  EXPECT_EQ(argument.name, "lr");
  EXPECT_EQ(argument.kind, LoweredArgument::Kind::kScalar);
  EXPECT_EQ(argument.role, program::Role::kIn);
  const std::string text = testing::text_of(lowered);
  rate.set(0.5);
  EXPECT_EQ(rate.value(), 0.5);
  EXPECT_EQ(testing::text_of(lower("p", {}, {{x, x - rate * 2.0}})), text) << "it does not hold the value";
  EXPECT_THROW((void)lower("p", {}, {{rate, x}}), Error);
}

TEST(LowerTest, EqualExpressionsAreComputedOnce) {
  const Tensor x = placeholder("x", Type::kF32, {4, 3});
  const Tensor a = sum(exp(x * 2.0), {1});
  const Tensor b = sum(exp(2.0 * x), {1});
  EXPECT_EQ(optimized(lower("p", {{"y", a + b}})).program.statements.size(), 2U);
}

TEST(LowerTest, FusesChainsOfElementwiseOperations) {
  const Tensor x = placeholder("x", Type::kF32, {4, 3});
  const Tensor b = placeholder("b", Type::kF32, {3});
  const Tensor z = placeholder("z", Type::kF32, {3, 4});
  const Lowered plain = lower("p", {{"y", tanh(exp(x + b) * 2.0 - transpose(z))}});
  EXPECT_EQ(plain.program.statements.size(), 5U) << "one statement per operation; views are index arithmetic";
  EXPECT_EQ(optimized(plain).program.statements.size(), 1U);
  EXPECT_EQ(testing::text_of(optimized(lower("value", {{"y", relu(x + b)}}))),
            "yoke.program 1\nprogram value() {\n  arg x : f32[4, 3] in\n  arg b : f32[3] in\n  arg y : "
            "f32[4, 3] out\n"
            "  y[i, j] = max(x[i, j] + b[j], 0)\n}\n");
}

TEST(LowerTest, StoresExpressionsThatAContractionReads) {
  const Tensor x = placeholder("x", Type::kF32, {4, 3});
  const Lowered lowered = lower("p", {{"y", einsum("a i; b i => a b", x * 2.0, x)}});
  ASSERT_EQ(lowered.program.statements.size(), 2U);
  EXPECT_EQ(contractions(lowered.program).size(), 1U);
}

TEST(LowerTest, ContractionOfASliceComputesOnlyTheSlice) {
  const Tensor data = placeholder("data", Type::kU8, {1000, 3});
  const Tensor batch = rows(cast(data, Type::kF32) * 0.5, Symbol{"row", 0, 1000, 10}, 10);
  const Lowered lowered = optimized(lower("p", {{"y", matmul(batch, placeholder("w", Type::kF32, {3, 2}))}}));
  for (const program::Tensor& tensor : lowered.program.tensors) {
    EXPECT_TRUE(tensor.role != program::Role::kTemp || tensor.dims[0] == 10) << testing::text_of(lowered);
  }
}

TEST(LowerTest, ContractionReadsAPaddedViewInPlaceIfTheViewIsLarger) {
  const Tensor x = placeholder("x", Type::kF32, {6});
  const Tensor padded = pad(x, {{1, 1}});
  const Tensor shifted = slice(padded, 0, 0, 6);  // as large as x
  const auto product = [](const std::string& spec, const Tensor& operand) {
    return lower("p",
                 {{"y", einsum(spec, operand, placeholder("w", Type::kF32, {operand.dims().back(), 4}))}});
  };
  const Lowered stored = product("i; i j => j", shifted);
  ASSERT_EQ(contractions(stored.program).size(), 1U) << testing::text_of(stored);
  EXPECT_TRUE(is_plain(contractions(stored.program)[0]->value.args[0])) << testing::text_of(stored);
  const Lowered in_place = product("o i; i j => o j", windows(padded, 0, 3));
  EXPECT_EQ(in_place.program.statements.size(), 1U) << testing::text_of(in_place);
  EXPECT_EQ(in_place.program.statements[0].value.op, Op::kGuard) << testing::text_of(in_place);
}

TEST(LowerTest, GradientOfWindowsThatDoNotOverlapSearchesNoWindow) {
  const auto text_of_gradient = [](std::uint64_t stride) {
    const Tensor x = placeholder("x", Type::kF32, {3, 8});
    const Tensor y = max(windows(x, 1, 2, stride), {-1});
    return testing::text_of(lower("p", {{"dx", gradients(sum(y * y), {x})[0]}}));
  };
  const std::string dividing = " - ";  // x[2 * o + k] at i has o = (i - k) / 2
  EXPECT_EQ(text_of_gradient(2).find(dividing), std::string::npos) << text_of_gradient(2);
  EXPECT_NE(text_of_gradient(1).find(dividing), std::string::npos) << text_of_gradient(1);
}

TEST(LowerTest, ExpensiveExpressionsAreNotRepeatedByBroadcasting) {
  const Tensor x = placeholder("x", Type::kF32, {4, 3});
  const Tensor rate = 0.1 / sqrt(cast(symbol_value(Symbol{"step", 0, 10, 1}), Type::kF32) + 1.0);
  const std::string text = testing::text_of(optimized(lower("value", {{"y", x * rate}})));
  EXPECT_NE(text.find("y[i, j] = x[i, j] * t4[]"), std::string::npos) << text;
}

TEST(LowerTest, SplitsLongExpressions) {
  Tensor x = placeholder("x", Type::kF64, {2});
  for (int i = 0; i < 500; ++i) {
    x = tanh(x + 0.001);
  }
  const Lowered lowered = optimized(lower("p", {{"y", x}}));
  program::verify(lowered.program);
  EXPECT_LT(lowered.program.statements.size(), 60U);
}

TEST(LowerTest, DeepGraphsDoNotOverflowTheStack) {
  Tensor x = placeholder("x", Type::kF32, {2});
  for (int i = 0; i < 20000; ++i) {
    x = x * 1.0001;
  }
  EXPECT_GT(lower("p", {{"y", x}}).program.statements.size(), 100U);
}

TEST(LowerTest, OutputsCanBeLeavesConstantsViewsOrEqual) {
  const Tensor x = tensor<float>({1, 2, 3, 4}, {2, 2}, "x");
  const Tensor y = x + 1.0;
  testing::Leaves leaves;
  const auto results = testing::run(lower("p", {{"a", x},
                                                {"b", y},
                                                {"c", y},
                                                {"d", transpose(x)},
                                                {"e", Tensor(0.5)},
                                                {"f", full(Type::kF32, {2}, 3)},
                                                {"g", y * 2.0}}),
                                    leaves);
  const std::map<std::string, Floats> expected = {
      {"a", {1, 2, 3, 4}}, {"b", {2, 3, 4, 5}}, {"c", {2, 3, 4, 5}}, {"d", {1, 3, 2, 4}},
      {"e", {0.5}},        {"f", {3, 3}},       {"g", {4, 6, 8, 10}}};
  for (const auto& [name, numbers] : expected) {
    EXPECT_EQ(testing::from_bytes<float>(results.at(name)), numbers) << name;
  }
}

TEST(LowerTest, ChangesInvalidAndDuplicateNames) {
  const Tensor a = tensor<float>({1}, {1}, "0.weight");
  const Tensor b = tensor<float>({2}, {1}, "0.weight");
  const Tensor c = tensor<float>({3}, {1}, "max");
  const Tensor d = tensor<float>({4}, {1}, "i");
  const Lowered lowered = lower("my Model-AZaz09!", {{"sum", a + b + c + d}});
  EXPECT_EQ(lowered.program.name, "my_Model_AZaz09_");
  EXPECT_EQ(names_of(lowered), (std::vector<std::string>{"p_0_weight", "p_0_weight_2", "max_", "i", "sum_"}));
  testing::Leaves leaves;
  EXPECT_EQ(testing::from_bytes<float>(testing::run(lowered, leaves).at("sum_")), (Floats{10}));
}

struct UpdateTest : public ::testing::Test {
  Tensor a = placeholder("a", Type::kF32, {2, 2});
  Tensor b = placeholder("b", Type::kF32, {2, 2});
  testing::Leaves leaves;

  void SetUp() override { leaves.bind(a, Floats{1, 2, 3, 4}).bind(b, Floats{10, 20, 30, 40}); }
  Floats value(const Tensor& leaf) { return testing::from_bytes<float>(leaves.of(leaf)); }
};

TEST_F(UpdateTest, ElementwiseUpdateIsInPlace) {
  const Lowered lowered = optimized(lower("p", {}, {{a, a * 2.0 + b}}));
  EXPECT_EQ(lowered.program.statements.size(), 1U);
  testing::run(lowered, leaves);
  EXPECT_EQ(value(a), (Floats{12, 24, 36, 48}));
  EXPECT_EQ(lowered.arguments[0].role, program::Role::kInOut);
}

TEST_F(UpdateTest, EveryUpdateReadsTheOldValues) {
  const Floats old_a = {1, 2, 3, 4};
  const Floats old_b = {10, 20, 30, 40};
  const Tensor more = a + 1.0;
  const Tensor total = a + b;
  const struct {
    std::vector<Update> updates;
    Floats a, b;
  } cases[] = {
      {{{a, b}, {b, a}}, old_b, old_a},
      {{{a, a + b}, {b, a * b}}, {11, 22, 33, 44}, {10, 40, 90, 160}},
      {{{a, transpose(a)}, {b, matmul(b, b)}}, {1, 3, 2, 4}, {700, 1000, 1500, 2200}},
      {{{a, more}, {b, more * 10.0 + a}}, {2, 3, 4, 5}, {21, 32, 43, 54}},
      {{{a, 0}, {b, b}}, {0, 0, 0, 0}, old_b},
      {{{a, total}, {b, total}}, {11, 22, 33, 44}, {11, 22, 33, 44}},
  };
  for (const auto& [updates, new_a, new_b] : cases) {
    leaves = {};
    SetUp();
    testing::run(lower("p", {{"y", a + 0.5}}, updates), leaves);
    EXPECT_EQ(value(a), new_a);
    EXPECT_EQ(value(b), new_b);
  }
}

TEST_F(UpdateTest, OutputsSeeTheOldValues) {
  auto results = testing::run(
      lower("p", {{"before", a * 1.0}, {"after", a + 1.0}, {"total", sum(a)}}, {{a, a + 1.0}}), leaves);
  EXPECT_EQ(testing::from_bytes<float>(results.at("before")), (Floats{1, 2, 3, 4}));
  EXPECT_EQ(testing::from_bytes<float>(results.at("after")), (Floats{2, 3, 4, 5}));
  EXPECT_EQ(testing::from_bytes<float>(results.at("total")), (Floats{10}));
  EXPECT_EQ(value(a), (Floats{2, 3, 4, 5}));
}

TEST_F(UpdateTest, InvalidOutputsAndUpdatesAreErrors) {
  const auto expect_error = [](const std::vector<Output>& outputs, const std::vector<Update>& updates) {
    EXPECT_THROW((void)lower("p", outputs, updates), Error);
  };
  expect_error({}, {{a, a}, {a, b}});
  expect_error({}, {{a + 1.0, b}});
  expect_error({}, {{a, sum(b, {0})}});
  expect_error({}, {{tensor<float>({1}, {1}), 2.0}});
  expect_error({{"y", a}, {"y", b}}, {});
  expect_error({{"y", Tensor()}}, {});
  expect_error({{"y", symbol_value(Symbol{"k", 0, 5, 1}) + symbol_value(Symbol{"k", 0, 6, 1})}}, {});
}

}  // namespace
}  // namespace yoke
