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

TEST(Evaluate, RejectsExpressionsThatAreNotConstant) {
  EXPECT_THROW(evaluate(Expr::index_loop(0)), std::invalid_argument);
  EXPECT_THROW(evaluate(Expr::make(Op::kNeg, {Expr::read(Type::kF32, {})})), std::invalid_argument);
}

}  // namespace
}  // namespace yoke::program
