// SPDX-License-Identifier: Apache-2.0
// tests/unit/program/access_test.cpp: properties of indices that code generators use.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <yoke/program/access.h>
#include <yoke/program/text.h>

#include <string>

namespace yoke::program {
namespace {

using ::testing::ElementsAre;

Program program_with(const std::string& statement) {
  return parse_and_verify(
             "yoke.program 1\nprogram p(symbol row in -4..6 step 3) {\n"
             "  arg x : f32[10, 6] in\n  arg k : i32[10, 3] in\n  arg a : f32[8] inout\n"
             "  arg y : f32[7, 6] inout\n  arg z : f32[30] inout\n" +
             statement + "\n}\n")
      .programs[0];
}

TEST(Access, RangeAndLargestPartialSumCoverAllLoopsAndSymbols) {
  // Loops i below 8, j below 6; row is -4, -1, 2 or 5.
  const Program program = program_with("  a[i] += sum[j:6] (x[2*i - row + 3, j] else 0)");
  const Statement& statement = program.statements[0];
  const Affine& affine = statement.value.access.indices[0].affine;

  EXPECT_EQ(range_of(program, statement, affine), (Interval{-2, 21}));
  EXPECT_EQ(largest_partial_sum(program, statement, affine), 14 + 5 + 3);
}

TEST(Access, MayBeOutOfRangeIsFalseOnlyForIndicesAlwaysInRange) {
  const Program program = program_with("  a[i] += sum[j:6] (x[i + 2, j] else 0) * (x[i + 3, j] else 0)");
  const Statement& statement = program.statements[0];
  const auto leaves = [&](std::size_t factor, std::size_t dim) {
    const Access& access = statement.value.args[factor].access;
    return may_be_out_of_range(program, statement, access.indices[dim].affine,
                               program.tensors[access.tensor].dims[dim]);
  };

  EXPECT_FALSE(leaves(0, 0));
  EXPECT_TRUE(leaves(1, 0));
  EXPECT_FALSE(leaves(1, 1));
}

TEST(Access, DividedIndicesMayBeOutOfRangeAndHaveAQuotientIfEveryTermIsDivisible) {
  const Program program = program_with(
      "  a[i] += (x[(2*i - 4*row - 18) / 2, 0] else 0) * (x[(2*i + 1) / 2, (4*i + 1) / 6] else 0)\n"
      "  a[i] += (x[(i + 29) / 3, (i - 9) / 2] else 0) * (x[(i + 30) / 3, 0] else 0)");
  const auto index = [&](std::size_t statement, std::size_t factor, std::size_t dim) {
    return program.statements[statement].value.args[factor].access.indices[dim];
  };
  const auto never = [&](const Index& one, std::uint64_t extent) {
    return is_out_of_range(program, program.statements[0].loops, one, extent);
  };

  EXPECT_TRUE(may_be_out_of_range(program, program.statements[0], index(0, 0, 0), 1000));
  EXPECT_EQ(exact_quotient(index(0, 0, 0)), (Affine{-9, {{false, 0, 1}, {true, 0, -2}}}));
  EXPECT_EQ(exact_quotient(index(0, 1, 0)), std::nullopt);
  EXPECT_FALSE(never(index(0, 0, 0), 10));
  EXPECT_TRUE(never(index(0, 1, 0), 10));  // odd
  EXPECT_TRUE(never(index(0, 1, 1), 6));   // odd, and 6 is even
  EXPECT_FALSE(never(index(1, 0, 0), 10));
  EXPECT_TRUE(never(index(1, 0, 1), 6));   // negative
  EXPECT_TRUE(never(index(1, 1, 0), 10));  // at least 10
}

TEST(Access, StridesAreInElements) {
  EXPECT_THAT(strides_of({"t", Type::kF32, {4, 3, 5}, Role::kIn, {}}), ElementsAre(15, 5, 1));
  EXPECT_THAT(strides_of({"t", Type::kF32, {}, Role::kIn, {}}), ElementsAre());
}

TEST(Access, EveryLoopOfAPlainTargetIsIndependent) {
  const Program program = program_with("  z[6*i + j] for[i:5, j:6] = 1");
  EXPECT_THAT(independent_loops(program.statements[0]), ElementsAre(true, true));
}

TEST(Access, OnlyLoopsOutsideTheScatterIndexAreIndependent) {
  const Program one = program_with("  y[k[b, c], e] += x[b, e] * f32(c)");
  ASSERT_TRUE(has_element_index(one.statements[0].target));
  EXPECT_THAT(independent_loops(one.statements[0]), ElementsAre(false, false, true));

  // c is part of the scatter index, but the second index is different for each value of c.
  const Program two = program_with("  y[k[b, c], 2*c + d] for[b:10, c:3, d:2] += 1");
  EXPECT_THAT(independent_loops(two.statements[0]), ElementsAre(false, true, true));
}

TEST(Access, VisitorsIncludeIndexTensors) {
  const Program program = program_with("  y[k[b, 0], e] += (x[k[b, 1], e] else 0)");
  const Statement& statement = program.statements[0];
  std::vector<std::uint32_t> read;
  visit_index_tensors(statement.target, [&](std::uint32_t tensor) { read.push_back(tensor); });
  visit_read_tensors(statement.value, [&](std::uint32_t tensor) { read.push_back(tensor); });
  std::size_t affines = 0;
  visit_affines(statement.target, [&](const Affine&) { ++affines; });
  visit_affines(statement.value, [&](const Affine&) { ++affines; });

  EXPECT_THAT(read, ElementsAre(1, 0, 1));
  EXPECT_EQ(affines, 6);
}

TEST(Access, NamesFindSymbolsTensorsAndLoops) {
  const Program program = program_with("  repeat t in 0..2 {\n    a[i] += sum[j:6] x[row + 4, j]\n  }");

  EXPECT_EQ(program.find_tensor("a"), 2U);
  EXPECT_EQ(program.find_symbol("row"), 0U);
  EXPECT_EQ(program.find_symbol("t"), std::nullopt);  // not given at launch
  EXPECT_EQ(program.statements[0].find_loop("j"), 1U);
  EXPECT_EQ(program.statements[0].find_loop("row"), std::nullopt);
}

TEST(Access, AnElementAsAnAccessAndBackIsTheSameIndex) {
  const Program program = program_with("  y[k[i, 1], j] += x[i, j]");
  const Index& index = program.statements[0].target.indices[0];
  const Access access = access_of(index);

  EXPECT_EQ(access.tensor, 1U);
  EXPECT_EQ(access.indices[1].affine, Affine::number(1));
  EXPECT_EQ(element_of(access), index);
}

TEST(Access, ReadsOnlyAtIsFalseForOtherElementsElsesAndIndexTensors) {
  const Program program = program_with(
      "  a[i] = a[i] * x[i, 0] + a[i]\n  y[i, j] = a[i] * a[7]\n  y[i, j] = (a[i] else 0)\n"
      "  y[i, j] = (x[k[i, 0], 0] else 0)");
  const Access place = program.statements[0].target;
  const auto reads_only = [&](std::size_t statement) {
    return reads_only_at(program.statements[statement].value, place);
  };

  EXPECT_TRUE(reads_only(0));
  EXPECT_FALSE(reads_only(1));
  EXPECT_FALSE(reads_only(2));
  EXPECT_TRUE(reads_only(3));
  EXPECT_FALSE(reads_only_at(program.statements[3].value, {1, place.indices, std::nullopt}));
}

TEST(Access, AccessesAreApartIfAnIndexWithoutLoopsDiffersByAConstant) {
  const Program program =
      program_with("  a[i] = (x[row, i] else 0) + (x[row + 1, i] else 0) + (x[2*row, i + 1] else 0)");
  const Expr& sum = program.statements[0].value;
  const Access& row = sum.args[0].args[0].access;
  const Access& next = sum.args[0].args[1].access;
  const Access& twice = sum.args[1].access;

  EXPECT_TRUE(are_apart(row, next));
  EXPECT_FALSE(are_apart(row, row));
  EXPECT_FALSE(are_apart(row, twice));
}

TEST(Access, UsesNameTheLoopThatIndexesADimensionByItself) {
  const Program program =
      program_with("  y[i, j] = (x[k[i, 0], j] else 0) * (x[(i + 0) / 2, 2*j] else 0) * a[i]");
  std::vector<std::uint32_t> tensors;
  std::vector<std::vector<std::uint32_t>> loops;
  for (const Use& use : uses_of(program.statements[0])) {
    tensors.push_back(use.tensor);
    loops.push_back(use.loops);
  }

  EXPECT_THAT(tensors, ElementsAre(3, 0, 1, 0, 2));
  EXPECT_THAT(loops, ElementsAre(ElementsAre(0, 1), ElementsAre(kNoLoop, 1), ElementsAre(0, kNoLoop),
                                 ElementsAre(kNoLoop, kNoLoop), ElementsAre(0)));
  EXPECT_EQ(Use({0, {2, 0, kNoLoop, 2}}).dims_at(2), 0b1001U);
}

}  // namespace
}  // namespace yoke::program
