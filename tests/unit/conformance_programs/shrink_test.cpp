// SPDX-License-Identifier: Apache-2.0
// tests/unit/conformance_programs/shrink_test.cpp: failing programs
// shrink to the statements that the bug needs.
#include "shrink.h"

#include <gtest/gtest.h>
#include <yoke/program/text.h>

#include "../../support/rounds.h"
#include "edit.h"
#include "evaluate.h"
#include "generator.h"

namespace yoke::conformance {
namespace {

using program::Op;
using program::Program;

// Whether the bounds of a program reject the results of the same program changed by `bug`.
bool fails_with(const Case& one, const std::function<void(Program&)>& bug) {
  Case wrong = one;
  bug(wrong.program);
  return std::any_of(one.launches.begin(), one.launches.end(), [&](const auto& symbols) {
    return !compare_results(one, symbols, reference_results(wrong, symbols)).empty();
  });
}

void change_ops(Program& program, Op from, Op to) {
  for (program::Statement& statement : program.statements) {
    visit_expressions(statement.value,
                      [&](program::Expr& expr) { expr.op = expr.op == from ? to : expr.op; });
  }
}

// The first programs always become small. The initial data depend on the sizes, so a few of the later ones fail
// only with larger tensors.
constexpr int kAlwaysSmall = 5;
constexpr int kPrograms = kAlwaysSmall + static_cast<int>(test::rounds(15));
constexpr int kFewLarger = 4;
constexpr std::uint64_t kLarger = 64;

void expect_small(const std::function<void(Program&)>& bug, std::size_t most_statements,
                  std::uint64_t most_elements, const char* what) {
  int shrunk = 0;
  int larger = 0;
  for (std::uint64_t index = 0; index < 2000 && shrunk < kPrograms; ++index) {
    const Case drawn = generate_case(10, index, {0x3FE, false});
    const auto fails = [&](const Case& one) { return fails_with(one, bug); };
    if (!fails(drawn)) {
      continue;
    }
    ++shrunk;
    const Case small = shrink(drawn, fails, {300, 5000});  // a long time limit, for loaded machines
    EXPECT_TRUE(fails(small)) << what;
    EXPECT_NO_THROW(program::verify(small.program));
    EXPECT_LE(small.program.statements.size(), most_statements) << what << "\n"
                                                                << program::print(small.program);
    EXPECT_TRUE(small.program.symbols.empty()) << what << "\n" << program::print(small.program);
    std::uint64_t elements = 0;
    for (const program::Tensor& tensor : small.program.tensors) {
      elements = std::max(elements, tensor.element_count());
    }
    EXPECT_LE(elements, shrunk <= kAlwaysSmall ? most_elements : kLarger) << what << "\n"
                                                                          << program::print(small.program);
    larger += elements > most_elements ? 1 : 0;
  }
  EXPECT_LE(larger, kFewLarger) << what;
  EXPECT_EQ(shrunk, kPrograms) << what << ": too few random programs have the bug";
}

TEST(Shrinker, IsolatesAWrongOperation) {
  expect_small([](Program& program) { change_ops(program, Op::kMax, Op::kMin); }, 1, 16, "max computes min");
  expect_small([](Program& program) { change_ops(program, Op::kSub, Op::kAdd); }, 1, 16, "- adds");
}

TEST(Shrinker, IsolatesAWrongElseValue) {
  expect_small(
      [](Program& program) {
        for (program::Statement& statement : program.statements) {
          visit_accesses(statement, [](program::Access& access) {
            if (access.otherwise) {
              access.otherwise->number += 3;
              access.otherwise->integer ^= 1;
            }
          });
        }
      },
      1, 16, "else has another value");
}

TEST(Shrinker, IsolatesAReductionWithoutItsLastTerm) {
  expect_small(
      [](Program& program) {
        for (program::Statement& statement : program.statements) {
          if (statement.reduce && statement.loops[statement.reduce_loops.back()].extent > 2) {
            --statement.loops[statement.reduce_loops.back()].extent;
          }
        }
      },
      1, 16, "the last term of a reduction is dropped");
}

TEST(Shrinker, KeepsAllStatementsThatABugNeeds) {
  // The bug drops the last statement of programs with more than two.
  expect_small(
      [](Program& program) {
        if (program.statements.size() > 2) {
          program.statements.pop_back();
        }
      },
      3, 16, "the last of several statements is dropped");
}

TEST(Shrinker, RespectsItsLimitOfTries) {
  const Case drawn = generate_case(9, 5);
  std::uint64_t tries = 0;
  shrink(drawn,
         [&](const Case&) {
           ++tries;
           return true;
         },
         {100, 50});
  EXPECT_LE(tries, 50U);
}

}  // namespace
}  // namespace yoke::conformance
