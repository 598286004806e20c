// SPDX-License-Identifier: Apache-2.0
// tests/unit/cc/scatter_test.cpp: scatters and gathers that resemble those of whole rows.
#include <gtest/gtest.h>

#include <string>

#include "harness.h"

namespace yoke::cc::test {
namespace {

const std::string kArguments = R"(
  arg e : i32[20] in
  arg g : i32[20, 70] in
  arg x : f32[20, 70] in
  arg w : f32[50, 70] in
  arg t : f32[50, 70] inout
  arg y : f32[20, 70] inout
)";

const char* const kOneByOne = "some accesses are done one element at a time";

struct Access {
  const char* statement;
  bool by_row;  // whether each row is one access
};

// The elements of a row are neighbors only if the row's index does not depend on the column.
TEST(ScatterTest, OnlyAccessesToNeighborsRunRowByRow) {
  const Access accesses[] = {
      {"t[e[i], j] += x[i, j]", true},
      {"t[g[i, j], j] += x[i, j]", false},
      {"t[e[i], 69 - j] for[i:20, j:70] += x[i, j]", false},
      {"t[e[i], 2*j] for[i:20, j:35] += x[i, j]", false},
      {"y[i, j] = (w[e[i], j] else 0)", true},
      {"y[i, j] = (w[g[i, j], j] else 0)", false},
      {"y[i, j] = (w[g[i, j], j] else 0) + (w[e[i], j] else 0)", false},
      {"t[e[i], j] += (w[g[i, j], j] else 0)", false},
      {"t[e[i], j] += (w[e[i], j] else 0)", true},
  };
  for (const Access& access : accesses) {
    conformance::Case one = case_of(text_of(kArguments + "  " + access.statement + "\n"));
    one.data.assign(one.data.size(), {conformance::DataKind::kDyadic, 1, -1});
    one.data[0] = one.data[1] = {conformance::DataKind::kIndex, 50, -1};
    const auto compiled = compile(one.program);
    EXPECT_EQ(has_note(*compiled, kOneByOne), !access.by_row) << access.statement;
    EXPECT_EQ(compiled->notes[0].native, access.by_row) << access.statement;
    check_launch(one, {}, 1, all_tables());
  }
}

}  // namespace
}  // namespace yoke::cc::test
