// SPDX-License-Identifier: Apache-2.0
// tests/unit/cc/collision_test.cpp: programs whose statements collide, with extents around those of tiles and
// vectors.
#include <gtest/gtest.h>
#include <yoke/program/text.h>

#include <utility>

#include "../../support/colliding_programs.h"
#include "corpus.h"
#include "harness.h"

namespace yoke::cc::test {
namespace {

// Groups as many consecutive statements as the verifier accepts as regions of rows.
void form_regions(program::Program& program) {
  for (std::size_t first = 0, next = 1; first < program.statements.size(); first = next++) {
    const auto hint = static_cast<std::int32_t>(program.hints.size());
    program.hints.push_back({"fused", {"i"}});
    const std::int32_t alone = std::exchange(program.statements[first].hint, hint);
    for (; next < program.statements.size() && alone < 0 && program.statements[next].hint < 0; ++next) {
      program.statements[next].hint = hint;
      try {
        program::verify(program);
      } catch (const program::ProgramError&) {
        program.statements[next].hint = -1;
        break;
      }
    }
    if (next == first + 1) {
      program.statements[first].hint = alone;
      program.hints.pop_back();
    }
  }
}

TEST(CollisionTest, CollidingStatementsMatchTheReference) {
  constexpr std::uint64_t kExtents[] = {4, 15, 17, 31, 33, 4, 7, 16, 8, 36};
  for (std::uint64_t index = 0; index < 200 && !HasFailure(); ++index) {
    SCOPED_TRACE("program " + std::to_string(index));
    const std::uint64_t extent = kExtents[index % std::size(kExtents)];
    const conformance::Case one =
        conformance::corpus_case(yoke::test::CollidingProgram(index, extent).text(), index);
    const std::vector<const KernelTable*> tables = all_tables();
    const KernelTable& table = *tables[index % tables.size()];
    for (const std::vector<std::int64_t>& symbols : one.launches) {
      check_launch(one, symbols, index % 3 == 0 ? 2 : 1, table);
    }
  }
}

TEST(CollisionTest, CollidingStatementsInTilesGiveTheSameBits) {
  std::uint64_t tiled = 0;
  for (std::uint64_t index = 0; index < 300 && !HasFailure(); ++index) {
    conformance::Case one =
        conformance::corpus_case(yoke::test::CollidingProgram(1000 + index, 8 + index % 41).text(), index);
    form_regions(one.program);
    const auto tiles = compile(one.program, index % 2 == 0 ? 2 : 1, nullptr, 512);
    if (!has_note(*tiles, "tile by tile") || has_note(*tiles, "oneDNN")) {
      continue;
    }
    ++tiled;
    program::Program without_hints = one.program;
    for (program::Statement& statement : without_hints.statements) {
      statement.hint = -1;
    }
    const std::vector<Guarded> start = start_of(one);
    for (const std::vector<std::int64_t>& symbols : one.launches) {
      EXPECT_TRUE(same_bytes(run_guarded(compile(without_hints, 1, nullptr, 0), start, symbols),
                             run_guarded(tiles, start, symbols)))
          << "program " << index << "\n"
          << program::print(one.program);
    }
  }
  EXPECT_GT(tiled, 30U);
}

// Loops that consist of several tiles of a kernel.
TEST(CollisionTest, StatementsOfOneHintRunOneAfterAnotherIfTilesShareElements) {
  const char* const bodies[] = {
      // Scatters to the same elements from several tiles.
      "t[e[i]] max= x[i]\n  t[e[i]] += z[i]",
      // The first statement reads what the second one writes.
      "y[i] = (x[i - 1] else 0)\n  x[i] = z[i]",
      "x[i] = z[i]\n  y[i] = (x[i + 1] else 0)",
      // An element-wise statement that visits the columns first.
      "q[b, a] for[a:70, b:70] = p[b, a] * 2\n  s[a] = sum[b] p[a, b]",
  };
  for (const std::string body : bodies) {
    conformance::Case one;
    one.seed = 4;
    one.program =
        read(text_of("  arg e : i32[5000] in\n  arg z : f32[5000] in\n  arg p : f32[70, 70] in\n  arg x : "
                     "f32[5000] inout\n"
                     "  arg y : f32[5000] inout\n  arg t : f32[5] inout\n  arg q : f32[70, 70] inout\n  arg "
                     "s : f32[70] inout\n"
                     "  @dense {\n  " +
                     body + "\n  }\n"));
    one.data.assign(one.program.tensors.size(), {conformance::DataKind::kDyadic});
    one.data[0] = {conformance::DataKind::kIndex, 5, -1};
    check_launch(one, {}, 1, all_tables());
    check_launch(one, {}, 2, all_tables());
  }
}

}  // namespace
}  // namespace yoke::cc::test
