// SPDX-License-Identifier: Apache-2.0
// tests/unit/program/text_test.cpp: parsing and printing are inverse operations.
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <limits>
#include <sstream>
#include <string>
#include <string_view>

#include "corpus.h"
#include "test_paths.h"

namespace yoke::program {
namespace {

std::string body(const std::string& statements) {
  return "yoke.program 1\nprogram p(symbol row in 0..6 step 2) {\n"
         "  arg x : f32[10] in\n  arg h : f16[10] in\n  arg k : i32[10] in\n"
         "  arg y : f32[10] inout\n  arg g : f16[10] inout\n  arg b : bool[10] inout\n  arg n : i64[10] "
         "inout\n" +
         statements + "}\n";
}

// Parses a statement and prints it in canonical form.
std::string canonical(const std::string& statement) {
  const Module module = parse(body("  " + statement + "\n"));
  const Program& program = module.programs.at(0);
  return print(program, program.statements.back());
}

TEST(ProgramText, CanonicalTextRoundTrips) {
  for (const std::string& text : corpus()) {
    EXPECT_EQ(print(parse(text)), text);
  }
}

TEST(ProgramText, TheCorpusIsValid) {
  for (const std::string& text : corpus()) {
    EXPECT_EQ(error_of(text), "accepted") << text;
  }
}

TEST(ProgramText, WhitespaceAndCommentsAreIgnored) {
  const std::string text =
      "# a comment\r\nyoke . program 1 program\tp ( ) { # another\n"
      "arg   x:f32[ 2,3 ]in\r\narg y : f32[2] out\ny[ i ]=sum [ j ]x[i,j]\n}# the end";
  EXPECT_EQ(print(parse(text)),
            "yoke.program 1\nprogram p() {\n  arg x : f32[2, 3] in\n  arg y : f32[2] out\n"
            "  y[i] = sum[j] x[i, j]\n}\n");
}

// The text may be a part of a longer one.
TEST(ProgramText, CharactersAfterTheEndOfTheTextAreNotRead) {
  const std::string whole = body("  y[i] = x[i] * 1.5e1\n");
  for (std::size_t length = 0; length < whole.size(); ++length) {
    const auto error = [](std::string_view text) -> std::string {
      try {
        parse(text);
      } catch (const ProgramError& failure) {
        return failure.what();
      }
      return "accepted";
    };
    EXPECT_EQ(error(std::string_view(whole).substr(0, length)), error(whole.substr(0, length))) << length;
  }
}

TEST(ProgramText, LiteralsTakeTheTypeOfTheirContext) {
  EXPECT_EQ(canonical("y[i] = x[i] * 2"), "y[i] = x[i] * 2.0");
  EXPECT_EQ(canonical("y[i] = (1 + 2) * x[i]"), "y[i] = (1.0 + 2.0) * x[i]");
  EXPECT_EQ(canonical("y[i] = 3"), "y[i] = 3.0");
  EXPECT_EQ(canonical("g[i] = h[i] + 0.1"), "g[i] = h[i] + 0.0999755859375");
  EXPECT_EQ(canonical("g[i] = sum:f32[j:3] 0.1"), "g[i] = sum:f32[j:3] 0.1");
  EXPECT_EQ(canonical("n[i] = argmax[j:3] 0.1"), "n[i] = argmax[j:3] f32(0.1)");
  EXPECT_EQ(canonical("b[i] = 1 < 0.5"), "b[i] = f32(1.0) < f32(0.5)");
  EXPECT_EQ(canonical("b[i] = 1 == 2"), "b[i] = i64(1) == i64(2)");
  EXPECT_EQ(canonical("y[i] = select(1 < 2, 1, x[i])"), "y[i] = select(i64(1) < i64(2), 1.0, x[i])");
  EXPECT_EQ(canonical("y[i] = f32(1 + 2)"), "y[i] = f32(i64(1) + i64(2))");
  EXPECT_EQ(canonical("y[i] = f32(row)"), "y[i] = f32(row)");
  EXPECT_EQ(canonical("y[i] = exp(-(2))"), "y[i] = exp(-(2.0))");
}

TEST(ProgramText, FloatsPrintTheShortestExactDigits) {
  EXPECT_EQ(canonical("y[i] = 0.10000000149"), "y[i] = 0.1");
  EXPECT_EQ(canonical("y[i] = 0.00001"), "y[i] = 1e-05");
  EXPECT_EQ(canonical("y[i] = 16777217"), "y[i] = 16777216.0");
  EXPECT_EQ(canonical("y[i] = 0.0"), "y[i] = 0");
  EXPECT_EQ(canonical("y[i] = -0"), "y[i] = -0.0");
  EXPECT_EQ(canonical("y[i] = 1e-60"), "y[i] = 0");
  EXPECT_EQ(canonical("y[i] = -nan"), "y[i] = nan");
  EXPECT_EQ(canonical("y[i] = f32(f64(0.1))"), "y[i] = f32(f64(0.1))");
}

TEST(ProgramText, IndicesPrintSymbolsThenLoopsThenNumber) {
  EXPECT_EQ(canonical("y[i] = sum[j:2] (x[1 + i*2 - row - 3 + 2*2*j] else 0)"),
            "y[i] = sum[j:2] (x[-row + 2*i + 4*j - 2] else 0)");
  EXPECT_EQ(canonical("y[i] = x[9 - i]"), "y[i] = x[-i + 9]");
  EXPECT_EQ(canonical("y[i] = sum[j:2] (x[(2 - j*2 + row + i)/3] else 0)"),
            "y[i] = sum[j:2] (x[(row + i - 2*j + 2) / 3] else 0)");
  EXPECT_EQ(canonical("y[i] = (x[( i ) / 2] else 0)"), "y[i] = (x[(i) / 2] else 0)");
}

TEST(ProgramText, ParenthesesPrintOnlyIfNeeded) {
  EXPECT_EQ(canonical("y[i] = ((x[i]) + (x[i] * x[i])) - (x[i] - (x[i]))"),
            "y[i] = x[i] + x[i] * x[i] - (x[i] - x[i])");
  EXPECT_EQ(canonical("y[i] = -(x[i] + 1) * -x[i]"), "y[i] = -(x[i] + 1.0) * -x[i]");
  EXPECT_EQ(canonical("y[i] = ((x[i] else 1)) + 1"), "y[i] = (x[i] else 1.0) + 1.0");
  EXPECT_EQ(canonical("y[i] = -(x[i + 1] * 2 + 1 else -0)"), "y[i] = -(x[i + 1] * 2.0 + 1.0 else -0.0)");
  EXPECT_EQ(canonical("y[i] = ((((x[i] else 1) else 2)) + f32(1) else 3)"),
            "y[i] = (((x[i] else 1.0) else 2.0) + 1.0 else 3.0)");
  EXPECT_EQ(canonical("b[i] = (x[i + 1] > 2 else true) && b[i]"),
            "b[i] = (x[i + 1] > 2.0 else true) && b[i]");
  EXPECT_EQ(canonical("y[i] = (f32(1) else 2)"), "y[i] = (f32(1.0) else 2.0)");
}

TEST(ProgramText, ExtentsPrintOnlyIfNotInferred) {
  EXPECT_EQ(canonical("y[i] for[i:10] = x[i]"), "y[i] = x[i]");
  EXPECT_EQ(canonical("y[i] for[i:5] = x[i]"), "y[i] for[i:5] = x[i]");
  EXPECT_EQ(canonical("y[i + 5] for[i:5] = x[5 - 1 + 1 + i]"), "y[i + 5] for[i:5] = x[i + 5]");
  EXPECT_EQ(canonical("y[i] = sum[l:10] x[l]"), "y[i] = sum[l] x[l]");
  EXPECT_EQ(canonical("y[i] = sum[l:9] x[l]"), "y[i] = sum[l:9] x[l]");
  EXPECT_EQ(canonical("y[k[i]] += x[i]"), "y[k[i]] += x[i]");
}

TEST(ProgramText, ConstantsBuiltByCodeRoundTrip) {
  Program program;
  program.name = "p";
  program.tensors = {{"y", Type::kF32, {}, Role::kOut, {}}};
  const double special[] = {0.0,
                            -0.0,
                            1.0,
                            0.1,
                            -1e-30,
                            3.4e38,
                            1.0 / 3,
                            std::numeric_limits<double>::infinity(),
                            std::numeric_limits<double>::quiet_NaN()};
  for (const Type type : {Type::kF64, Type::kF32, Type::kF16, Type::kBF16, Type::kI64, Type::kI32, Type::kU32,
                          Type::kU8, Type::kBool}) {
    for (const double value : special) {
      Statement statement;
      statement.target = {0, {}, {}};
      statement.value = Expr::cast(Type::kF32, Expr::constant(type, value));
      program.statements = {statement};
      const Program again = parse(print(program)).programs.at(0);
      EXPECT_TRUE(same(again.statements.at(0).value, statement.value)) << print(program, statement);
      verify(program);
    }
  }
}

TEST(ProgramText, FingerprintHashesTheCanonicalText) {
  const Module module = parse(corpus().at(0));
  EXPECT_EQ(fingerprint(module).size(), 32U);
  EXPECT_EQ(fingerprint(module), fingerprint(parse("# same\n" + corpus().at(0))));
  EXPECT_NE(fingerprint(module), fingerprint(parse(corpus().at(1))));
  // FNV-1a, 128 bits, of "yoke.program 1\n", computed independently of this library.
  EXPECT_EQ(fingerprint(Module{}), "bf8c52606e19e5cbeb53668d810ee266");
}

TEST(ProgramText, ReadmeExampleIsCanonicalAndValid) {
  std::ifstream file(test::source_folder() + "/plugin_api/program/README.md");
  std::stringstream readme;
  readme << file.rdbuf();
  const std::string text = readme.str();
  const std::size_t from = text.find("```\nyoke.program 1\nprogram") + 4;
  const std::string example = text.substr(from, text.find("```", from) - from);
  EXPECT_EQ(error_of(example), "accepted");
  EXPECT_EQ(print(parse(example)), example);
}

}  // namespace
}  // namespace yoke::program
