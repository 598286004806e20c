// SPDX-License-Identifier: Apache-2.0
// tests/unit/program/parse_error_test.cpp: the position and message of every parse error.
#include <gtest/gtest.h>

#include <array>
#include <utility>
#include <vector>

#include "corpus.h"

namespace yoke::program {
namespace {

struct Case {
  std::string text;
  std::string message;
};

// A text whose statement starts at line 8, column 3.
std::string with(const std::string& statement) {
  return "yoke.program 1\nprogram p(symbol row in 0..6 step 2) {\n"
         "  arg x : f32[10] in\n  arg k : i32[10] in\n  arg y : f32[10] inout\n"
         "  arg m : f32[10, 10] in\n  arg b : bool[10] in\n  " +
         statement + "\n}\n";
}

void check(const std::vector<Case>& cases) {
  for (const Case& one : cases) {
    EXPECT_EQ(error_of(one.text), one.message) << one.text;
  }
}

TEST(ParseError, InFrameOfTheText) {
  const std::string head = "yoke.program 1\n";
  check({
      {"", "line 1, column 1: expected 'yoke.program 1' at the start of the text, found the end of the text"},
      {"hello", "line 1, column 1: expected 'yoke.program 1' at the start of the text, found 'hello'"},
      {"yoke.program 2",
       "line 1, column 14: expected format version 1, the only supported version, found the number 2"},
      {head, "the text contains no program"},
      {head + "dense", "line 2, column 1: expected 'program', found 'dense'"},
      {head + "program", "line 2, column 8: expected the program's name, found the end of the text"},
      {head + "program max", "line 2, column 9: 'max' is a reserved word"},
      {head + "program p{", "line 2, column 10: expected '(' after the program's name, found '{'"},
      {head + "program p(row", "line 2, column 11: expected 'symbol', found 'row'"},
      {head + "program p(symbol row 0..1",
       "line 2, column 22: expected 'in' and the symbol's range, as in 0..10, found the number 0"},
      {head + "program p(symbol row in 0,1",
       "line 2, column 26: expected '..' between the bounds of the symbol's range, found ','"},
      {head + "program p(symbol row in x", "line 2, column 25: expected a whole number, found 'x'"},
      {head + "program p(symbol row in 0.5..1",
       "line 2, column 25: expected an integer of type i64, found the number 0.5"},
      {head + "program p(symbol row in 0..9223372036854775808",
       "line 2, column 28: the number 9223372036854775808 does not fit in i64"},
      {head + "program p(symbol a in 0..1 symbol b",
       "line 2, column 28: expected ')' after the symbols, found 'symbol'"},
      {head + "program p(symbol a in 0..1, symbol a in 0..1",
       "line 2, column 36: the name 'a' is declared twice"},
      {head + "program p() x",
       "line 2, column 13: expected '{' before the program's tensors and statements, found 'x'"},
      {head + "program p() {", "line 2, column 14: expected a statement or '}', found the end of the text"},
      {head + "program p() {}\nprogram p() {}", "line 3, column 9: program 'p' is defined twice"},
      {head + "program p() { $", "line 2, column 15: unexpected character '$'"},
      {head + "program p() { \xc3\xa9",
       "line 2, column 15: unexpected byte 195; a program is plain ASCII text"},
      {std::string((16U << 20) + 1, ' '),
       "line 1, column 1: the text is 16777217 bytes long; the limit is 16777216"},
  });
}

TEST(ParseError, InTensors) {
  const std::string head = "yoke.program 1\nprogram p() {\n";
  check({
      {head + "arg 3", "line 3, column 5: expected the tensor's name, found the number 3"},
      {head + "arg for : f32[] in", "line 3, column 5: 'for' is a reserved word"},
      {head + "arg x f32", "line 3, column 7: expected ':' after the tensor's name, found 'f32'"},
      {head + "arg x : 3", "line 3, column 9: expected an element type, found the number 3"},
      {head + "arg x : f8[3]",
       "line 3, column 9: unknown type 'f8'; the types are f64 f32 f16 bf16 i64 i32 u32 u8 bool"},
      {head + "arg x : f32 in",
       "line 3, column 13: expected '[' before the tensor's dimensions ([] for a scalar), found 'in'"},
      {head + "arg x : f32[-1]", "line 3, column 13: expected a whole number, found '-'"},
      {head + "arg x : f32[1.5]", "line 3, column 13: expected a whole number, found the number 1.5"},
      {head + "arg x : f32[18446744073709551616]",
       "line 3, column 13: the number 18446744073709551616 does not fit in 64 bits"},
      {head + "arg x : f32[1 2]",
       "line 3, column 15: expected ']' after the tensor's dimensions, found the number 2"},
      {head + "arg x : f32[12ab]", "line 3, column 13: the number 12 is followed by 'a'"},
      {head + "arg x : f32[1]",
       "line 3, column 15: expected the argument's role, in, out or inout, found the end of the text"},
      {head + "arg x : f32[1] in temp y : f32[]",
       "line 3, column 19: expected an operator or a new line, found 'temp'"},
      {head + "arg x : f32[1] in\ntemp x : f32[1]", "line 4, column 6: the name 'x' is declared twice"},
  });
}

TEST(ParseError, InStatements) {
  check({
      {with("z[i] = 1"), "line 8, column 3: unknown tensor 'z'"},
      {with("3"), "line 8, column 3: expected a statement or '}', found the number 3"},
      {with("y = 1"), "line 8, column 5: expected '[' after the tensor 'y' ([] for a scalar), found '='"},
      {with("y[i, j] = 1"), "line 8, column 3: tensor 'y' has 1 dimension, got 2 indices"},
      {with("y[i] 1"), "line 8, column 8: expected one of = += *= max= min=, found the number 1"},
      {with("y[i] max 1"),
       "line 8, column 12: expected '=' after 'max' as an assignment, found the number 1"},
      {with("y[i] = x[i] x[i]"), "line 8, column 15: expected an operator or a new line, found 'x'"},
      {with("y[i + 5] = 1"),
       "line 8, column 5: cannot infer the extent of loop 'i', because it is not an index by itself; state "
       "it, as in for[i:10] after the target"},
      {with("y[i] = sum[j] 1"),
       "line 8, column 14: cannot infer the extent of loop 'j', because it is not an index by itself; state "
       "it, as in sum[j:10]"},
      {with("y[i] for = 1"), "line 8, column 12: expected '[' after 'for', found '='"},
      {with("y[i] for[j:3] = 1"), "line 8, column 12: 'j' is not a loop of the target"},
      {with("y[i] for[3] = 1"), "line 8, column 12: expected a loop of the target, found the number 3"},
      {with("y[i] for[i] = 1"),
       "line 8, column 13: expected ':' and an extent after the loop's name, found ']'"},
      {with("y[i] for[i:3, i:4] = 1"), "line 8, column 17: the extent of loop 'i' is stated twice"},
      {with("y[i] for[i:3 = 1"), "line 8, column 16: expected ']' after the extents, found '='"},
      {with("y[i] = sum x[i]"), "line 8, column 14: expected '[' and the loops of 'sum', found 'x'"},
      {with("y[i] = sum[] x[i]"), "line 8, column 14: expected a loop of 'sum', found ']'"},
      {with("y[i] = sum:f99[j] x[j]"),
       "line 8, column 14: unknown type 'f99'; the types are f64 f32 f16 bf16 i64 i32 u32 u8 bool"},
      {with("y[i] = sum:[j] x[j]"), "line 8, column 14: expected the accumulator's type, found '['"},
      {with("y[i] = sum[i] x[i]"), "line 8, column 14: 'i' is already a loop; sum must introduce a new one"},
      {with("y[i] = sum[j, j] x[j]"),
       "line 8, column 17: 'j' is already a loop; sum must introduce a new one"},
      {with("y[i] = sum[j x[j]"), "line 8, column 16: expected ']' after the loops of 'sum', found 'x'"},
      {with("y[i] = sum[row] x[i]"), "line 8, column 14: loop 'row' has the name of a symbol"},
      {with("y[i] = sum[x] x[i]"), "line 8, column 14: loop 'x' has the name of a tensor"},
      {with("y[i] = sum[t:2] x[i]\ntemp t : f32[2]"),
       "line 9, column 6: tensor 't' has the name of a loop above"},
      {with("y[for] = 1"), "line 8, column 5: 'for' is a reserved word"},
      {with("@max { y[i] = 1 }"), "line 8, column 4: 'max' is a reserved word"},
      {with("@softmax y[i] = 1"), "line 8, column 12: expected '{' after the hint's name, found 'y'"},
      {with("@softmax { }"), "line 8, column 14: the hint @softmax contains no statements"},
      {with("@softmax { y[i] = 1 y[i] = 2 }"),
       "line 8, column 23: expected an operator or a new line, found 'y'"},
      {with("@softmax { @again { y[i] = 1 } }"), "line 8, column 14: expected a statement or '}', found '@'"},
  });
}

TEST(ParseError, ForNamesOfMoreThan127Bytes) {
  static_assert(kMaxNameBytes == 127);
  const std::string reason = ": the name 'nnnnnnnnnnnnnnnnnnnn...' is 128 bytes long; the limit is 127";
  const std::string y = "{\narg y : f32[1] out\ny[i] = 0\n}";
  const std::string statement = "p() {\narg y : f32[1] out\n";
  const std::vector<std::pair<std::array<std::string, 2>, std::string>> places = {
      {{"", "() " + y}, "line 2, column 9"},
      {{"p(symbol ", " in 0..1) " + y}, "line 2, column 18"},
      {{"p() {\narg ", " : f32[1] in\n}"}, "line 3, column 5"},
      {{statement + "y[", "] = 0\n}"}, "line 4, column 3"},
      {{statement + "y[i] = sum[", ":2] 0\n}"}, "line 4, column 12"},
      {{statement + "@", " {\ny[i] = 0\n}\n}"}, "line 4, column 2"},
  };
  for (const auto& [text, position] : places) {
    const auto error = [&text = text](std::size_t length) {
      return error_of("yoke.program 1\nprogram " + text[0] + std::string(length, 'n') + text[1]);
    };
    EXPECT_EQ(error(127), "accepted") << text[0];
    EXPECT_EQ(error(128), position + reason) << text[0];
  }
}

TEST(ParseError, ForTooManyLoops) {
  std::string loops;
  for (int i = 0; i < 65; ++i) {
    loops += (i == 0 ? "l" : ", l") + std::to_string(i) + ":1";
  }
  EXPECT_EQ(error_of(with("y[0] = sum[" + loops + "] 1")),
            "line 8, column 452: the statement has more than 64 loops");
}

TEST(ParseError, InIndices) {
  check({
      {with("y[i] = x[q]"),
       "line 8, column 12: unknown index 'q': not a symbol and not a loop of the target or the reduction"},
      {with("y[i] = x[y]"),
       "line 8, column 12: 'y' is a tensor, not a loop; to use an element as index, write y[...]"},
      {with("y[i] = x[q[i]]"), "line 8, column 12: unknown tensor 'q'"},
      {with("y[i] = x[k[i] + 1]"), "line 8, column 17: expected ']' or ',' after an index of 'x', found '+'"},
      {with("y[i] = x[1 + k[i]]"), "line 8, column 16: an element of 'k' must be the entire index"},
      {with("y[i] = x[k[k[i]]]"), "line 8, column 14: an element of 'k' must be the entire index"},
      {with("y[i] = x[k[i, i]]"), "line 8, column 12: tensor 'k' has 1 dimension, got 2 indices"},
      {with("y[i] = x[i*i]"),
       "line 8, column 14: 'i' is multiplied by another name; an index must be linear in loops and symbols"},
      {with("y[i] = x[i*0.5]"), "line 8, column 14: expected an integer of type i64, found the number 0.5"},
      {with("y[i] = x[i - i]"), "line 8, column 12: the coefficient of 'i' in this index is 0; remove 'i'"},
      {with("y[i] = x[0*row]"),
       "line 8, column 12: the coefficient of 'row' in this index is 0; remove 'row'"},
      {with("y[i] = x[1 + (i)]"), "line 8, column 16: expected an index, found '('"},
      {with("y[i] = x[(i)]"),
       "line 8, column 15: expected '/' and a divisor after an index in parentheses, found ']'"},
      {with("y[i] = x[(i / 2]"), "line 8, column 15: expected ')' after the dividend of an index, found '/'"},
      {with("y[i] = x[(i) / row]"), "line 8, column 18: expected a whole number, found 'row'"},
      {with("y[i] = x[(i) / 1]"), "line 8, column 18: the divisor of an index must be at least 2"},
      {with("y[i] = x[(i) / -2]"), "line 8, column 18: the divisor of an index must be at least 2"},
      {with("y[i] = x[k[(i) / 2]]"), "line 8, column 14: expected an index, found '('"},
      {with("y[i] = x[i +]"), "line 8, column 15: expected an index, found ']'"},
      {with("y[i] = x[9223372036854775807 + 1]"), "line 8, column 34: the index does not fit in i64"},
      {with("y[i] = x[9223372036854775807*2*i]"), "line 8, column 12: the index does not fit in i64"},
      {with("y[i] = x[9223372036854775807*i + i]"), "line 8, column 12: the index does not fit in i64"},
      {with("y[i] = m[i]"), "line 8, column 10: tensor 'm' has 2 dimensions, got 1 index"},
      {with("y[i] = x[i"), "line 9, column 1: expected ']' or ',' after an index of 'x', found '}'"},
  });
}

TEST(ParseError, InValues) {
  check({
      {with("y[i] ="), "line 9, column 1: expected a value, found '}'"},
      {with("y[i] = q"), "line 8, column 10: unknown name 'q'"},
      {with("y[i] = q[i]"), "line 8, column 10: unknown tensor 'q'"},
      {with("y[i] = q(i)"), "line 8, column 10: unknown function 'q'"},
      {with("y[i] = const(1)"), "line 8, column 10: unknown function 'const'"},
      {with("y[i] = x"), "line 8, column 10: tensor 'x' must be indexed ([] for a scalar)"},
      {with("y[i] = 1 + sum[j] x[j]"),
       "line 8, column 14: a reduction must come first in a statement's value"},
      {with("y[i] = exp(x[i], x[i])"), "line 8, column 10: exp expects 1 argument, got 2"},
      {with("y[i] = max()"), "line 8, column 10: max expects 2 arguments, got 0"},
      {with("y[i] = f32()"), "line 8, column 10: f32 expects 1 argument, got 0"},
      {with("y[i] = exp(x[i]"),
       "line 9, column 1: expected ')' or ',' after an argument of 'exp', found '}'"},
      {with("y[i] = (x[i]"), "line 9, column 1: expected ')' to match '(', found '}'"},
      {with("y[i] = (2 + 1 else 0)"),
       "line 8, column 17: 'else' must follow a value that reads a tensor, as in (x[i] else 0)"},
      {with("y[i] = (x[i] + 1 else 0 else 0)"), "line 8, column 27: expected ')' to match '(', found 'else'"},
      {with("y[i] = else(x[i])"), "line 8, column 10: unknown function 'else'"},
      {with("y[i] = (x[i] else x[i])"), "line 8, column 21: expected a number after 'else', found 'x'"},
      {with("y[i] = (x[i] else 1e39)"), "line 8, column 21: the number 1e39 does not fit in f32"},
      {with("y[i] = f32((k[i] else -3000000000))"),
       "line 8, column 25: the number -3000000000 does not fit in i32"},
      {with("y[i] = select((b[i] else 0), x[i], 0)"),
       "line 8, column 28: expected true or false, found the number 0"},
      {with("y[i] = x[i] + k[i]"),
       "line 8, column 15: + requires operands of the same type, got f32 and i32; cast one of them"},
      {with("y[i] = x[i] * i"),
       "line 8, column 15: * requires operands of the same type, got f32 and i64; cast one of them"},
      {with("y[i] = true % false"), "line 8, column 15: % requires numbers, got bool"},
      {with("y[i] = x[i] & 1"), "line 8, column 15: & requires integers, got f32"},
      {with("y[i] = x[i] && true"),
       "line 8, column 15: && requires operands of the same type, got f32 and bool; cast one of them"},
      {with("y[i] = !x[i]"), "line 8, column 10: ! requires bool, got f32"},
      {with("y[i] = -b[i]"), "line 8, column 10: - requires numbers, got bool"},
      {with("y[i] = exp(k[i])"), "line 8, column 10: exp requires floats, got i32"},
      {with("y[i] = select(x[i], 1, 2)"), "line 8, column 10: the condition of select must be bool, got f32"},
      {with("y[i] = random_bits(k[i], 1, 2)"), "line 8, column 10: random_bits requires i64, got i32"},
      {with("y[i] = f32(k[i] + 0.5)"),
       "line 8, column 21: expected an integer of type i32, found the number 0.5"},
      {with("y[i] = f32(k[i] + 2147483648)"), "line 8, column 21: the number 2147483648 does not fit in i32"},
      {with("y[i] = f32(u8(256))"), "line 8, column 17: the number 256 does not fit in u8"},
      {with("y[i] = f32(u32(-1))"), "line 8, column 18: the number -1 does not fit in u32"},
      {with("y[i] = f32(bool(1))"), "line 8, column 19: expected true or false, found the number 1"},
      {with("y[i] = 1e999"), "line 8, column 10: the number 1e999 does not fit in f32"},
      {with("y[i] = f32(f16(1e5))"), "line 8, column 18: the number 1e5 does not fit in f16"},
      {with("y[i] = .5"), "line 8, column 10: expected a value, found '.'"},
      {with("y[i] = 1 +* 2"), "line 8, column 13: expected a value, found '*'"},
  });
}

TEST(ParseError, ForDeepNesting) {
  const std::string reason = ": the expression is nested too deeply; the limit is 200 levels";
  for (const char* opening : {"(", "exp(", "-", "!", "1 + (", "f32("}) {
    std::string deep;
    for (int i = 0; i < 100000; ++i) {
      deep += opening;
    }
    const std::string message = error_of(with("y[i] = " + deep));
    EXPECT_NE(message.find(reason), std::string::npos) << opening << " gave " << message.substr(0, 200);
  }
  std::string chain = "x[i]";
  for (int i = 0; i < 199; ++i) {
    chain += " + x[i]";
  }
  EXPECT_EQ(error_of(with("y[i] = " + chain)), "accepted");
  EXPECT_EQ(error_of(with("y[i] = " + chain + " + x[i]")), "line 8, column 1408" + reason);
}

TEST(ParseError, PrintedParenthesesStayWithinTheNestingLimit) {
  std::string deep = "x[i]";
  for (int i = 0; i < 99; ++i) {
    deep = "-(x[i] * (" + deep + "))";
  }
  EXPECT_EQ(error_of(with("y[i] = " + deep)), "accepted");
  EXPECT_EQ(error_of(print(parse(with("y[i] = " + deep)))), "accepted");
}

}  // namespace
}  // namespace yoke::program
