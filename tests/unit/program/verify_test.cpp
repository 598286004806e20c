// SPDX-License-Identifier: Apache-2.0
// tests/unit/program/verify_test.cpp: every rule of the verifier, as a user reads it when it is broken.
#include <gtest/gtest.h>

#include <functional>

#include "corpus.h"

namespace yoke::program {
namespace {

// Declarations from line 3 on, each line as given.
std::string with(const std::string& lines, const std::string& symbols = "") {
  return "yoke.program 1\nprogram p(" + symbols + ") {\n" + lines + "\n}\n";
}

const char* const kTensors =
    "arg x : f32[10] in\n"         // line 3
    "arg k : i32[10] in\n"         // line 4
    "arg y : f32[10] inout\n"      // line 5
    "arg m : f32[10, 10] inout\n"  // line 6
    "arg h : f16[10] inout\n"      // line 7
    "arg b : bool[10] inout\n"     // line 8
    "arg n : i32[10] inout\n"      // line 9
    "temp t : f32[10]\n"           // line 10
    "temp c : i32[10]\n";          // line 11

// The statements start at line 12.
std::string error_with(const std::string& statements,
                       const std::string& symbols = "symbol row in 0..6 step 2") {
  return error_of(with(kTensors + statements, symbols));
}

TEST(Verifier, AsksForRangesAndSizesThatAreNotEmpty) {
  EXPECT_EQ(error_of(with("", "symbol a in 3..3")),
            "line 2, column 18: the range 3..3 of symbol 'a' is empty; its end is excluded");
  EXPECT_EQ(error_of(with("", "symbol a in 0..3 step 0")),
            "line 2, column 18: the step of symbol 'a' is 0; it is at least 1");
  EXPECT_EQ(error_of(with("  arg x : f32[3, 0] in")),
            "line 3, column 7: tensor 'x' has a dimension of 0; each is at least 1");
  EXPECT_EQ(error_with("y[i] = sum[j:0] x[i]"),
            "line 12, column 1: loop 'j' has the extent 0; it is at least 1");
}

TEST(Verifier, AsksForSizesThatFit) {
  EXPECT_EQ(error_of(with("arg x : f32[1, 1, 1, 1, 1, 1, 1, 1, 1] in")),
            "line 3, column 5: tensor 'x' has 9 dimensions; the limit is 8");
  EXPECT_EQ(error_of(with("arg x : f32[1, 1, 1, 1, 1, 1, 1, 1] in")), "accepted");
  EXPECT_EQ(error_of(with("arg x : f32[2305843009213693952] in")),
            "line 3, column 5: tensor 'x' has more bytes than fit in 63 bits");
  EXPECT_EQ(error_of(with("arg x : f32[2305843009213693951] in")), "accepted");
  EXPECT_EQ(error_of(with("arg x : u8[4294967296, 4294967296, 18446744073709551615] in")),
            "line 3, column 5: tensor 'x' has more bytes than fit in 63 bits");
  EXPECT_EQ(error_with("y[i] = sum[j:3037000500, k:3037000500] 1"),
            "line 12, column 1: the statement has more iterations than fit in 63 bits");
}

TEST(Verifier, KeepsEveryIndexInside) {
  EXPECT_EQ(error_with("y[i] = x[i + 1]"),
            "line 12, column 8: the index 'i + 1' of 'x' runs from 1 to 10, outside of 0 to 9; write (x[...] "
            "else 0) if that is meant");
  EXPECT_EQ(error_with("y[i] = 2 * x[-i]"),
            "line 12, column 12: the index '-i' of 'x' runs from -9 to 0, outside of 0 to 9; write (x[...] "
            "else 0) if that is meant");
  EXPECT_EQ(error_with("y[i] = (x[i + 1] else 0)"), "accepted");
  EXPECT_EQ(error_with("y[i + 6] for[i:5] = 1"),
            "line 12, column 1: the index 'i + 6' of 'y' runs from 6 to 10, outside of 0 to 9");
  EXPECT_EQ(error_with("y[i] for[i:6] = x[row + i]"),
            "accepted");  // row is 0, 2 or 4: its last step is not 5
  EXPECT_EQ(error_with("y[i] for[i:7] = x[row + i]"),
            "line 12, column 17: the index 'row + i' of 'x' runs from 0 to 10, outside of 0 to 9; write "
            "(x[...] else 0) if that is meant");
  EXPECT_EQ(error_with("y[i] = (x[k[i + 1]] else 0)"),
            "line 12, column 8: the index 'i + 1' of 'k' runs from 1 to 10, outside of 0 to 9");
  EXPECT_EQ(error_with("y[i] = (x[2305843009213693952*i] else 0)"),
            "line 12, column 8: the index '2305843009213693952*i' of 'x' may pass 2^61");
  EXPECT_EQ(error_with("y[i] = (x[row] else 0)", "symbol row in -9223372036854775808..9223372036854775807"),
            "line 12, column 8: the index 'row' of 'x' may pass 2^61");
}

TEST(Verifier, AsksForElseAtEveryGather) {
  EXPECT_EQ(error_with("y[i] = x[k[i]]"),
            "line 12, column 8: a gather must say what it yields outside of 'x': write (x[...] else 0)");
  EXPECT_EQ(error_with("y[i] = (x[y[i]] else 0)"),
            "line 12, column 8: 'y' is f32 and cannot be an index; its type must be an integer");
}

TEST(Verifier, LetsNoTwoIterationsWriteOneElement) {
  const auto reason = [](const std::string& tensor, const std::string& loop) {
    return "line 12, column 1: two iterations may write one element of '" + tensor +
           "': its indices do not tell the values of loop '" + loop + "' apart; reduce over it instead";
  };
  EXPECT_EQ(error_with("y[i + j] for[i:5, j:5] = 1"), reason("y", "i"));
  EXPECT_EQ(error_with("y[2*i + j] for[i:4, j:3] = 1"), reason("y", "i"));
  EXPECT_EQ(error_with("y[2*i + j] for[i:4, j:3] += 1"), reason("y", "i"));
  EXPECT_EQ(error_with("y[2*i + j] for[i:5, j:2] = 1"), "accepted");
  EXPECT_EQ(error_with("y[-4*i + 2*j + l + 6] for[i:2, j:2, l:2] = 1"), "accepted");
  EXPECT_EQ(error_with("y[j + i] for[j:10, i:1] = 1"), "accepted");
  EXPECT_EQ(error_with("m[i, i + j] for[i:3, j:3] = 1"), "accepted");
  EXPECT_EQ(error_with("m[i + j, i + j] for[i:3, j:3] = 1"), reason("m", "i"));
  EXPECT_EQ(error_with("y[0] = x[0]"), "accepted");
}

TEST(Verifier, AsksThatScattersAccumulate) {
  EXPECT_EQ(error_with("y[k[i]] = x[i]"),
            "line 12, column 1: a scatter to 'y' with = would depend on the order of iterations; use += *= "
            "max= or min=");
  EXPECT_EQ(error_with("y[k[i]] += x[i]"), "accepted");
  EXPECT_EQ(error_with("y[k[i]] max= sum[j] m[i, j]"), "accepted");
}

TEST(Verifier, LetsAStatementReadItsTargetOnlyWhereItWrites) {
  const auto reason = [](int column, const std::string& tensor) {
    return "line 12, column " + std::to_string(column) + ": the statement reads elements of its target '" +
           tensor + "' that other iterations write; it may read only the element that it writes";
  };
  EXPECT_EQ(error_with("y[i] = y[i] + y[i] * x[i]"), "accepted");
  EXPECT_EQ(error_with("y[i] = y[i] + y[-i + 9]"), reason(15, "y"));
  EXPECT_EQ(error_with("m[i, j] = m[j, i]"), reason(11, "m"));
  EXPECT_EQ(error_with("y[i] = sum[j] y[j]"), reason(15, "y"));
  EXPECT_EQ(error_with("y[k[i]] += (y[k[i]] else 0)"), reason(12, "y"));
  EXPECT_EQ(error_with("n[n[i]] += 1"), reason(1, "n"));
  EXPECT_EQ(error_with("n[i] = i32((x[n[i]] else 0))"), reason(12, "n"));
}

TEST(Verifier, AsksThatWhatIsReadWasWritten) {
  const auto reason = [](int line, int column, const std::string& tensor) {
    return "line " + std::to_string(line) + ", column " + std::to_string(column) + ": elements of '" +
           tensor + "' are read here that were never written";
  };
  EXPECT_EQ(error_with("y[i] = t[i]"), reason(12, 8, "t"));
  EXPECT_EQ(error_with("t[i] = t[i]"), reason(12, 8, "t"));
  EXPECT_EQ(error_with("t[i] = 1\ny[i] = t[i]"), "accepted");
  EXPECT_EQ(error_with("t[i] for[i:9] = 1\ny[i] = t[i]"), reason(13, 8, "t"));
  EXPECT_EQ(error_with("t[i] for[i:9] = 1\ny[i] for[i:9] = t[i]"), "accepted");
  EXPECT_EQ(error_with("t[i] for[i:4] = 1\nt[i + 4] for[i:6] = 2\ny[i] = t[-i + 9]"), "accepted");
  EXPECT_EQ(error_with("t[2*i] for[i:5] = 1\ny[i] = t[i]"), reason(13, 8, "t"));
  EXPECT_EQ(error_with("t[2*i] for[i:5] = 1\ny[i] for[i:5] = t[2*i]"), "accepted");
  EXPECT_EQ(error_with("t[2*i] for[i:5] = 1\nt[2*i + 1] for[i:5] = 2\ny[i] = t[i]"), "accepted");
  EXPECT_EQ(error_with("t[row] = 1\ny[0] = t[row]"), reason(13, 8, "t"));
  EXPECT_EQ(error_with("t[row] = 1\ny[0] = t[row]", "symbol row in 3..4"), "accepted");
  EXPECT_EQ(error_with("t[i] for[i:9] = 1\ny[i] = (t[k[i]] else 0)"), reason(13, 8, "t"));
  EXPECT_EQ(error_with("y[i] = (x[c[i]] else 0)"), reason(12, 8, "c"));
  EXPECT_EQ(error_with("y[c[i]] += 1"), reason(12, 1, "c"));
  EXPECT_EQ(error_with("t[i] for[i:9] = 1\ny[i] = (t[i - 1] else 0)"), "accepted");
  EXPECT_EQ(error_with("t[i] += 1"),
            "line 12, column 1: elements of 't' are accumulated to here that were never written");
  EXPECT_EQ(error_with("t[k[i]] += 1"),
            "line 12, column 1: elements of 't' are accumulated to here that were never written");
}

TEST(Verifier, CountsPartialWritesOfAMatrixTogether) {
  const std::string four =
      "temp q : f32[10, 10]\nq[i, j] for[i:4, j:6] = 1\nq[i + 4, j] for[i:6] = 2\nq[i, j + 6] for[i:4, j:";
  EXPECT_EQ(error_with(four + "4] = 3\nm[i, j] = q[i, j]"), "accepted");
  EXPECT_EQ(error_with(four + "3] = 3\nm[i, j] = q[i, j]"),
            "line 16, column 11: elements of 'q' are read here that were never written");
  EXPECT_EQ(error_with("temp q : f32[10, 10]\nq[i, i] = 1\nm[i, j] = q[i, j]"),
            "line 14, column 11: elements of 'q' are read here that were never written");
}

TEST(Verifier, AsksThatOutputsAreWhollyWrittenAndInputsNever) {
  const std::string reason =
      "line 3, column 5: the out argument 'z' is not wholly written at the program's end";
  EXPECT_EQ(error_of(with("arg z : f32[10] out")), reason);
  EXPECT_EQ(error_of(with("arg z : f32[10] out\nz[i] for[i:9] = 1")), reason);
  EXPECT_EQ(error_of(with("arg z : f32[10] out\nz[i] for[i:9] = 1\nz[9] = 2")), "accepted");
  EXPECT_EQ(error_of(with("arg z : f32[] out\nz[] = 2")), "accepted");
  EXPECT_EQ(error_of(with("arg z : f32[] out")), reason);
  EXPECT_EQ(error_with("x[i] = 1"), "line 12, column 1: 'x' is an in argument and cannot be written");
}

TEST(Verifier, AsksForTypesThatAgree) {
  EXPECT_EQ(error_with("y[i] = i"),
            "line 12, column 1: 'y' has the type f32, and the value the type i64; cast the value");
  EXPECT_EQ(error_with("n[i] = sum[j:3] x[j]"),
            "line 12, column 1: 'n' has the type i32, and the value the type f32; cast the value");
  EXPECT_EQ(error_with("b[i] += true"), "line 12, column 1: 'b' is bool and takes = only");
}

TEST(Verifier, AsksForAccumulatorsThatHoldTheValue) {
  EXPECT_EQ(error_with("h[i] = sum[j] h[j]"),
            "line 12, column 1: sum of f16 must state its accumulator, sum:f32[...] or sum:f64[...]");
  EXPECT_EQ(error_with("y[i] = max[j] h[j]"),
            "line 12, column 1: max of f16 must state its accumulator, max:f32[...] or max:f64[...]");
  EXPECT_EQ(error_with("h[i] = sum:f32[j] x[j]"), "accepted");
  EXPECT_EQ(error_with("h[i] = sum:f16[j] x[j]"),
            "line 12, column 1: the accumulator f16 cannot hold every f32 of the value");
  EXPECT_EQ(error_with("n[i] = sum:u32[j] k[j]"),
            "line 12, column 1: the accumulator u32 cannot hold every i32 of the value");
  EXPECT_EQ(error_with("n[i] = sum:i64[j] k[j]"), "accepted");
  EXPECT_EQ(error_with("y[i] = sum:i64[j] k[j]"),
            "line 12, column 1: the accumulator i64 is not rounded to f32, the type of 'y'; both are floats "
            "or both integers");
  EXPECT_EQ(error_with("b[i] = any:bool[j] b[j]"), "line 12, column 1: any takes no accumulator");
}

TEST(Verifier, AsksWhatEachReductionTakes) {
  EXPECT_EQ(error_with("b[i] = any[j] x[j]"), "line 12, column 1: any takes bool, not f32");
  EXPECT_EQ(error_with("b[i] = sum[j] x[j] > 1"), "line 12, column 1: sum takes numbers, not bool");
  EXPECT_EQ(error_with("n[i] = argmax[j] b[j]"), "line 12, column 1: argmax takes numbers, not bool");
  EXPECT_EQ(error_with("n[i] = argmax[j, l] m[j, l]"),
            "line 12, column 1: argmax takes exactly one loop, 2 given");
  EXPECT_EQ(error_with("y[i] = argmin[j] m[i, j]"),
            "line 12, column 1: argmin gives an i32 or i64, and 'y' is f32");
  EXPECT_EQ(error_with("n[i] += argmin[j] m[i, j]"), "line 12, column 1: argmin takes = only");
  EXPECT_EQ(error_with("n[i] = argmax[j:2147483649] x[i]"),
            "line 12, column 1: the numbers of loop 'j' do not fit in i32");
  EXPECT_EQ(error_with("n[i] = argmax:f32[j] h[j]"), "line 12, column 1: argmax takes no accumulator");
  EXPECT_EQ(error_with("n[i] = argmax[j] h[j]"), "accepted");
}

// Programs made by code may break what a text cannot; they have no lines, so the message counts statements.
class VerifierOfCode : public testing::Test {
 protected:
  // y[i] = x[i], then broken.
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

TEST_F(VerifierOfCode, ChecksNames) {
  EXPECT_EQ(broken([](Program&) {}), "accepted");
  EXPECT_EQ(broken([](Program& p) { p.name = "a b"; }),
            "program 'a b': 'a b' is no name: letters, digits and _ are, not starting with a digit");
  EXPECT_EQ(broken([](Program& p) { p.tensors[0].name = "y"; }),
            "program 'p': the name 'y' is declared twice");
  EXPECT_EQ(broken([](Program& p) { p.symbols[0].name = "y"; }),
            "program 'p': the name 'y' is declared twice");
  EXPECT_EQ(broken([](Program& p) { p.statements[0].loops[0].name = "1"; }),
            kInStatement + "'1' is no name: letters, digits and _ are, not starting with a digit");
  EXPECT_EQ(broken([](Program& p) { p.statements[0].loops[0].name = "s"; }),
            kInStatement + "'s' is a symbol and cannot be a loop");
  EXPECT_EQ(broken([](Program& p) {
              p.statements[0].loops.push_back({"i", 2});
              p.statements[0].reduce = Reduce::kSum;
              p.statements[0].reduce_loops = {1};
            }),
            kInStatement + "two loops are named 'i'");
}

TEST_F(VerifierOfCode, ChecksNumbersBeforeItFollowsThem) {
  EXPECT_EQ(broken([](Program& p) { p.statements[0].target.tensor = 9; }),
            kInStatement + "an access names tensor number 9, which does not exist");
  EXPECT_EQ(broken([](Program& p) { p.statements[0].value.access.tensor = 9; }),
            kInStatement + "an access names tensor number 9, which does not exist");
  EXPECT_EQ(broken([](Program& p) { p.statements[0].value.access.indices[0].affine.terms[0].id = 9; }),
            kInStatement + "an index names loop or symbol number 9, which does not exist");
  EXPECT_EQ(broken([](Program& p) {
              p.statements[0].value.access.indices[0].affine.terms.push_back({false, 0, 1});
            }),
            kInStatement + "the terms of an index are not in order, or one is 0");
  EXPECT_EQ(
      broken([](Program& p) {
        p.statements[0].value.access.indices[0] = {{}, 9, {}};
      }),
      kInStatement + "an element index names tensor number 9, which does not exist, or is affine as well");
  EXPECT_EQ(
      broken([](Program& p) { p.statements[0].value.access.indices[0].element_indices = {Affine::loop(0)}; }),
      kInStatement + "an affine index has element indices");
  EXPECT_EQ(broken([](Program& p) {
              p.statements[0].value.access.indices[0] = {{}, 2, {}};
            }),
            kInStatement + "k takes 1 index, 0 given");
  EXPECT_EQ(broken([](Program& p) { p.statements[0].target.indices.clear(); }),
            kInStatement + "y takes 1 index, 0 given");
  EXPECT_EQ(broken([](Program& p) { p.statements[0].hint = 3; }),
            "program 'p': the statements of a hint must be neighbours, and hints in order of their numbers");
  EXPECT_EQ(broken([](Program& p) { p.hints = {"softmax"}; }), "program 'p': a hint groups no statement");
  EXPECT_EQ(broken([](Program& p) { p.statements[0].assign = static_cast<Assign>(77); }),
            kInStatement + "the hint, assignment or reduction has a number that does not exist");
  EXPECT_EQ(broken([](Program& p) { p.tensors[0].type = static_cast<Type>(77); }),
            "program 'p': tensor 'x' has a type or role that does not exist");
  EXPECT_EQ(broken([](Program& p) { p.statements[0].value.op = static_cast<Op>(200); }),
            kInStatement + "the operation or its type has a number that does not exist");
}

TEST_F(VerifierOfCode, ChecksTheOrderOfLoops) {
  const std::string order =
      kInStatement +
      "loops are numbered in order of their first use in the target, then those of the reduction";
  EXPECT_EQ(broken([](Program& p) {
              p.statements[0].loops.push_back({"j", 2});
            }),
            kInStatement + "loop 'j' is neither in the target nor in the reduction");
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
            kInStatement + "a reduction has at least one loop, and only a reduction has");
  EXPECT_EQ(broken([](Program& p) { p.statements[0].accumulator = Type::kF32; }),
            kInStatement + "an accumulator is stated without a reduction");
  EXPECT_EQ(broken([](Program& p) { p.statements[0].target.otherwise = Literal{}; }),
            kInStatement + "a target takes no else");
}

TEST_F(VerifierOfCode, ChecksExpressions) {
  const auto value = [](Expr expr) { return broken([&](Program& p) { p.statements[0].value = expr; }); };
  const Expr one = Expr::constant(Type::kF32, 1);
  EXPECT_EQ(value(one), "accepted");
  EXPECT_EQ(value(Expr::make(Op::kAdd, {one, Expr::constant(Type::kF64, 1)})),
            kInStatement + "+ takes values of one type, not f32 and f64; cast one of them");
  EXPECT_EQ(value(Expr::make(Op::kAdd, {one})), kInStatement + "+ takes 2 arguments, 1 given");
  Expr mistyped = Expr::make(Op::kAdd, {one, one});
  mistyped.type = Type::kF64;
  EXPECT_EQ(value(mistyped), kInStatement + "+ gives f32 here, not f64");
  Expr cast = Expr::cast(Type::kF32, one);
  cast.args.clear();
  EXPECT_EQ(value(cast), kInStatement + "f32 takes 1 argument, 0 given");
  Expr unrounded = one;
  unrounded.literal.number = 0.1;
  EXPECT_EQ(value(unrounded),
            kInStatement + "the constant 0.100000 is not exactly a value of f32; round it first");
  Expr leaf = one;
  leaf.args = {one};
  EXPECT_EQ(value(leaf), kInStatement + "a leaf of an expression has no arguments");
  Expr index = Expr::index_loop(0);
  index.affine.constant = 1;
  EXPECT_EQ(value(Expr::cast(Type::kF32, index)),
            kInStatement + "an index as a value is one loop or symbol, of type i64");
  EXPECT_EQ(value(Expr::read(Type::kF64, {0, {{Affine::loop(0), {}, {}}}, {}})),
            kInStatement + "a read of 'x' gives f32, not f64");
  Expr deep = one;
  for (int i = 0; i < 200; ++i) {
    deep = Expr::make(Op::kNeg, {deep});
  }
  EXPECT_EQ(
      value(deep),
      kInStatement + "the expression is nested too deeply; the limit is 200 operations inside each other");
}

TEST_F(VerifierOfCode, ChecksModules) {
  EXPECT_THROW(verify(Module{}), ProgramError);
  Program program;
  program.name = "p";
  try {
    verify(Module{{program, program}});
    FAIL() << "accepted";
  } catch (const ProgramError& error) {
    EXPECT_STREQ(error.what(), "two programs are named 'p'");
  }
}

}  // namespace
}  // namespace yoke::program
