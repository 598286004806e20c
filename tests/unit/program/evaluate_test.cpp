// SPDX-License-Identifier: Apache-2.0
// tests/unit/program/evaluate_test.cpp: the values of constant expressions.
#include <gtest/gtest.h>
#include <yoke/program/execute.h>

#include <stdexcept>

namespace yoke::program {
namespace {

TEST(Evaluate, MatchesTheExecutor) {
  const Expr tenth = Expr::constant(Type::kF32, 0.1);
  const Expr sum = Expr::make(Op::kAdd, {tenth, Expr::constant(Type::kF32, 0.2)});
  EXPECT_EQ(evaluate(sum).number, static_cast<double>(0.1F + 0.2F));
  EXPECT_EQ(evaluate(Expr::cast(Type::kU8, Expr::constant(Type::kI32, 300))).integer, 44);
  EXPECT_EQ(evaluate(Expr::cast(Type::kI32, Expr::constant(Type::kF64, 1e10))).integer, 2147483647);
  EXPECT_EQ(evaluate(Expr::make(Op::kLess, {tenth, sum})).integer, 1);
  EXPECT_EQ(
      evaluate(Expr::make(Op::kSelect, {Expr::constant(Type::kBool, 0), tenth, Expr::cast(Type::kF32, sum)}))
          .number,
      evaluate(sum).number);
}

// Literals of one value are equal: the member that a type does not use is 0.
TEST(Evaluate, CastsReturnLiteralsOfTheirType) {
  const auto cast = [](Type from, double value, Type to) {
    return evaluate(Expr::cast(to, Expr::constant(from, value)));
  };
  EXPECT_EQ(cast(Type::kI32, 300, Type::kU8), (Literal{0, 44}));
  EXPECT_EQ(cast(Type::kF64, 2.5, Type::kI32), (Literal{0, 2}));
  EXPECT_EQ(cast(Type::kI64, 3, Type::kF64), (Literal{3, 0}));
  EXPECT_EQ(cast(Type::kI32, 3, Type::kF32), (Literal{3, 0}));
  EXPECT_EQ(cast(Type::kF64, 0.1, Type::kF32), (Literal{static_cast<double>(0.1F), 0}));
}

TEST(Evaluate, RejectsExpressionsThatAreNotConstant) {
  EXPECT_THROW(evaluate(Expr::index_loop(0)), std::invalid_argument);
  EXPECT_THROW(evaluate(Expr::make(Op::kNeg, {Expr::read(Type::kF32, {})})), std::invalid_argument);
}

}  // namespace
}  // namespace yoke::program
