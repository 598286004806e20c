// SPDX-License-Identifier: Apache-2.0
// tests/unit/program/verify_built_test.cpp: rules that only programs built by code can break.
#include <gtest/gtest.h>
#include <yoke/program/text.h>

#include <functional>
#include <limits>
#include <string>

#include "corpus.h"

namespace yoke::program {
namespace {

// Programs built by code can break rules that no text can break. They have no line numbers, so messages
// give the number of the statement.
class VerifierOfBuiltPrograms : public testing::Test {
 protected:
  // Applies `change` to the program y[i] = x[i].
  static std::string broken(const std::function<void(Program&)>& change) {
    Program program;
    program.name = "p";
    program.symbols = {{"s", 0, 4, 1, {}}};
    program.tensors = {{"x", Type::kF32, {4}, Role::kIn, {}},
                       {"y", Type::kF32, {4}, Role::kOut, {}},
                       {"k", Type::kI32, {4}, Role::kIn, {}}};
    Statement statement;
    statement.loops = {{"i", 4}};
    statement.target = {1, {{Affine::loop(0), {}, {}}}, {}};
    statement.value = Expr::read(Type::kF32, {0, {{Affine::loop(0), {}, {}}}, {}});
    program.statements = {statement};
    change(program);
    try {
      verify(Module{{program}});
    } catch (const ProgramError& error) {
      return error.what();
    }
    return "accepted";
  }
};

const std::string kInStatement = "program 'p', statement 1: ";

TEST_F(VerifierOfBuiltPrograms, RejectsInvalidNames) {
  EXPECT_EQ(broken([](Program&) {}), "accepted");
  EXPECT_EQ(broken([](Program& p) { p.name = "a b"; }),
            "program 'a b': invalid name 'a b'; a name consists of letters, digits and _, and does not start "
            "with a digit");
  EXPECT_EQ(broken([](Program& p) { p.tensors[0].name = "y"; }),
            "program 'p': the name 'y' is declared twice");
  EXPECT_EQ(broken([](Program& p) { p.symbols[0].name = "y"; }),
            "program 'p': the name 'y' is declared twice");
  EXPECT_EQ(
      broken([](Program& p) { p.statements[0].loops[0].name = "1"; }),
      kInStatement +
          "invalid name '1'; a name consists of letters, digits and _, and does not start with a digit");
  EXPECT_EQ(broken([](Program& p) { p.statements[0].loops[0].name = "s"; }),
            kInStatement + "loop 's' has the name of a symbol");
  EXPECT_EQ(broken([](Program& p) { p.statements[0].loops[0].name = "k"; }),
            kInStatement + "loop 'k' has the name of a tensor");
  EXPECT_EQ(broken([](Program& p) {
              p.statements[0].loops.push_back({"i", 2});
              p.statements[0].reduce = Reduce::kSum;
              p.statements[0].reduce_loops = {1};
            }),
            kInStatement + "loop 'i' is declared twice");
}

TEST_F(VerifierOfBuiltPrograms, RejectsNumbersThatDoNotExist) {
  EXPECT_EQ(broken([](Program& p) { p.statements[0].target.tensor = 9; }),
            kInStatement + "an access refers to tensor number 9, which does not exist");
  EXPECT_EQ(broken([](Program& p) { p.statements[0].value.access.tensor = 9; }),
            kInStatement + "an access refers to tensor number 9, which does not exist");
  EXPECT_EQ(broken([](Program& p) { p.statements[0].value.access.indices[0].affine.terms[0].id = 9; }),
            kInStatement + "an index refers to loop or symbol number 9, which does not exist");
  EXPECT_EQ(broken([](Program& p) {
              p.statements[0].value.access.indices[0].affine.terms.push_back({false, 0, 1});
            }),
            kInStatement + "the terms of an index are not sorted, or a coefficient is 0");
  EXPECT_EQ(broken([](Program& p) {
              p.statements[0].value.access.indices[0] = {{}, 9, {}};
            }),
            kInStatement +
                "an element index refers to tensor number 9, which does not exist, or has an affine part");
  EXPECT_EQ(broken([](Program& p) {
              p.statements[0].value.access.indices[0] = {{}, 2, {Affine::loop(0)}, 2};
            }),
            kInStatement +
                "an element index refers to tensor number 2, which does not exist, or has an affine part");
  EXPECT_EQ(broken([](Program& p) { p.statements[0].value.access.indices[0].divisor = 0; }),
            kInStatement + "the divisor of an index must be at least 1; 1 means no division");
  EXPECT_EQ(
      broken([](Program& p) { p.statements[0].value.access.indices[0].element_indices = {Affine::loop(0)}; }),
      kInStatement + "an affine index must not have element indices");
  EXPECT_EQ(broken([](Program& p) {
              p.statements[0].value.access.indices[0] = {{}, 2, {}};
            }),
            kInStatement + "tensor 'k' has 1 dimension, got 0 indices");
  EXPECT_EQ(broken([](Program& p) { p.statements[0].target.indices.clear(); }),
            kInStatement + "tensor 'y' has 1 dimension, got 0 indices");
  EXPECT_EQ(broken([](Program& p) { p.statements[0].hint = 3; }),
            "program 'p': the statements of a hint must be consecutive, and hints must be numbered in order");
  EXPECT_EQ(broken([](Program& p) {
              p.hints = {{"softmax", {}}};
            }),
            "program 'p': a hint contains no statements");
  EXPECT_EQ(broken([](Program& p) { p.statements[0].assign = static_cast<Assign>(77); }),
            kInStatement + "unknown hint, assignment or reduction");
  EXPECT_EQ(broken([](Program& p) {
              Expr guard = Expr::guard(Expr::constant(Type::kF32, 1), {});
              guard.args[0] = p.statements[0].value;
              p.statements[0].value = guard;
            }),
            kInStatement + "a guard of a single read must be the `else` of the read");
  EXPECT_EQ(broken([](Program& p) { p.tensors[0].type = static_cast<Type>(77); }),
            "program 'p': tensor 'x' has an unknown type or role");
  EXPECT_EQ(broken([](Program& p) { p.statements[0].value.op = static_cast<Op>(200); }),
            kInStatement + "unknown operation or type");
}

TEST_F(VerifierOfBuiltPrograms, RejectsLoopsOutOfOrder) {
  const std::string order =
      kInStatement +
      "loops must be numbered in order of first use in the target, followed by those of the reduction";
  EXPECT_EQ(broken([](Program& p) {
              p.statements[0].loops.push_back({"j", 2});
            }),
            kInStatement + "loop 'j' is used neither in the target nor in the reduction");
  EXPECT_EQ(broken([](Program& p) {
              p.statements[0].loops.push_back({"j", 2});
              p.statements[0].target.indices[0].affine = Affine::loop(1);
            }),
            order);
  EXPECT_EQ(broken([](Program& p) {
              p.statements[0].loops.push_back({"j", 2});
              p.statements[0].reduce = Reduce::kSum;
              p.statements[0].reduce_loops = {0};
            }),
            order);
  EXPECT_EQ(broken([](Program& p) { p.statements[0].reduce = Reduce::kSum; }),
            kInStatement + "reduction loops without a reduction, or a reduction without loops");
  EXPECT_EQ(broken([](Program& p) { p.statements[0].accumulator = Type::kF32; }),
            kInStatement + "an accumulator type requires a reduction");
  EXPECT_EQ(broken([](Program& p) { p.statements[0].target.otherwise = Literal{}; }),
            kInStatement + "a target must not have an else");
}

TEST_F(VerifierOfBuiltPrograms, RejectsInvalidExpressions) {
  const auto value = [](Expr expr) { return broken([&](Program& p) { p.statements[0].value = expr; }); };
  const Expr one = Expr::constant(Type::kF32, 1);
  EXPECT_EQ(value(one), "accepted");
  EXPECT_EQ(value(Expr::make(Op::kAdd, {one, Expr::constant(Type::kF64, 1)})),
            kInStatement + "+ requires operands of the same type, got f32 and f64; cast one of them");
  EXPECT_EQ(value(Expr::make(Op::kAdd, {one})), kInStatement + "+ expects 2 arguments, got 1");
  Expr mistyped = Expr::make(Op::kAdd, {one, one});
  mistyped.type = Type::kF64;
  EXPECT_EQ(value(mistyped), kInStatement + "the result of + is f32, not f64");
  Expr cast = Expr::cast(Type::kF32, one);
  cast.args.clear();
  EXPECT_EQ(value(cast), kInStatement + "f32 expects 1 argument, got 0");
  Expr unrounded = one;
  unrounded.literal.number = 0.1;
  EXPECT_EQ(value(unrounded),
            kInStatement + "the constant 0.100000 is not representable in f32; round it first");
  const auto integer = [&](Type type, std::int64_t number) {
    return value(Expr::cast(Type::kF32, Expr::constant(type, Literal{0, number})));
  };
  EXPECT_EQ(integer(Type::kU8, 0), "accepted");
  EXPECT_EQ(integer(Type::kU8, 255), "accepted");
  for (const std::int64_t number : {-1, 256}) {
    EXPECT_EQ(integer(Type::kU8, number), kInStatement + "the constant " + std::to_string(number) +
                                              " is not representable in u8; round it first");
  }
  EXPECT_EQ(integer(Type::kBool, 2),
            kInStatement + "the constant 2 is not representable in bool; round it first");
  Expr leaf = one;
  leaf.args = {one};
  EXPECT_EQ(value(leaf), kInStatement + "a leaf of an expression must not have arguments");
  Expr index = Expr::index_loop(0);
  index.affine.constant = 1;
  EXPECT_EQ(value(Expr::cast(Type::kF32, index)),
            kInStatement + "an index used as a value must be a single loop or symbol of type i64");
  EXPECT_EQ(value(Expr::read(Type::kF64, {0, {{Affine::loop(0), {}, {}}}, {}})),
            kInStatement + "the type of 'x' is f32, not f64");
  Expr deep = one;
  for (int i = 0; i < 200; ++i) {
    deep = Expr::make(Op::kNeg, {deep});
  }
  EXPECT_EQ(value(deep), kInStatement + "the expression is nested too deeply; the limit is 200 levels");
}

// A round reads what later statements of the block wrote, so the verifier looks at these statements early.
TEST_F(VerifierOfBuiltPrograms, RejectsAnInvalidStatementAfterOneThatReadsInARepeatBlock) {
  const auto with_second = [](const std::function<void(Statement&)>& change) {
    return broken([&](Program& p) {
      p.symbols.push_back({"t", 0, 4, 1, {}, true});
      p.statements[0].repeat = 1;
      p.statements.push_back(p.statements[0]);
      p.statements[0].value.access.tensor = 1;
      p.statements[1].target.indices[0].affine = Affine::symbol(1);
      p.statements[1].loops.clear();
      p.statements[1].value.access.indices[0].affine = Affine::symbol(1);
      change(p.statements[1]);
    });
  };
  const std::string second = "program 'p', statement 2: ";
  EXPECT_EQ(with_second([](Statement& one) { one.target.tensor = 9; }),
            second + "an access refers to tensor number 9, which does not exist");
  EXPECT_EQ(with_second([](Statement& one) { one.target.indices.push_back({}); }),
            second + "tensor 'y' has 1 dimension, got 2 indices");
}

TEST_F(VerifierOfBuiltPrograms, RejectsInvalidModules) {
  EXPECT_THROW(verify(Module{}), ProgramError);
  Program program;
  program.name = "p";
  try {
    verify(Module{{program, program}});
    FAIL() << "accepted";
  } catch (const ProgramError& error) {
    EXPECT_STREQ(error.what(), "program 'p' is defined twice");
  }
}

}  // namespace
}  // namespace yoke::program
