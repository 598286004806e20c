// SPDX-License-Identifier: Apache-2.0
// plugin_api/conformance/groups/program_borders.cpp: every operation, conversion and reduction at the borders of its
// types; extents around vectors; symbols of 64 bits.
#include <algorithm>

#include "groups.h"
#include "program/border_programs.h"
#include "program/run/batch.h"
#include "program/run/random_programs.h"

namespace yoke::conformance {
namespace {

// Runs all programs of a family, or a share of them, if --programs is small.
template <std::vector<Case> (*family)(std::uint64_t seed, std::uint64_t type_mask)>
void run_family(Kit& kit) {
  kit.device().plugin().table<yoke_program_api>();
  const std::uint64_t seed = kit.settings().seed;
  const std::vector<Case> cases = family(seed, generator_options(kit.device()).type_mask);
  if (cases.empty()) {
    unsupported("the device lacks the types of this test");
  }
  const std::uint64_t count = std::min<std::uint64_t>(cases.size(), share_of_programs(kit, 10, 6));
  // Another part of the family with each seed.
  run_cases(kit, count,
            [&](std::uint64_t index) { return cases[(index + seed % cases.size()) % cases.size()]; });
}

}  // namespace

std::vector<Test> contraction_loop_tests() {
  return {{"loops",
           "sums of products are right with any number of loops for the batch, the rows, the columns and the "
           "reduction",
           {25, 26},
           run_family<loop_programs>,
           3}};
}

std::vector<Test> program_border_tests() {
  return {{"operators",
           "every operation on every type is right at the borders of the type: limits, infinities, NaN, "
           "signed zeros, "
           "shifts by the width, divisions by zero",
           {25, 26},
           run_family<operator_programs>,
           3},
          {"casts",
           "every conversion saturates, wraps or rounds as the format says",
           {25, 26},
           run_family<cast_programs>,
           3},
          {"reductions",
           "every reduction and assignment is right for infinities, NaN, ties and the limits of the type",
           {25, 26},
           run_family<reduction_programs>,
           3},
          {"accumulators",
           "a reduction with a wider accumulator keeps the digits that its elements' type cannot hold",
           {25, 26},
           run_family<accumulator_programs>,
           3},
          {"symbols",
           "symbols are right as values and offsets in all of their range, beyond 32 and 53 bits",
           {25, 26},
           run_family<symbol_programs>,
           3},
          {"bits",
           "conversions and functions are right for every pattern of 16 bits, NaN with any payload, and "
           "numbers next to "
           "the borders of rounding",
           {25, 26},
           run_family<bit_programs>,
           3},
          {"integers",
           "operations on integers of any length, and divisions, products and shifts by constants, are right",
           {25, 26},
           run_family<integer_programs>,
           3},
          {"random-bits",
           "random_bits is right for every seed, stream and counter of 64 bits",
           {25, 26},
           run_family<random_bits_programs>,
           3},
          {"indices",
           "gathers and scatters with every type of index drop exactly the indices out of range",
           {25, 26},
           run_family<index_programs>,
           3},
          {"guards",
           "reads with else yield it exactly out of range, with every offset, stride and divisor",
           {25, 26},
           run_family<guard_programs>,
           3},
          {"limits",
           "deep and wide programs, 8 dimensions, long repeat blocks and names like those of generated code "
           "are right",
           {25, 26},
           run_family<limit_programs>,
           3},
          {"lifetimes",
           "temporaries keep their values as long as they are read, in, between and after repeat blocks",
           {25, 26},
           run_family<lifetime_programs>,
           3},
          {"axes",
           "reductions over every set of dimensions, and every order and broadcast of dimensions, are right",
           {25, 26},
           run_family<axis_programs>,
           3},
          {"tails",
           "loops of every small extent, of extents around powers of two and of whole blocks, write all "
           "elements and nothing else",
           {25, 26},
           run_family<tail_programs>,
           3}};
}

}  // namespace yoke::conformance
