// SPDX-License-Identifier: Apache-2.0
// tests/unit/program/verify_test.cpp: the message of every rule that the verifier enforces.
#include <gtest/gtest.h>

#include "corpus.h"

namespace yoke::program {
namespace {

// A text whose `lines` start at line 3.
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

TEST(Verifier, RejectsEmptyRangesAndSizes) {
  EXPECT_EQ(error_of(with("", "symbol a in 3..3")),
            "line 2, column 18: the range 3..3 of symbol 'a' is empty; the upper bound is excluded");
  EXPECT_EQ(error_of(with("", "symbol a in 0..3 step 0")),
            "line 2, column 18: the step of symbol 'a' is 0; it must be at least 1");
  EXPECT_EQ(error_of(with("  arg x : f32[3, 0] in")),
            "line 3, column 7: tensor 'x' has a dimension of 0; it must be at least 1");
  EXPECT_EQ(error_with("y[i] = sum[j:0] x[i]"),
            "line 12, column 1: loop 'j' has extent 0; it must be at least 1");
}

TEST(Verifier, RejectsSizesThatOverflow) {
  EXPECT_EQ(error_of(with("arg x : f32[1, 1, 1, 1, 1, 1, 1, 1, 1] in")),
            "line 3, column 5: tensor 'x' has 9 dimensions; the limit is 8");
  EXPECT_EQ(error_of(with("arg x : f32[1, 1, 1, 1, 1, 1, 1, 1] in")), "accepted");
  EXPECT_EQ(error_of(with("arg x : f32[2305843009213693952] in")),
            "line 3, column 5: tensor 'x' is larger than 2^63 - 1 bytes");
  EXPECT_EQ(error_of(with("arg x : f32[2305843009213693951] in")), "accepted");
  EXPECT_EQ(error_of(with("arg x : u8[4294967296, 4294967296, 18446744073709551615] in")),
            "line 3, column 5: tensor 'x' is larger than 2^63 - 1 bytes");
  EXPECT_EQ(error_with("y[i] = sum[j:3037000500, l:3037000500] 1"),
            "line 12, column 1: the statement has more than 2^63 - 1 iterations");
}

TEST(Verifier, RejectsIndicesOutOfRange) {
  EXPECT_EQ(
      error_with("y[i] = x[i + 1]"),
      "line 12, column 8: the index 'i + 1' of 'x' ranges from 1 to 10; the valid range is 0 to 9; to allow "
      "this, write (x[...] else 0)");
  EXPECT_EQ(error_with("y[i] = 2 * x[-i]"),
            "line 12, column 12: the index '-i' of 'x' ranges from -9 to 0; the valid range is 0 to 9; to "
            "allow this, "
            "write (x[...] else 0)");
  EXPECT_EQ(error_with("y[i] = (x[i + 1] else 0)"), "accepted");
  EXPECT_EQ(error_with("y[i + 6] for[i:5] = 1"),
            "line 12, column 1: the index 'i + 6' of 'y' ranges from 6 to 10; the valid range is 0 to 9");
  EXPECT_EQ(error_with("y[i] for[i:6] = x[row + i]"),
            "accepted");  // the largest value of row is 4, not 5
  EXPECT_EQ(error_with("y[i] for[i:7] = x[row + i]"),
            "line 12, column 17: the index 'row + i' of 'x' ranges from 0 to 10; the valid range is 0 to 9; "
            "to allow "
            "this, write (x[...] else 0)");
  EXPECT_EQ(error_with("y[i] = (x[k[i + 1]] else 0)"),
            "line 12, column 8: the index 'i + 1' of 'k' ranges from 1 to 10; the valid range is 0 to 9");
  EXPECT_EQ(error_with("y[i] = (x[2305843009213693952*i] else 0)"),
            "line 12, column 8: the index '2305843009213693952*i' of 'x' may exceed 2^61");
  EXPECT_EQ(error_with("y[i] = (x[row] else 0)", "symbol row in -9223372036854775808..9223372036854775807"),
            "line 12, column 8: the index 'row' of 'x' may exceed 2^61");
}

TEST(Verifier, RejectsDividedIndicesWithoutElseAndInTargets) {
  EXPECT_EQ(error_with("y[i] = x[(2*i) / 2]"),
            "line 12, column 8: the division in the index '(2*i) / 2' of 'x' may leave a remainder; to allow "
            "this, write (x[...] else 0)");
  EXPECT_EQ(error_with("y[i] = (x[(2*i) / 2] else 0)"), "accepted");
  EXPECT_EQ(error_with("y[(2*i) / 2] for[i:10] = 0"),
            "line 12, column 1: the index '(2*i) / 2' of the target 'y' must not be divided");
  EXPECT_EQ(error_with("y[i] = (x[(i + row) / 230584300921369395] else 0)"), "accepted");
  EXPECT_EQ(error_with("y[i] = (x[(i + row) / 230584300921369396] else 0)"),
            "line 12, column 8: the index '(row + i) / 230584300921369396' of 'x' may exceed 2^61 before it "
            "is divided");
}

TEST(Verifier, AcceptsReadsOutOfRangeInGuardsOnly) {
  EXPECT_EQ(error_with("y[i] = (x[i + 1] * x[k[i]] * x[(i) / 2] else 0)"), "accepted");
  EXPECT_EQ(error_with("y[i] = (x[i + 1] * x[i] else 0) + x[i + 1]"),
            "line 12, column 35: the index 'i + 1' of 'x' ranges from 1 to 10; the valid range is 0 to 9; to "
            "allow this, write (x[...] else 0)");
  EXPECT_EQ(error_with("y[i] = (x[k[i + 1]] + 1 else 0)"),
            "line 12, column 9: the index 'i + 1' of 'k' ranges from 1 to 10; the valid range is 0 to 9");
  EXPECT_EQ(error_with("y[i] = (t[i] + 1 else 0)"),
            "line 12, column 9: reads elements of 't' that no statement has written");
  EXPECT_EQ(
      error_with("y[i] = (y[i] * y[i + 1] else 0)"),
      "line 12, column 16: the statement reads elements of its target 'y' that other iterations write; an "
      "iteration may read only the element that it writes, or elements that none writes");
}

TEST(Verifier, RejectsGathersWithoutElse) {
  EXPECT_EQ(
      error_with("y[i] = x[k[i]]"),
      "line 12, column 8: a gather needs a value for indices out of range of 'x': write (x[...] else 0)");
  EXPECT_EQ(error_with("y[i] = (x[y[i]] else 0)"),
            "line 12, column 8: 'y' cannot be used as index: its type is f32, not an integer type");
}

TEST(Verifier, RejectsTwoIterationsThatWriteOneElement) {
  const auto reason = [](const std::string& tensor, const std::string& loop) {
    return "line 12, column 1: iterations that differ in loop '" + loop +
           "' may write the same element of '" + tensor + "'; reduce over the loop instead";
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

TEST(Verifier, RejectsScattersThatDoNotAccumulate) {
  EXPECT_EQ(error_with("y[k[i]] = x[i]"),
            "line 12, column 1: a scatter to 'y' with = depends on the order of iterations; use += *= max= "
            "or min=");
  EXPECT_EQ(error_with("y[k[i]] += x[i]"), "accepted");
  EXPECT_EQ(error_with("y[k[i]] max= sum[j] m[i, j]"), "accepted");
}

TEST(Verifier, RejectsReadsOfTheTargetAtOtherElements) {
  const auto reason = [](int column, const std::string& tensor) {
    return "line 12, column " + std::to_string(column) + ": the statement reads elements of its target '" +
           tensor +
           "' that other iterations write; an iteration may read only the element that it writes, or "
           "elements that none writes";
  };
  EXPECT_EQ(error_with("y[i] = y[i] + y[i] * x[i]"), "accepted");
  EXPECT_EQ(error_with("y[i] = y[i] + y[-i + 9]"), reason(15, "y"));
  EXPECT_EQ(error_with("m[i, j] = m[j, i]"), reason(11, "m"));
  EXPECT_EQ(error_with("y[i] = sum[j] y[j]"), reason(15, "y"));
  EXPECT_EQ(error_with("y[k[i]] += (y[k[i]] else 0)"), reason(12, "y"));
  EXPECT_EQ(error_with("n[n[i]] += 1"), reason(1, "n"));
  EXPECT_EQ(error_with("n[i] = i32((x[n[i]] else 0))"), reason(12, "n"));
  // The statement writes elements 0 to 3. Reading elements 5 to 8 is valid. Reading (10..13) / 5 is not, because the
  // quotients are in 0 to 3.
  EXPECT_EQ(error_with("y[i] for[i:4] = y[i + 5]"), "accepted");
  EXPECT_EQ(error_with("y[i] for[i:4] = (y[(i + 10) / 5] else 0)"), reason(17, "y"));
}

TEST(Verifier, RejectsReadsOfUnwrittenElements) {
  const auto reason = [](int line, int column, const std::string& tensor) {
    return "line " + std::to_string(line) + ", column " + std::to_string(column) + ": reads elements of '" +
           tensor + "' that no statement has written";
  };
  EXPECT_EQ(error_with("y[i] = t[i]"), reason(12, 8, "t"));
  EXPECT_EQ(error_with("t[i] = t[i]"), reason(12, 8, "t"));
  EXPECT_EQ(error_with("t[i] = 1\ny[i] = t[i]"), "accepted");
  EXPECT_EQ(error_with("t[i] for[i:9] = 1\ny[i] = t[i]"), reason(13, 8, "t"));
  EXPECT_EQ(error_with("t[i] for[i:9] = 1\ny[i] for[i:9] = t[i]"), "accepted");
  // i / 3 is at most 3, and (6*i + 1) / 4 is never a whole number.
  EXPECT_EQ(error_with("t[i] for[i:4] = 1\ny[i] = (t[(i) / 3] else 0)"), "accepted");
  EXPECT_EQ(error_with("t[i] for[i:3] = 1\ny[i] = (t[(i) / 3] else 0)"), reason(13, 8, "t"));
  EXPECT_EQ(error_with("y[i] = (t[(6*i + 1) / 4] else 0)"), "accepted");
  EXPECT_EQ(error_with("t[2*i] for[i:5] = 1\ny[i] = (t[(4*i - 8) / 2] else 0)"), "accepted");
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
            "line 12, column 1: accumulates to elements of 't' that no statement has written");
  EXPECT_EQ(error_with("t[k[i]] += 1"),
            "line 12, column 1: accumulates to elements of 't' that no statement has written");
}

TEST(Verifier, CombinesPartialWrites) {
  const std::string four =
      "temp q : f32[10, 10]\nq[i, j] for[i:4, j:6] = 1\nq[i + 4, j] for[i:6] = 2\nq[i, j + 6] for[i:4, j:";
  EXPECT_EQ(error_with(four + "4] = 3\nm[i, j] = q[i, j]"), "accepted");
  EXPECT_EQ(error_with(four + "3] = 3\nm[i, j] = q[i, j]"),
            "line 16, column 11: reads elements of 'q' that no statement has written");
  EXPECT_EQ(error_with("temp q : f32[10, 10]\nq[i, i] = 1\nm[i, j] = q[i, j]"),
            "line 14, column 11: reads elements of 'q' that no statement has written");
}

TEST(Verifier, ProvesThatAHintSharesItsLoops) {
  const char* const kSoftmax =
      "arg x : f32[4, 9] in\narg y : f32[4, 9] out\narg z : f32[4] out\n"
      "temp m : f32[4]\ntemp e : f32[4, 9]\ntemp s : f32[4]\n";  // lines 3 to 8; the hint is on line 9
  const auto verdict = [&](const std::string& statements) { return error_of(with(kSoftmax + statements)); };
  EXPECT_EQ(verdict("@fused[n] {\nm[n] = max[c] x[n, c]\ne[n, c] = exp(x[n, c] - m[n])\n"
                    "s[n] = sum[c] e[n, c]\ny[n, c] = e[n, c] / s[n]\n}\nz[n] = 0"),
            "accepted");
  // What the group does not write, it may read anywhere.
  EXPECT_EQ(verdict("@fused[n] {\nm[n] = max[c] x[n, c]\nz[n] = m[n] - x[0, 0]\n}\ny[n, c] = 0"), "accepted");
  EXPECT_EQ(verdict("@fused {\nm[n] = 0\n}"),
            "line 10, column 1: the hint @fused must name the loops that its statements share: @fused[n]");
  EXPECT_EQ(verdict("@fused[c] {\nm[n] = max[c] x[n, c]\n}"),
            "line 10, column 1: the loop 'c' of the hint @fused is not a loop of the target");
  EXPECT_EQ(verdict("@fused[n] {\nm[n] = 0\ny[i, c] = x[i, c] - m[i]\n}"),
            "line 11, column 1: the loop 'n' of the hint @fused is not a loop of the target");
  EXPECT_EQ(verdict("@fused[n] {\nm[n] = 0\ns[n] for[n:2] = 0\n}"),
            "line 11, column 1: the loop 'n' of the hint @fused has different extents in different "
            "statements");
  EXPECT_EQ(verdict("@fused[n] {\nm[3 - n] for[n:4] = 0\n}"),
            "line 10, column 1: the loop 'n' of the hint @fused does not index 'm' by itself, in the same "
            "dimension in every statement");
  EXPECT_EQ(
      verdict("@fused[n] {\nm[n] = 0\nz[n] = m[3 - n]\n}"),
      "line 11, column 1: the statement uses elements of 'm' that the group writes in other iterations of "
      "the loop 'n' of the hint @fused");
  // An earlier statement reads what a later one writes.
  EXPECT_EQ(
      verdict("m[n] = 0\n@fused[n] {\nz[n] = m[0]\nm[n] = 1\n}"),
      "line 11, column 1: the statement uses elements of 'm' that the group writes in other iterations of "
      "the loop 'n' of the hint @fused");
}

TEST(Verifier, RejectsIncompleteOutputsAndWrittenInputs) {
  const std::string reason =
      "line 3, column 5: the program does not write every element of the `out` argument 'z'";
  EXPECT_EQ(error_of(with("arg z : f32[10] out")), reason);
  EXPECT_EQ(error_of(with("arg z : f32[10] out\nz[i] for[i:9] = 1")), reason);
  EXPECT_EQ(error_of(with("arg z : f32[10] out\nz[i] for[i:9] = 1\nz[9] = 2")), "accepted");
  EXPECT_EQ(error_of(with("arg z : f32[] out\nz[] = 2")), "accepted");
  EXPECT_EQ(error_of(with("arg z : f32[] out")), reason);
  EXPECT_EQ(error_with("x[i] = 1"), "line 12, column 1: 'x' is an `in` argument and cannot be written");
}

TEST(Verifier, RejectsTypesThatDiffer) {
  EXPECT_EQ(error_with("y[i] = i"),
            "line 12, column 1: cannot assign a value of type i64 to 'y' of type f32; cast the value");
  EXPECT_EQ(error_with("n[i] = sum[j:3] x[j]"),
            "line 12, column 1: cannot assign a value of type f32 to 'n' of type i32; cast the value");
  EXPECT_EQ(error_with("b[i] += true"), "line 12, column 1: bool tensor 'b' can only be assigned with =");
}

TEST(Verifier, RejectsAccumulatorsThatCannotHoldTheValue) {
  EXPECT_EQ(error_with("h[i] = sum[j] h[j]"),
            "line 12, column 1: sum of f16 must state an accumulator type, sum:f32[...] or sum:f64[...]");
  EXPECT_EQ(error_with("y[i] = max[j] h[j]"),
            "line 12, column 1: max of f16 must state an accumulator type, max:f32[...] or max:f64[...]");
  EXPECT_EQ(error_with("h[i] = sum:f32[j] x[j]"), "accepted");
  EXPECT_EQ(error_with("h[i] = sum:f16[j] x[j]"),
            "line 12, column 1: accumulator type f16 cannot hold every value of type f32");
  EXPECT_EQ(error_with("n[i] = sum:u32[j] k[j]"),
            "line 12, column 1: accumulator type u32 cannot hold every value of type i32");
  EXPECT_EQ(error_with("n[i] = sum:i64[j] k[j]"), "accepted");
  EXPECT_EQ(error_with("y[i] = sum:i64[j] k[j]"),
            "line 12, column 1: accumulator type i64 cannot be converted to f32, the type of 'y'; both must "
            "be floats or both integers");
  EXPECT_EQ(error_with("b[i] = any:bool[j] b[j]"),
            "line 12, column 1: any does not accept an accumulator type");
}

TEST(Verifier, RejectsOperandsThatAReductionDoesNotSupport) {
  EXPECT_EQ(error_with("b[i] = any[j] x[j]"), "line 12, column 1: any requires bool, got f32");
  EXPECT_EQ(error_with("b[i] = sum[j] x[j] > 1"), "line 12, column 1: sum requires numbers, got bool");
  EXPECT_EQ(error_with("n[i] = argmax[j] b[j]"), "line 12, column 1: argmax requires numbers, got bool");
  EXPECT_EQ(error_with("n[i] = argmax[j, l] m[j, l]"),
            "line 12, column 1: argmax requires exactly one loop, got 2");
  EXPECT_EQ(error_with("y[i] = argmin[j] m[i, j]"),
            "line 12, column 1: the target of argmin must be i32 or i64, but 'y' is f32");
  EXPECT_EQ(error_with("n[i] += argmin[j] m[i, j]"), "line 12, column 1: argmin can only be assigned with =");
  EXPECT_EQ(error_with("n[i] = argmax[j:2147483649] x[i]"),
            "line 12, column 1: the indices of loop 'j' do not fit in i32");
  EXPECT_EQ(error_with("n[i] = argmax:f32[j] h[j]"),
            "line 12, column 1: argmax does not accept an accumulator type");
  EXPECT_EQ(error_with("n[i] = argmax[j] h[j]"), "accepted");
}

}  // namespace
}  // namespace yoke::program
