// SPDX-License-Identifier: Apache-2.0
// tests/unit/passes/cost_test.cpp: what counts as a copy, and what as a product.
#include "passes/cost.h"

#include "pass_text.h"

namespace yoke::passes {
namespace {

// A program with this statement over some scalars, vectors and matrices.
program::Program statement_of(const std::string& statement) {
  return program_of(program_text(
      "arg s : f32[] in; arg x : f32[8] in; arg w : f32[8, 8] in; arg v : f32[8, 8] in; arg n : i32[8] in; "
      "arg y : f32[8, 8] inout; arg z : f32[8] inout; " +
      statement));
}

TEST(Products, NeedALoopInEachFactorThatTheOtherOneLacks) {
  const struct {
    const char* statement;
    bool is_contraction;
    bool is_matrix_product;
  } kCases[] = {
      {"y[i, j] = sum[k] w[i, k] * v[k, j]", true, true},
      {"z[i] = sum[k] w[i, k] * x[k]", true, false},
      {"z[i] = sum[k] x[k] * w[i, k]", true, false},
      {"y[i, j] = sum[k] w[i, k] * x[k]", true, false},  // no factor depends on j
      {"y[i, j] = sum[k] x[k] * w[i, k]", true, false},
      {"z[i] = sum[k] w[i, k] * v[i, k]", false, false},
      {"y[i, j] = max[k] w[i, k] * v[k, j]", false, false},
      {"y[i, j] = w[i, 0] * v[0, j]", false, false},
      {"y[i, j] = sum[k] exp(w[i, k]) * v[k, j]", false, false},
      {"y[i, j] = sum[k] w[i, k] + v[k, j]", false, false},
  };
  for (const auto& one : kCases) {
    SCOPED_TRACE(one.statement);
    const program::Program program = statement_of(one.statement);
    EXPECT_EQ(is_contraction(program.statements[0]), one.is_contraction);
    EXPECT_EQ(is_matrix_product(program.statements[0]), one.is_matrix_product);
  }
}

TEST(Products, StayOnlyIfBothFactorsAreReads) {
  const program::Program before = statement_of("y[i, j] = sum[k] w[i, k] * v[k, j]");
  const auto stays = [&](const char* after) {
    return stays_contraction(before.statements[0], statement_of(after).statements[0]);
  };
  EXPECT_TRUE(stays("y[i, j] = sum[k] w[i, k] * v[j, k]"));
  EXPECT_FALSE(stays("y[i, j] = sum[k] exp(w[i, k]) * v[k, j]"));
  EXPECT_FALSE(stays("y[i, j] = sum[k] w[i, k]"));
}

TEST(Costs, OfScalarsAndIndicesAreNothing) {
  const struct {
    const char* value;
    Cost cost;
  } kCases[] = {
      {"3.0", Cost::kFree},         {"f32(i)", Cost::kFree},    {"s[]", Cost::kFree},
      {"-(-s[])", Cost::kFree},     {"-x[i]", Cost::kCheap},    {"-(-x[i])", Cost::kLight},
      {"-(-(-s[]))", Cost::kLight}, {"exp(x[i])", Cost::kWork},
  };
  for (const auto& one : kCases) {
    SCOPED_TRACE(one.value);
    const program::Program program = statement_of(std::string("z[i] = ") + one.value);
    EXPECT_EQ(cost_of(program, program.statements[0]), one.cost);
  }
}

TEST(Costs, OfCopiesDependOnTheOrderInMemory) {
  const struct {
    const char* statement;
    Cost cost;
  } kCases[] = {
      {"y[i, j] = w[i, j]", Cost::kCopy},
      {"y[i, j] = w[i, 3]", Cost::kCopy},  // neighbors are the same element
      {"y[i, j] = w[3, j]", Cost::kCopy},
      {"y[i, j] = x[3]", Cost::kCopy},
      {"y[i, j] = w[j, i]", Cost::kMoved},
      {"y[i, j] = w[j, 3]", Cost::kMoved},  // neighbors are a row apart
      {"y[i, j] = -w[i, j]", Cost::kCheap},
      {"z[i] = (x[i + 1] else 0)", Cost::kLight},
      {"z[i] for[i:4] = x[2*i]", Cost::kLight},
      {"z[i] = w[i, i]", Cost::kLight},
      {"z[i] = (x[n[i]] else 0)", Cost::kWork},
  };
  for (const auto& one : kCases) {
    SCOPED_TRACE(one.statement);
    const program::Program program = statement_of(one.statement);
    EXPECT_EQ(cost_of(program, program.statements[0]), one.cost);
  }
}

}  // namespace
}  // namespace yoke::passes
