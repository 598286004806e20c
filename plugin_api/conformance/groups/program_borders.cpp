// SPDX-License-Identifier: Apache-2.0
// plugin_api/conformance/groups/program_borders.cpp: every operation, conversion and reduction at the borders of its
// types; extents around vectors; symbols of 64 bits.
#include <algorithm>
#include <numeric>

#include "groups.h"
#include "program/border_programs.h"
#include "program/run/batch.h"
#include "program/run/random_programs.h"

namespace yoke::conformance {
namespace {

using Programs = std::vector<Case> (*)(std::uint64_t seed, std::uint64_t type_mask);

// Runs `count` programs of a family, or all of them; after some time, only the first `least` of them.
void run_programs(Kit& kit, Programs family, std::uint64_t count, std::uint64_t least) {
  kit.device().plugin().table<yoke_program_api>();
  const std::uint64_t seed = kit.settings().seed;
  const std::vector<Case> cases = family(seed, generator_options(kit.device()).type_mask);
  if (cases.empty()) {
    unsupported("the device lacks the types of this test");
  }
  // Each seed runs another part of the family; each part has programs of every kind.
  std::uint64_t step = cases.size() / 3 + 1;
  while (std::gcd(step, cases.size()) != 1) {
    ++step;
  }
  const auto make = [&](std::uint64_t index) {
    return cases[(index * step + seed % cases.size()) % cases.size()];
  };
  run_cases(kit, std::min<std::uint64_t>(count, cases.size()), make, least);
}

// Runs all programs of a family, or a share of them, if --programs is small.
template <Programs family, std::uint64_t one_in, std::uint64_t least>
void run_family(Kit& kit) {
  const std::uint64_t count = share_of_programs(kit, one_in, least);
  run_programs(kit, family, count, count);
}

template <Programs family, std::uint64_t one_in = 10, std::uint64_t least = 6>
Test family_test(Test test) {
  test.run = run_family<family, one_in, least>;
  test.deadline_factor = 3;
  return test;
}

// These families have thousands of statements. Where each of them takes long to compile, some of them run.
template <Programs family, std::uint64_t one_in, std::uint64_t one_in_slow>
void run_large_family(Kit& kit) {
  const std::uint64_t least = share_of_programs(kit, one_in_slow, 6);
  run_programs(kit, family, kit.settings().programs < 400 ? least : share_of_programs(kit, one_in, 6), least);
}

}  // namespace

// Families of operands and of statements that depend on each other.
std::vector<Test> program_statement_tests() {
  return {
      family_test<literal_programs, 14, 2>(
          {"literals",
           "literals at every border of every type are right as operands, branches, `else` values and whole "
           "values, with every assignment",
           {25, 26}}),
      {"nested",
       "an operation inside another is right at each place, with operands that are different, equal, "
       "constant, or out of range in guards",
       {25, 26},
       run_large_family<nested_programs, 1, 16>,
       3},
      {"crossed",
       "statements are right for every two choices of type, reduction, assignment, indices of the "
       "target and the operands, extents, context and data",
       {25, 26},
       run_large_family<crossed_programs, 2, 5>,
       3},
      family_test<access_programs, 12, 3>(
          {"accesses",
           "every operation is right with operands and targets that are contiguous, strided, reversed, "
           "transposed, broadcast, shifted or gathered, and with literals, loops and symbols as operands",
           {25, 26}}),
      family_test<rewrite_programs, 16, 5>({"rewrites",
                                            "statements that read, copy and overwrite each other's tensors, "
                                            "whole or in part, take effect in order",
                                            {25, 26}}),
      family_test<place_programs, 30, 5>({"places",
                                          "reductions find the one element that decides the result, at every "
                                          "place of rows of every length and in every order of dimensions",
                                          {25, 26}}),
      family_test<sibling_programs, 80, 2>(
          {"siblings",
           "statements of one program that differ in one literal, operation, index, extent or symbol have "
           "their own results",
           {25, 26}}),
      family_test<round_programs, 50, 5>(
          {"rounds",
           "repeat blocks with many rounds, steps other than 1, symbols and large tensors are right",
           {25, 26}}),
      family_test<hint_programs, 25, 5>({"hints",
                                         "softmax and other groups of statements are right with and without "
                                         "hints, for rows of every length, also with infinities and NaN",
                                         {25, 26}})};
}

std::vector<Test> contraction_loop_tests() {
  return {
      family_test<loop_programs>({"loops",
                                  "sums of products are right with any number of loops for the batch, "
                                  "the rows, the columns and the reduction",
                                  {25, 26}}),
      family_test<epilogue_programs, 14, 5>(
          {"epilogues",
           "products with more factors and terms, and with statements before and after them, are right in "
           "every order of indices",
           {25, 26}}),
      family_test<repeat_product_programs>(
          {"repeated", "products and reductions in repeat blocks use the operands of each round", {25, 26}})};
}

std::vector<Test> program_border_tests() {
  return {
      family_test<operator_programs>(
          {"operators",
           "every operation on every type is right at the borders of the type: limits, infinities, NaN, "
           "signed zeros, shifts by the width, divisions by zero",
           {25, 26}}),
      family_test<cast_programs>(
          {"casts", "every conversion saturates, wraps or rounds as the format says", {25, 26}}),
      family_test<reduction_programs>(
          {"reductions",
           "every reduction and assignment is right for infinities, NaN, ties and the limits of the type",
           {25, 26}}),
      family_test<accumulator_programs>(
          {"accumulators",
           "a reduction with a wider accumulator keeps the digits that its elements' type cannot hold",
           {25, 26}}),
      family_test<symbol_programs>(
          {"symbols",
           "symbols are right as values and offsets in all of their range, beyond 32 and 53 bits",
           {25, 26}}),
      family_test<bit_programs>({"bits",
                                 "conversions and functions are right for every pattern of 16 bits, NaN with "
                                 "any payload, and numbers next to the borders of rounding",
                                 {25, 26}}),
      family_test<integer_programs>(
          {"integers",
           "operations on integers of any length, and divisions, products and shifts by constants, are right",
           {25, 26}}),
      family_test<random_bits_programs>(
          {"random-bits", "random_bits is right for every seed, stream and counter of 64 bits", {25, 26}}),
      family_test<index_programs>(
          {"indices",
           "gathers and scatters with every type of index drop exactly the indices out of range",
           {25, 26}}),
      family_test<guard_programs>(
          {"guards",
           "reads with else yield it exactly out of range, with every offset, stride and divisor",
           {25, 26}}),
      family_test<limit_programs>({"limits",
                                   "deep and wide programs, 8 dimensions, long repeat blocks and names like "
                                   "those of generated code are right",
                                   {25, 26}}),
      family_test<lifetime_programs>(
          {"lifetimes",
           "temporaries keep their values as long as they are read, in, between and after repeat blocks",
           {25, 26}}),
      family_test<axis_programs>(
          {"axes",
           "reductions over every set of dimensions, and every order and broadcast of dimensions, are right",
           {25, 26}}),
      family_test<tail_programs>({"tails",
                                  "loops of every small extent, of extents around powers of two and of whole "
                                  "blocks, write all elements and nothing else",
                                  {25, 26}})};
}

}  // namespace yoke::conformance
