// SPDX-License-Identifier: Apache-2.0
// tests/unit/conformance_programs/generator_test.cpp: random programs are valid and cover the whole grammar.
#include "generator.h"

#include <gtest/gtest.h>
#include <yoke/program/access.h>
#include <yoke/program/text.h>

#include <functional>
#include <map>
#include <set>

#include "../../support/rounds.h"
#include "edit.h"
#include "mutate.h"

namespace yoke::conformance {
namespace {

using program::Op;
using program::Type;

constexpr Type kTypes[] = {Type::kF64, Type::kF32, Type::kF16, Type::kBF16, Type::kI64,
                           Type::kI32, Type::kU32, Type::kU8,  Type::kBool};

TEST(Generator, UsesOnlyTypesOfTheMask) {
  for (const std::uint64_t mask : {0x3FEU, 0x44U, 0x4U, 0x40U, 0x208U, 0x244U}) {
    for (std::uint64_t index = 0; index < test::rounds(600); ++index) {
      const Case one = generate_case(7, index, {mask, true});
      ASSERT_NO_THROW(program::parse_and_verify(program::print(one.program)));
      ASSERT_EQ(one.data.size(), one.program.tensors.size());
      for (const program::Tensor& tensor : one.program.tensors) {
        ASSERT_NE(mask >> static_cast<unsigned>(tensor.type) & 1U, 0U);
      }
    }
  }
}

TEST(Generator, CasesDependOnlyOnSeedAndIndex) {
  std::set<std::string> texts;
  for (std::uint64_t index = 0; index < 200; ++index) {
    const Case one = generate_case(3, index);
    const Case two = generate_case(3, index);
    EXPECT_EQ(program::print(one.program), program::print(two.program));
    EXPECT_EQ(one.launches, two.launches);
    for (const std::uint32_t tensor : one.program.arguments()) {
      EXPECT_EQ(initial_bytes(one, tensor), initial_bytes(two, tensor));
    }
    texts.insert(program::print(one.program));
    texts.insert(program::print(generate_case(4, index).program));
  }
  EXPECT_EQ(texts.size(), 400U);
}

TEST(Generator, CoversEveryOpOnEveryType) {
  std::map<std::pair<Op, Type>, int> met;
  for (std::uint64_t index = 0; index < 2000; ++index) {
    Case one = generate_case(1, index);
    for (program::Statement& statement : one.program.statements) {
      visit_expressions(statement.value, [&](program::Expr& expr) {
        const bool leaf = expr.args.empty() || expr.op == Op::kCast || expr.op == Op::kGuard;
        ++met[{expr.op, leaf ? expr.type : expr.args[expr.op == Op::kSelect ? 1 : 0].type}];
      });
    }
  }
  for (std::size_t op = 0; op < program::kOpCount; ++op) {
    for (const Type type : kTypes) {
      const auto one = static_cast<Op>(op);
      if (takes_type(one, type)) {
        EXPECT_GE((met[{one, type}]), 3) << program::op_info(one).name << " on " << program::type_name(type);
      }
    }
  }
}

// Counts how often each feature occurs.
class Counts {
 public:
  void add(const std::string& what, bool holds = true) { counts_[what] += holds ? 1 : 0; }
  void expect(int least) const {
    for (const auto& [what, count] : counts_) {
      EXPECT_GE(count, least) << what;
    }
  }

 private:
  std::map<std::string, int> counts_;
};

void count_affine(const program::Affine& affine, Counts& counts) {
  int loops = 0;
  bool symbol = false;
  bool negative = false;
  bool strided = false;
  for (const program::Affine::Term& term : affine.terms) {
    loops += term.is_symbol ? 0 : 1;
    symbol = symbol || term.is_symbol;
    negative = negative || term.coefficient < 0;
    strided = strided || term.coefficient > 1;
  }
  counts.add("index: one loop", affine.single_loop().has_value());
  counts.add("index: two loops", loops == 2);
  counts.add("index: symbol", symbol);
  counts.add("index: negative", negative);
  counts.add("index: strided", strided);
  counts.add("index: constant", affine.terms.empty());
}

void count_statement(program::Statement& statement, const program::Program& program, Counts& counts) {
  const char* const assigns[] = {"=", "+=", "*=", "max=", "min="};
  const char* const reduces[] = {"sum", "prod", "min", "max", "any", "all", "argmax", "argmin"};
  const std::string assign = assigns[static_cast<int>(statement.assign)];
  for (int i = 0; i < 8; ++i) {
    const bool same = statement.reduce && static_cast<int>(*statement.reduce) == i;
    counts.add(std::string("reduce: ") + reduces[i], same);
    counts.add("reduce with an accumulator", same && statement.accumulator.has_value());
    counts.add("reduce over several loops", same && statement.reduce_loops.size() > 1);
  }
  for (const char* const each : assigns) {
    counts.add(std::string("assign: ") + each, assign == each);
    if (std::string(each) != "=") {
      counts.add(std::string("assign: ") + each + " of a reduction", assign == each && statement.reduce);
    }
  }
  const auto gathers = [](const program::Access& access) {
    for (const program::Index& index : access.indices) {
      if (index.element_of) {
        return true;
      }
    }
    return false;
  };
  const bool scatters = gathers(statement.target);
  for (const char* const each : {"+=", "*=", "max=", "min="}) {
    counts.add(std::string("scatter: ") + each, scatters && assign == each);
  }
  visit_accesses(statement, [&](program::Access& access) {
    const bool target = &access == &statement.target;
    counts.add("gather", !target && gathers(access));
    counts.add("else without gather", access.otherwise && !gathers(access));
    for (const program::Index& index : access.indices) {
      counts.add("index: divided", index.divisor != 1);
      counts.add("index: divided, several loops", index.divisor != 1 && index.affine.terms.size() > 1);
    }
    counts.add("read of the target", !target && access.tensor == statement.target.tensor);
    const std::size_t rank = program.tensors[access.tensor].dims.size();
    for (std::size_t i = 0; i <= 8; ++i) {
      counts.add("rank " + std::to_string(i), rank == i);
    }
  });
  visit_affines(statement, [&](program::Affine& affine) { count_affine(affine, counts); });
  visit_expressions(statement.value, [&](program::Expr& expr) {
    if (expr.op == Op::kGuard) {
      int open = 0;
      visit_open_reads(expr.args[0], [&](const program::Expr& read) {
        open += may_be_out_of_range(program, statement, read.access) ? 1 : 0;
      });
      counts.add("guard: of one read out of range", open == 1);
      counts.add("guard: of several reads out of range", open > 1);
    }
    counts.add("a loop as a value", expr.op == Op::kIndex && !expr.affine.terms[0].is_symbol);
    counts.add("a symbol as a value", expr.op == Op::kIndex && expr.affine.terms[0].is_symbol);
  });
  counts.add("hint", statement.hint >= 0);
}

TEST(Generator, CoversEveryFormOfStatementAndAccess) {
  Counts counts;
  for (std::uint64_t index = 0; index < 2000; ++index) {
    Case one = generate_case(1, index);
    for (program::Statement& statement : one.program.statements) {
      count_statement(statement, one.program, counts);
    }
    std::uint64_t largest = 0;
    for (std::size_t i = 0; i < one.program.tensors.size(); ++i) {
      const program::Tensor& tensor = one.program.tensors[i];
      largest = std::max(largest, tensor.element_count());
      for (const auto role :
           {program::Role::kIn, program::Role::kOut, program::Role::kInOut, program::Role::kTemp}) {
        counts.add("role " + std::to_string(static_cast<int>(role)), tensor.role == role);
      }
      for (int kind = 0; kind <= static_cast<int>(DataKind::kIndex); ++kind) {
        counts.add("data " + std::to_string(kind), static_cast<int>(one.data[i].kind) == kind);
      }
      counts.add("shared memory", one.data[i].shared >= 0);
    }
    counts.add("more than 1024 elements", largest > 1024);
    counts.add("more than 16384 elements", largest > 16384);
    counts.add("several launches", one.launches.size() > 1);
  }
  counts.expect(8);
}

TEST(Mutations, AreRejectedWithALineNumber) {
  int refused = 0;
  for (std::uint64_t index = 0; index < 300; ++index) {
    Random random(5, "mutations", index);
    const auto invalid = mutate(program::print(generate_case(5, index).program), random);
    if (invalid) {
      ++refused;
      EXPECT_EQ(invalid->reason.rfind("line ", 0), 0U) << invalid->reason;
    }
  }
  EXPECT_GT(refused, 100);
}

}  // namespace
}  // namespace yoke::conformance
