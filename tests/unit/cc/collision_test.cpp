// SPDX-License-Identifier: Apache-2.0
// tests/unit/cc/collision_test.cpp: programs whose statements collide, with extents around those of tiles and
// vectors.
#include <gtest/gtest.h>

#include "../../support/colliding_programs.h"
#include "corpus.h"
#include "harness.h"

namespace yoke::cc::test {
namespace {

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

}  // namespace
}  // namespace yoke::cc::test
