// SPDX-License-Identifier: Apache-2.0
// tests/unit/cc/region_allocation_test.cpp: counts allocations where regions run and where they are looked
// for.
#include <gtest/gtest.h>

#include "../../support/count_allocations.h"
#include "harness.h"

namespace yoke::cc::test {
namespace {

TEST(RegionAllocationTest, TheFirstLaunchOfARegionWithATailAllocatesNothing) {
  Launchable launchable(read(text_of(R"(
  arg x : f32[4, 7, 10000] in
  arg y : f32[4, 7, 10000] out
  temp m : f32[4, 7]
  @fused[a, b] {
    m[a, b] = max[c] x[a, b, c]
    y[a, b, c] = x[a, b, c] - m[a, b]
  }
)")));
  const std::uint64_t before = yoke::test::allocation_count();
  launchable.launch();
  EXPECT_EQ(yoke::test::allocation_count() - before, 0U);
}

TEST(RegionAllocationTest, NoRunIsCollectedFromSumsThatNoRegionFollows) {
  std::string text = "  arg x : f32[64, 48] in\n  arg y : f32[48] out\n";
  for (int i = 0; i < 70; ++i) {
    text += "  y[c] = sum[n] x[n, c]\n";
  }
  const program::Program p = read(text_of(text));
  const std::uint64_t before = yoke::test::allocation_count();
  EXPECT_TRUE(find_run(p, 0).places.empty());
  EXPECT_EQ(yoke::test::allocation_count() - before, 0U);
}

}  // namespace
}  // namespace yoke::cc::test
