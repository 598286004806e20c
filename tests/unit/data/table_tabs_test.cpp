// SPDX-License-Identifier: Apache-2.0
// tests/unit/data/table_tabs_test.cpp: tables separated by tabs, and columns without names.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <yoke/datasets.h>

#include "test_files.h"

namespace yoke::datasets {
namespace {

using test::error_of;
using test::is_error;
using ::testing::ElementsAre;

constexpr auto kInvalid = ErrorCode::kInvalidArgument;

TEST(Tsv, TabsAloneSeparateTheFields) {
  const test::TemporaryFolder folder;
  const auto tsv = [&](const std::string& text, const TableOptions& options = {}) {
    test::write_file(folder / "t.TSV", text);
    return read_columns(folder / "t.TSV", {}, LabelColumn::kRequired, options);
  };
  const auto tsv_error = [&](const std::string& text) { return error_of([&] { tsv(text); }); };
  const Table table = tsv("\na\tb c\t\"d\te\"\r\n1\t 2 \tx, y\r\n\n3\t4\tz, z\n");
  EXPECT_THAT(table.names, ElementsAre("a", "b c", "d\te"));
  EXPECT_THAT(table.label_names, ElementsAre("x, y", "z, z"));
  EXPECT_THAT(table.values, ElementsAre(1, 2, 0, 3, 4, 1));
  EXPECT_THAT(tsv("a\tb\ty\n1\t\t3\n", {.only = {}, .without = {"b"}}).values, ElementsAre(1, 0, 3));
  EXPECT_THAT(tsv_error("a\tb\ty\n1\t2\t3\n1\t\t3\n"), is_error(kInvalid, "t.TSV, line 3, column 'b': ''"));
  EXPECT_THAT(tsv_error("a\tb\ty\n\t2\t3\n1\t2\t3\n"), is_error(kInvalid, "line 2, column 'a': ''"));
  EXPECT_THAT(tsv_error("a\tb\n1\tx\n1\t\n"), is_error(kInvalid, "line 3, column 'b': the label is empty"));
  EXPECT_THAT(tsv_error("a, x\tb, y\n1 2\n"),
              is_error(ErrorCode::kDataLoss,
                       "line 2: it has 1 field, but the first line has 2; correct one of them (tabs separate "
                       "fields)"));
  EXPECT_THAT(tsv("1 2\n3\t4\n").values, ElementsAre(1, 2, 3, 4)) << "no tab in the first line";
  EXPECT_THAT(tsv(" \na\tb\ty\n\t\t\n1\t2\t3\n ").values, ElementsAre(1, 2, 3)) << "blank lines";
  EXPECT_THAT(tsv("a\tb\t\n1\t2\t\n").values, ElementsAre(1, 2)) << "tabs at the ends of all lines";
  EXPECT_THAT(tsv_error("a\tb\ty\n1\t2\t\n"), is_error(kInvalid, "line 2, column 'y': the label is empty"));
}

TEST(TableNames, BlankNamesOfColumnsAreGenerated) {
  const test::TemporaryFolder folder;
  const auto csv = [&](const std::string& text) {
    test::write_file(folder / "t.csv", text);
    return read_csv(folder / "t.csv");
  };
  test::write_file(folder / "t.tsv", "\tb\t \ty\n1\t2\t3\t4\n");
  for (const Table& table : {csv(",b, ,y\n1,2,3,4\n"), read_columns(folder / "t.tsv")}) {
    EXPECT_THAT(table.names, ElementsAre("unnamed 0", "b", "unnamed 2", "y"));
    EXPECT_EQ(column_of(table, "unnamed 2"), 2U);
    EXPECT_EQ(column_of(table, ""), 0U);
  }
  EXPECT_EQ(column_of(csv("0,,\n1,2,3\n4,5,6\n"), ""), 1U);
  EXPECT_EQ(column_of(csv(",0,1\n1,2,3\n"), "0"), 1U) << "a name";
  EXPECT_THAT(error_of([&] { csv(",y\nx,1\n2,3\n"); }),
              is_error(kInvalid, "line 2, column 'unnamed 0': 'x'"));
}

}  // namespace
}  // namespace yoke::datasets
