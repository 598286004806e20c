// SPDX-License-Identifier: Apache-2.0
// tests/unit/program/repeat_test.cpp: repeat blocks: what they compute, and what the verifier can prove.
#include <gtest/gtest.h>
#include <yoke/program/execute.h>
#include <yoke/program/memory.h>
#include <yoke/program/text.h>

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include "corpus.h"

namespace yoke::program {
namespace {

std::string with(const std::string& lines) {
  return "yoke.program 1\nprogram p(symbol row in 0..4) {\n" + lines + "}\n";
}

// The statements start at line 9.
std::string error_with(const std::string& statements) {
  return error_of(
      with("arg x : f32[8, 3] in\n"     // line 3
           "arg y : f32[8, 3] inout\n"  // line 4
           "temp h : f32[9, 3]\n"       // line 5
           "temp s : f32[3]\n"          // line 6
           "temp big : f32[1000001]\n"  // line 7
           "temp k : i32[8]\n" +        // line 8
           statements +
           "\n"));
}

TEST(Repeat, SumsUp) {
  const Module module =
      parse_and_verify(with("arg x : f32[6] in\narg y : f32[6] out\n"
                            "y[0] = x[0]\n"
                            "repeat t in 1..6 {\ny[t] = y[t - 1] + x[t]\n}\n"));
  std::vector<float> x = {1, 2, 3, 4, 5, 6};
  std::vector<float> y(6);
  const std::vector<void*> arguments = {x.data(), y.data()};
  execute(module.programs[0], arguments, std::vector<std::int64_t>{0});
  EXPECT_EQ(y, (std::vector<float>{1, 3, 6, 10, 15, 21}));
}

TEST(Repeat, VariableIsAValueAndMayStep) {
  const Module module =
      parse_and_verify(with("arg y : i64[12] inout\n"
                            "repeat t in 1..12 step 5 {\ny[t] = 10*t + row\n}\n"));
  std::vector<std::int64_t> y(12);
  const std::vector<void*> arguments = {y.data()};
  execute(module.programs[0], arguments, std::vector<std::int64_t>{3});
  EXPECT_EQ(y, (std::vector<std::int64_t>{0, 13, 0, 0, 0, 0, 63, 0, 0, 0, 0, 113}));
}

TEST(Repeat, BlocksRunOneAfterAnotherAndMayUseOneName) {
  const Module module =
      parse_and_verify(with("arg y : f32[] inout\n"
                            "repeat t in 0..3 {\ny[] = y[] * 2\n}\n"
                            "y[] = y[] + 1\n"
                            "repeat t in 0..2 {\ny[] = y[] * 10\n}\n"
                            "repeat u in 0..2 {\ny[] = y[] + 1\n}\n"));
  EXPECT_EQ(module.programs[0].blocks().size(), 4U);
  float y = 1;
  const std::vector<void*> arguments = {&y};
  execute(module.programs[0], arguments, std::vector<std::int64_t>{0});
  EXPECT_EQ(y, 902);
}

TEST(Repeat, RunsBackwards) {
  const Module module =
      parse_and_verify(with("arg x : f32[4] in\narg y : f32[5] out\n"
                            "y[4] = 0\n"
                            "repeat t in 0..4 {\ny[3 - t] = y[4 - t] + x[3 - t]\n}\n"));
  std::vector<float> x = {1, 2, 3, 4};
  std::vector<float> y(5);
  const std::vector<void*> arguments = {x.data(), y.data()};
  execute(module.programs[0], arguments, std::vector<std::int64_t>{0});
  EXPECT_EQ(y, (std::vector<float>{10, 9, 7, 4, 0}));
}

TEST(Repeat, PrintsAsParsed) {
  const std::string text = R"(yoke.program 1
program p(symbol row in 0..4) {
  arg x : f32[8, 3] in
  arg y : f32[3] out
  temp s : f32[3]
  s[i] = 0
  repeat t in 0..8 {
    s[i] = s[i] + x[t, i]
    @tail {
      s[i] = tanh(s[i])
      s[i] = s[i] * f32(t)
    }
    s[i] = s[i] - 1.0
  }
  repeat t in 0..8 step 2 {
    s[i] = s[i] + x[t, i]
  }
  y[t] = s[t]
}
)";
  const Module module = parse_and_verify(text);
  EXPECT_EQ(print(module), text);
  EXPECT_EQ(module.programs[0].launch_symbol_count(), 1U);
  EXPECT_EQ(module.programs[0].symbols.size(), 3U);
}

TEST(Repeat, ReadsWhatEarlierRoundsWrote) {
  EXPECT_EQ(error_with(
                "h[0, i] = 0\nrepeat t in 0..8 {\nh[t + 1, i] = h[t, i] + x[t, i]\n}\ny[j, i] = h[j + 1, i]"),
            "accepted");
  // An earlier statement of the same round.
  EXPECT_EQ(error_with("repeat t in 0..8 {\nh[t, i] = x[t, i]\ns[i] = h[t, i]\n}"), "accepted");
  // Two rounds back: the first two must be written before.
  EXPECT_EQ(error_with("h[j, i] for[j:2] = 0\nrepeat t in 2..9 {\nh[t, i] = h[t - 1, i] + h[t - 2, i]\n}"),
            "accepted");
  // A read out of range has its else.
  EXPECT_EQ(error_with("repeat t in 0..8 {\nh[t, i] = (h[t - 1, i] else 0) + x[t, i]\n}"), "accepted");
  // Over a million rounds, the proof looks at a few.
  EXPECT_EQ(error_with("big[0] = 1\nrepeat t in 0..1000000 {\nbig[t + 1] = big[t] * 0.5\n}"), "accepted");
  // A tensor that each round overwrites.
  EXPECT_EQ(error_with("repeat t in 0..8 {\ns[i] = x[t, i]\ny[t, i] = s[i]\n}"), "accepted");
}

TEST(Repeat, RejectsReadsThatSomeRoundFindsUnwritten) {
  const auto unwritten = [](int line, int column, const std::string& tensor) {
    return "line " + std::to_string(line) + ", column " + std::to_string(column) + ": reads elements of '" +
           tensor + "' that no statement has written";
  };
  // The first round.
  EXPECT_EQ(error_with("repeat t in 0..8 {\nh[t + 1, i] = h[t, i] + x[t, i]\n}"), unwritten(10, 15, "h"));
  EXPECT_EQ(error_with("h[0, i] = 0\nrepeat t in 2..9 {\nh[t, i] = h[t - 1, i] + h[t - 2, i]\n}"),
            unwritten(11, 11, "h"));
  // A later round: every second element.
  EXPECT_EQ(error_with("big[0] = 1\nrepeat t in 0..500000 {\nbig[2*t + 2] = big[2*t + 1]\n}"),
            unwritten(11, 16, "big"));
  // What a later statement of the same round writes.
  EXPECT_EQ(error_with("repeat t in 0..8 {\ny[t, i] = s[i]\ns[i] = x[t, i]\n}"), unwritten(10, 11, "s"));
  EXPECT_EQ(error_with("repeat t in 0..8 {\ns[i] = h[t, i]\nh[t, i] = x[t, i]\n}"), unwritten(10, 8, "h"));
  // What later rounds write.
  EXPECT_EQ(error_with("h[0, i] = 0\nrepeat t in 0..7 {\nh[t + 1, i] = h[t + 2, i]\n}"),
            unwritten(11, 15, "h"));
  // After the block, the last element.
  EXPECT_EQ(error_with("repeat t in 0..7 {\nh[t, i] = x[t, i]\n}\ny[j, i] = h[j, i]"),
            unwritten(12, 11, "h"));
}

TEST(Repeat, LongBlocksAreProvedByInduction) {
  // Two writers in turn; a look back over two rounds; a step of 2.
  EXPECT_EQ(error_with("big[0] = 1\nbig[1] = 1\nrepeat t in 2..900000 step 2 {\n"
                       "big[t] = big[t - 1] + big[t - 2]\nbig[t + 1] = big[t] * 0.5\n}"),
            "accepted");
  const auto unwritten = [](int line, int column) {
    return "line " + std::to_string(line) + ", column " + std::to_string(column) +
           ": reads elements of 'big' that no statement has written";
  };
  EXPECT_EQ(error_with("big[0] = 1\nbig[1] = 1\nrepeat t in 2..900000 step 2 {\n"
                       "big[t + 1] = big[t] * 0.5\nbig[t] = big[t - 1] + big[t - 2]\n}"),
            unwritten(12, 14));
  EXPECT_EQ(error_with("big[0] = 1\nrepeat t in 1..900000 step 2 {\nbig[t + 1] = big[t - 1] + big[t]\n}"),
            unwritten(11, 27));
  // The writer moves more slowly than the reader.
  EXPECT_EQ(error_with("repeat t in 0..450000 {\nbig[t] = 1\ns[i] = big[2*t]\n}"), unwritten(11, 8));
  // Further back than the proof looks.
  EXPECT_EQ(error_with("big[j] for[j:70] = 0\nrepeat t in 70..900000 {\nbig[t] = big[t - 65]\n}"),
            unwritten(11, 10));
  EXPECT_EQ(error_with("big[j] for[j:70] = 0\nrepeat t in 70..900000 {\nbig[t] = big[t - 64]\n}"),
            "accepted");
}

// Each writer is compared with the reads that it can meet only.
TEST(Repeat, ManyStatementsOfOneBlockAreVerifiedQuickly) {
  std::string text = "yoke.program 1\nprogram p() {\n  arg y : f32[201, 1500] inout\n";
  text += "  temp h : f32[201, 1500]\n  h[0, i] = y[0, i]\n  repeat t in 0..200 {\n";
  for (int i = 0; i < 1500; ++i) {
    const std::string column = std::to_string(i);
    text += "    h[t + 1, " + column + "] = h[t, " + column + "] + 1.0\n";
  }
  text += "  }\n  y[t, i] = h[t, i]\n}\n";
  const auto begin = std::chrono::steady_clock::now();
  EXPECT_EQ(error_of(text), "accepted");
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(20));
}

TEST(Repeat, RejectsWrongVariablesAndBlocks) {
  EXPECT_EQ(error_with("repeat t in 0..8 {\n}"),
            "line 10, column 1: the repeat block of 't' contains no statements");
  EXPECT_EQ(error_with("repeat t in 0..8 {\nrepeat u in 0..2 {\ns[i] = 0\n}\n}"),
            "line 10, column 1: repeat blocks cannot be nested");
  EXPECT_EQ(error_with("repeat t in 3..3 {\ns[i] = 0\n}"),
            "line 9, column 8: the range 3..3 of variable 't' is empty; the upper bound is excluded");
  EXPECT_EQ(error_with("repeat x in 0..3 {\ns[i] = 0\n}"),
            "line 9, column 8: the name 'x' is declared twice");
  EXPECT_EQ(error_with("repeat t in 0..9 {\ny[t, i] = x[0, i]\n}"),
            "line 10, column 1: the index 't' of 'y' ranges from 0 to 8; the valid range is 0 to 7");
  EXPECT_EQ(error_with("repeat t in 0..8 {\ns[t] = 0\n}"),
            "line 10, column 1: the index 't' of 's' ranges from 0 to 7; the valid range is 0 to 2");
  EXPECT_EQ(error_with("repeat t in 0..8 {\ny[t, i] = sum[t] x[t, i]\n}"),
            "line 10, column 15: loop 't' has the name of a symbol");
  EXPECT_EQ(error_with("repeat repeat in 0..8 {\ns[i] = 0\n}"),
            "line 9, column 8: 'repeat' is a reserved word");
}

TEST(Repeat, BuiltByCodeIsChecked) {
  const Module module =
      parse_and_verify(with("arg y : f32[4] inout\n"
                            "repeat t in 0..4 {\ny[t] = 1\n}\n"
                            "repeat u in 0..4 {\ny[u] = 2\n}\n"));
  const auto fault = [&](const auto& change) {
    Program program = module.programs[0];
    change(program);
    try {
      verify(program);
    } catch (const ProgramError& error) {
      return error.reason();
    }
    return std::string("accepted");
  };
  EXPECT_EQ(fault([](Program&) {}), "accepted");
  EXPECT_EQ(fault([](Program& p) { p.statements[0].repeat = -1; }),
            "the statements of a repeat block must be consecutive, and its variable the next symbol");
  EXPECT_EQ(fault([](Program& p) { p.statements[1].repeat = 1; }),
            "program 'p': a variable has no repeat block, or a symbol follows a variable");
  EXPECT_EQ(fault([](Program& p) { p.statements[1].target.indices[0].affine = Affine::symbol(1); }),
            "the variable 't' is used outside its repeat block");
  EXPECT_EQ(fault([](Program& p) { p.statements[0].repeat = 0; }),
            "the statements of a repeat block must be consecutive, and its variable the next symbol");
}

TEST(Repeat, HintIsInsideOrOutsideOfABlock) {
  Program program = parse_and_verify(with("arg y : f32[4] inout\n@group {\ny[i] = 1\n}\n"
                                          "repeat t in 0..4 {\ny[t] = 1\n}\ny[i] = 2\n"))
                        .programs[0];
  for (const std::size_t last : {1U, 2U}) {
    program.statements[last].hint = 0;
    try {
      verify(program);
      ADD_FAILURE() << "accepted";
    } catch (const ProgramError& error) {
      EXPECT_EQ(error.reason(), "the statements of a hint must be in the same repeat block");
    }
    program.statements[0].hint = 0;
  }
}

TEST(Repeat, TemporariesThatRoundsShareLiveThroughTheBlock) {
  const Module module =
      parse_and_verify(with("arg x : f32[8, 3] in\narg y : f32[8, 3] out\n"
                            "temp carried : f32[3]\ntemp inner : f32[3]\n"
                            "carried[i] = 0\n"
                            "repeat t in 0..8 {\n"
                            "inner[i] = carried[i] + x[t, i]\n"
                            "y[t, i] = inner[i]\n"
                            "carried[i] = inner[i] * 0.5\n"
                            "y[t, i] = y[t, i] + 1\n"
                            "}\n"));
  const std::vector<Lifetime> lives = lifetimes(module.programs[0]);
  EXPECT_EQ(lives[2].first, 0U);
  EXPECT_EQ(lives[2].last, 4U);
  EXPECT_EQ(lives[3].first, 1U);
  EXPECT_EQ(lives[3].last, 3U);
}

TEST(Repeat, TemporaryThatIsReadAfterTheBlockLivesFromItsFirstStatement) {
  const Module module =
      parse_and_verify(with("arg x : f32[8, 3] in\narg y : f32[8, 3] inout\ntemp last : f32[3]\n"
                            "repeat t in 0..8 {\n"
                            "y[t, i] = x[t, i]\n"
                            "last[i] = x[t, i] + 1\n"
                            "}\n"
                            "y[j, i] = y[j, i] + last[i]\n"));
  const std::vector<Lifetime> lives = lifetimes(module.programs[0]);
  EXPECT_EQ(lives[2].first, 0U);
  EXPECT_EQ(lives[2].last, 2U);
}

}  // namespace
}  // namespace yoke::program
