// SPDX-License-Identifier: Apache-2.0
// tests/unit/data/table_test.cpp: tables of comma- or blank-separated fields, their splits and their standardization.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <yoke/datasets.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numeric>

#include "test_files.h"

namespace yoke::datasets {
namespace {

using test::error_of;
using test::is_error;
using test::values_of;
using ::testing::ElementsAre;
using ::testing::FloatEq;
using ::testing::FloatNear;
using ::testing::IsEmpty;

constexpr auto kInvalid = ErrorCode::kInvalidArgument;

class TableTest : public ::testing::Test {
 protected:
  Table csv(const std::string& text, const std::string& label = {}) {
    test::write_file(folder_ / "t.csv", text);
    return read_csv(folder_ / "t.csv", label);
  }
  Table columns(const std::string& text, const std::string& label = {}) {
    test::write_file(folder_ / "t.txt", text);
    return read_columns(folder_ / "t.txt", label);
  }
  Error csv_error(const std::string& text, const std::string& label = {}) {
    return error_of([&] { csv(text, label); });
  }

  test::TemporaryFolder folder_;
};

TEST_F(TableTest, CsvFollowsRfc4180) {
  const Table table =
      csv("\xef\xbb\xbf"
          R"("a ""b"", c",d,"e
f")"
          "\r\n1,\"2\",x\r\n-3.5e2, +4 ,\"y, \"\"z\"\"\"");
  EXPECT_THAT(table.names, ElementsAre("a \"b\", c", "d", "e\nf"));
  EXPECT_THAT(table.lines, ElementsAre(3, 4));
  EXPECT_THAT(table.label_names, ElementsAre("x", "y, \"z\""));
  EXPECT_THAT(table.values, ElementsAre(1, 2, 0, -350, 4, 1));
  EXPECT_EQ(table.label, 2U);
}

TEST_F(TableTest, ColumnOfTheLabelMayBeOptional) {
  test::write_file(folder_ / "t.csv", "x,y\n1,2\n");
  const auto read = [&](const std::string& label) {
    return read_csv(folder_ / "t.csv", label, LabelColumn::kOptional);
  };
  EXPECT_EQ(read("z").label, 2U);
  EXPECT_THAT(read("z").values, ElementsAre(1, 2));
  EXPECT_EQ(read("x").label, 0U);
  EXPECT_EQ(read("").label, 1U);
  EXPECT_THAT(csv_error("x,y\n1,2\n", "z"), is_error(kInvalid, "has no column 'z'"));
}

TEST_F(TableTest, FirstLineIsAHeaderIfItHasTextAboveANumber) {
  EXPECT_THAT(csv("x,y\n1,2\n").names, ElementsAre("x", "y"));
  EXPECT_THAT(csv("1,2\n3,4\n").names, ElementsAre("0", "1"));
  EXPECT_EQ(csv("1,2\n3,4\n").row_count(), 2U);
  const Table words = csv("1,red\n2,blue\n");
  EXPECT_EQ(words.row_count(), 2U);
  EXPECT_THAT(words.label_names, ElementsAre("blue", "red"));
  EXPECT_THAT(words.values, ElementsAre(1, 1, 2, 0));
}

TEST_F(TableTest, FirstLineWithCountsAndNamesOfClassesIsAnError) {
  // With as many fields as columns, it would become a header.
  for (const std::string text : {"2,3,red,blue\n1,2,3,0\n4,5,6,1\n", "150,3,red,blue,green\n1,2,3,0\n",
                                 "150,3,red\n1,2,3,0\n4,5,6,1\n"}) {
    EXPECT_THAT(csv_error(text),
                is_error(ErrorCode::kDataLoss,
                         "t.csv, line 1: it has the numbers of rows and features and the names of classes, "
                         "not of columns; remove the line, or replace it by 4 names"));
  }
  EXPECT_THAT(csv("7,3,red,blue\n1,2,3,0\n4,5,6,1\n").names, ElementsAre("7", "3", "red", "blue"));
  EXPECT_EQ(csv("1,2,red\n4,5,blue\n").row_count(), 2U) << "a row with the name of a class";
}

TEST_F(TableTest, LabelIsAColumnByNameOrNumber) {
  EXPECT_EQ(csv("x,y,z\n1,2,3\n", "y").label, 1U);
  EXPECT_EQ(csv("x,y,z\n1,2,3\n", "0").label, 0U);
  EXPECT_EQ(csv("2,1,0\n1,2,3\n", "0").label, 0U);
  EXPECT_THAT(csv_error("x,y\n1,2\n", "w"), is_error(kInvalid, "t.csv has no column 'w'; it has 'x', 'y'"));
  EXPECT_THAT(csv_error("price,size\n1,2\n", "prize"),
              is_error(kInvalid, "it has 'price', 'size'; did you mean 'price'?"));
}

TEST_F(TableTest, SemicolonsSeparateFieldsIfTheFirstLineHasNoCommas) {
  const Table table = csv("\xef\xbb\xbf\n\"a, b\";c;\"d;e\"\r\n1;2.5;\"x;y\"\r\n3;4;\"z, w\"\r\n");
  EXPECT_THAT(table.names, ElementsAre("a, b", "c", "d;e"));
  EXPECT_THAT(table.label_names, ElementsAre("x;y", "z, w"));
  EXPECT_THAT(table.values, ElementsAre(1, 2.5, 0, 3, 4, 1));
  EXPECT_THAT(csv("\"a;b\",c;d\n1,2\n").names, ElementsAre("a;b", "c;d"));
  EXPECT_THAT(csv_error("x;y\n1;2\n3;4;5\n"),
              is_error(ErrorCode::kDataLoss, "line 3: it has 3 fields, but the first line has 2"));
  EXPECT_THAT(csv_error("x;y\n1;\"2\"3\n"), is_error(ErrorCode::kDataLoss, "line 2: text follows"));
}

TEST_F(TableTest, DecimalCommasAreErrors) {
  EXPECT_THAT(
      csv_error("x;y\n1,5;2\n3;4\n"),
      is_error(kInvalid, "line 2, column 'x': '1,5' is not a finite number; write numbers as in 1234.5"));
  // Also in the label, where they must not become names of classes.
  EXPECT_THAT(
      csv_error("x;y\n1;2\n3;-4,5\n"),
      is_error(kInvalid, "line 3, column 'y': '-4,5' has a decimal comma; write numbers as in 1234.5"));
  EXPECT_THAT(csv_error("1,5;2,5\n3,5;4,5\n"),
              is_error(kInvalid, "'5;2' is not a finite number; write numbers as"));
  EXPECT_THAT(csv("x;y\n1;a,b\n3;c,d\n").label_names, ElementsAre("a,b", "c,d"));
  // Names above them are a header all the same.
  EXPECT_THAT(csv_error("x;y\n1,5;2,5\n3,5;4,5\n"), is_error(kInvalid, "line 2, column 'x': '1,5' is not"));
}

TEST_F(TableTest, Utf16IsNamed) {
  using std::string_literals::operator""s;
  for (const std::string& text : {"\xff\xfex\0,\0y\0"s, "\xfe\xff\0x\0,\0y"s}) {
    EXPECT_THAT(csv_error(text),
                is_error(ErrorCode::kDataLoss, "t.csv: the text is encoded in UTF-16; save it as UTF-8"));
    EXPECT_THAT(error_of([&] { columns(text); }),
                is_error(ErrorCode::kDataLoss, "t.txt: the text is encoded"));
  }
  EXPECT_THAT(csv_error("x\0,\0y\0"s),
              is_error(ErrorCode::kDataLoss, "t.csv: byte 1 is zero, so this is not text"));
  EXPECT_THAT(csv_error("x,y\n1,\0"s), is_error(ErrorCode::kDataLoss, "t.csv: byte 6 is zero"));
}

TEST_F(TableTest, TextThatIsNotUtf8IsAnErrorWithItsLine) {
  const auto refused = [](const std::string& place) {
    return is_error(ErrorCode::kDataLoss, place + ": the text is not valid UTF-8; save it as UTF-8");
  };
  EXPECT_THAT(csv_error("gr\xf6\xdf"
                        "e,y\n1,2\n3,4\n"),
              refused("t.csv, line 1"));
  EXPECT_THAT(csv_error("x,y\n1,\xf6\n2,\xdf\n"), refused("t.csv, line 2"));  // both would be shown as U+FFFD
  EXPECT_THAT(csv_error("\xef\xbb\xbfx,\"y\nz\"\r\n1,2\r\n3,\xc3"), refused("t.csv, line 4"));
  EXPECT_THAT(error_of([&] { columns("1 a\n2 \xe9\n"); }), refused("t.txt, line 2"));
  for (const char* wrong :
       {"\xf6", "\xc3", "\xc0\xaf", "\xe0\x80\xaf", "\xed\xa0\x80", "\xf4\x90\x80\x80", "\xe2\x82"}) {
    const std::string text = "x,y\n1,a\n2," + std::string(wrong) + "\n";
    EXPECT_THAT(csv_error(text), refused("t.csv, line 3"));
  }
  EXPECT_THAT(csv("gr\xc3\xb6\xc3\x9f"
                  "e,y\n1,\xe2\x82\xac\n2,\xf0\x9f\x98\x80\n")
                  .label_names,
              ElementsAre("\xe2\x82\xac", "\xf0\x9f\x98\x80"));
}

TEST_F(TableTest, LinesThatEndWithCrOnlyAreAnError) {
  const auto is_refused = is_error(ErrorCode::kDataLoss, ": lines end with CR only; save it with LF");
  EXPECT_THAT(csv_error("x,y\r1,2\r2,3\r"), is_refused);
  EXPECT_THAT(csv_error("\"x\",\"y\"\r1,2"), is_refused);
  EXPECT_THAT(error_of([&] { columns("1 2\r3 4\r"); }), is_refused);
  EXPECT_THAT(csv("1,2\r").values, ElementsAre(1, 2));
  EXPECT_THAT(csv("1,\"a\rb\"").label_names, ElementsAre("a\rb"));
}

TEST_F(TableTest, NamesOfColumnsDiffer) {
  EXPECT_THAT(csv_error("x,y,x\n1,2,3\n", "y"),
              is_error(kInvalid, "t.csv: columns 0 and 2 are both named 'x'; rename one of them"));
  EXPECT_EQ(csv("1,1\n2,2\n").row_count(), 2U) << "numbers, not a header";
  EXPECT_EQ(csv("x,,,y\n1,0,0,2\n3,0,0,4\n").row_count(), 2U) << "names may be empty";
}

TEST_F(TableTest, ErrorsNameFileLineAndColumn) {
  EXPECT_THAT(csv_error("x,y\n1,2\n3,four\n", "x"),
              is_error(kInvalid, "t.csv, line 3, column 'y': 'four' is not a finite number"));
  EXPECT_THAT(csv_error("x,y\n1,2\nnan,4\n"), is_error(kInvalid, "line 3, column 'x': 'nan'"));
  EXPECT_THAT(csv_error("x,y\n1,2\n1e999,4\n"), is_error(kInvalid, "line 3, column 'x': '1e999'"));
  EXPECT_THAT(csv_error("x,y\n1,2\n,4\n"), is_error(kInvalid, "line 3, column 'x': ''"));
  EXPECT_THAT(csv_error("x,y\n1,2\n3\n"),
              is_error(ErrorCode::kDataLoss, "t.csv, line 3: it has 1 field, but the first line has 2"));
  EXPECT_THAT(csv_error("x,y\n1,\"2\n3,4\n"),
              is_error(ErrorCode::kDataLoss, "line 2: a quoted field does not end"));
  EXPECT_THAT(csv_error("x,y\n1,\"2\"3\n"),
              is_error(ErrorCode::kDataLoss, "line 2: text follows the closing"));
  EXPECT_THAT(csv_error("x,y\n1,2\"3\n"),
              is_error(ErrorCode::kDataLoss, "line 2: the field '2\"3' contains a quote"));
  EXPECT_THAT(csv_error("\"x\ny\",z\n1,2\n3,4,5\n"),
              is_error(ErrorCode::kDataLoss, "line 4: it has 3 fields"));
  EXPECT_THAT(csv_error(""), is_error(kInvalid, "has no rows"));
  EXPECT_THAT(csv_error("x,y\n"), is_error(kInvalid, "has no rows"));
  EXPECT_EQ(csv("1,y\n").row_count(), 1U) << "a row, because it has a number";
  EXPECT_THAT(error_of([&] { read_csv(folder_ / "none.csv"); }), is_error(ErrorCode::kNotFound, "none.csv"));
}

TEST_F(TableTest, FirstTwoLinesHaveTheSameNumberOfFields) {
  for (const char* first : {"a,b,y", "1,2,3", "a"}) {
    const std::string count = std::to_string(1 + std::count(first, first + std::strlen(first), ','));
    EXPECT_THAT(csv_error(std::string(first) + "\n1,2,3,4\n5,6,7,8\n"),
                is_error(ErrorCode::kDataLoss, "t.csv, line 2: it has 4 fields, but the first line has " +
                                                   count + "; correct one of them"));
  }
}

TEST_F(TableTest, CommasInABlankSeparatedFileAreReported) {
  const auto columns_error = [&](const std::string& text) {
    test::write_file(folder_ / "t.data", text);
    return error_of([&] { read_columns(folder_ / "t.data"); });
  };
  const char* const fix = "; if commas separate the columns, rename the file to end in .csv";
  for (const char* text : {"5.1,3.5,a\n4.9,3,b\n", "x,y\n1,2\n"}) {
    EXPECT_THAT(columns_error(text),
                is_error(ErrorCode::kInvalidArgument, "t.data has one column, because ", fix))
        << text;
  }
  EXPECT_THAT(
      columns_error("5.1,3.5,Iris setosa\n4.9,3,b\n"),
      is_error(ErrorCode::kDataLoss,
               "line 2: it has 1 field, but the first line has 2; correct one of them (blanks ", fix));
  const auto expect_no_hint = [&](const std::string& text) {
    const std::string error = columns_error(text).what();
    EXPECT_EQ(error.find(".csv"), std::string::npos) << error;
  };
  expect_no_hint("1,5 2,5\n3,5 4,5\n");
  expect_no_hint("one, two\nthree four five\n");
}

TEST_F(TableTest, HeaderWithNumbersIsMarked) {
  EXPECT_FALSE(csv("1,2,3\n4,5,6\n").header_has_numbers);
  EXPECT_FALSE(csv(",b,NA\n4,5,6\n").header_has_numbers);
  for (const char* first : {"1,NA,3", "1,,3", "nan,2,3"}) {
    const Table table = csv(std::string(first) + "\n4,5,6\n");
    EXPECT_TRUE(table.header_has_numbers) << first;
    EXPECT_EQ(table.row_count(), 1U);
  }
}

TEST_F(TableTest, LabelsAreNumbersOrTexts) {
  const std::string mixed = "x,y\n1,2\n3,NA\n";
  EXPECT_THAT(csv_error(mixed), is_error(kInvalid,
                                         "t.csv, line 3, column 'y': 'NA' is not a finite number, "
                                         "but the label of line 2 is; correct one of them"));
  EXPECT_THAT(csv_error("x,y\n1,inf\n3,4\n"), is_error(kInvalid, "line 2, column 'y': 'inf'"));
  // Labels, too: they must not become names of classes.
  EXPECT_THAT(csv_error("x,y\n1,2\n3,-1e39\n"),
              is_error(kInvalid, "line 3, column 'y': '-1e39' is too large for the 32-bit numbers"));
  EXPECT_THAT(csv_error("x,y\n1e300,2\n3,4\n"),
              is_error(kInvalid, "line 2, column 'x': '1e300' is too large"));
  EXPECT_THAT(csv_error("x,y\n1,a\n3, \n"), is_error(kInvalid, "line 3, column 'y': the label is empty"));
  EXPECT_THAT(csv_error("1,2,\n3,4,\n"), is_error(kInvalid, "line 1, column '2': the label is empty"));
  csv_error(mixed);
  const Table classes = read_csv(folder_ / "t.csv", {}, LabelColumn::kRequired,
                                 {.only = {}, .without = {}, .labels_are_classes = true});
  EXPECT_THAT(classes.label_names, ElementsAre("2", "NA"));
}

TEST_F(TableTest, ColumnsThatAreNotReadMayHaveTexts) {
  test::write_file(folder_ / "t.csv", "x,color,y\n1,red,2\n3,,4\n");
  const auto read = [&](const TableOptions& options) {
    return read_csv(folder_ / "t.csv", "y", LabelColumn::kRequired, options);
  };
  const TableOptions without_name{.only = {}, .without = {"color"}};
  const TableOptions without_number{.only = {}, .without = {"1"}};
  const TableOptions only_name{.only = {"x"}, .without = {}};
  const TableOptions only_number{.only = {"0"}, .without = {}};
  for (const TableOptions& options : {without_name, without_number, only_name, only_number}) {
    EXPECT_THAT(read(options).values, ElementsAre(1, 0, 2, 3, 0, 4));
  }
  EXPECT_THAT(error_of([&] { read({}); }), is_error(kInvalid, "line 2, column 'color': 'red'"));
  EXPECT_THAT(error_of([&] { read({.only = {}, .without = {"y"}}); }),
              is_error(kInvalid, "the column 'y' is the label, so it cannot be left out"));
  EXPECT_THAT(error_of([&] { read({.only = {}, .without = {"z"}}); }), is_error(kInvalid, "no column 'z'"));
  EXPECT_THAT(error_of([&] { read({.only = {"z"}, .without = {}}); }), is_error(kInvalid, "no column 'z'"));
}

TEST_F(TableTest, BlanksSeparateColumns) {
  const Table table = columns("  1 2\t3 \r\n\n4   5 6\n");
  EXPECT_THAT(table.values, ElementsAre(1, 2, 3, 4, 5, 6));
  EXPECT_THAT(table.lines, ElementsAre(1, 3));
  EXPECT_THAT(error_of([&] { columns("1 2\n3\n"); }),
              is_error(ErrorCode::kDataLoss, "t.txt, line 2: it has 1 field,"));
}

TEST_F(TableTest, DamagedFilesNeverCrash) {
  const std::string whole = "\"a\"\"x\",b,c\r\n1,\"2\",red\r\n3,4,\"bl\nue\"\r\n";
  for (std::size_t at = 0; at < whole.size(); ++at) {
    for (const char changed : {'"', ',', '\n', '\r', '\0', 'x'}) {
      std::string bytes = whole;
      bytes[at] = changed;
      try {
        const Table table = csv(bytes);
        EXPECT_EQ(table.values.size(), table.row_count() * table.names.size());
      } catch (const Error& error) {
        EXPECT_THAT(error.what(), ::testing::HasSubstr("t.csv"));
      }
    }
  }
}

TEST_F(TableTest, InputsAndTargetsAreStandardizedByTheTrainingRows) {
  const Table table = columns("1 7 10\n3 7 20\n100 7 40\n");
  const Examples made = make_examples(table, {.train = {0, 1}, .test = {2}}, Task::kRegression);

  EXPECT_THAT(made.means, ElementsAre(2, 7));
  EXPECT_THAT(made.deviations, ElementsAre(1, 1));  // the second column is constant
  EXPECT_THAT(values_of<float>(made.train_inputs.host_bytes()), ElementsAre(-1, 0, 1, 0));
  EXPECT_THAT(values_of<float>(made.test_inputs.host_bytes()), ElementsAre(98, 0));
  EXPECT_EQ(made.target_mean, 15);
  EXPECT_EQ(made.target_deviation, 5);
  EXPECT_THAT(values_of<float>(made.train_targets.host_bytes()), ElementsAre(-1, 1));
  EXPECT_THAT(values_of<float>(made.test_targets.host_bytes()), ElementsAre(5));
}

TEST_F(TableTest, ClassificationCountsClassesAndChecksLabels) {
  const Table words = csv("x,kind\n1,red\n2,blue\n3,red\n");
  const Examples made = make_examples(words, {.train = {0, 1}, .test = {2}}, Task::kClassification);
  EXPECT_EQ(made.class_count, 2U);
  EXPECT_THAT(values_of<std::uint8_t>(made.train_targets.host_bytes()), ElementsAre(1, 0));
  const Split split{.train = {0}, .test = {1}};
  EXPECT_THAT(error_of([&] { make_examples(words, split, Task::kRegression); }),
              is_error(kInvalid, "the column 'kind' has texts"));
  EXPECT_THAT(error_of([&] { make_examples(csv("x,y\n1,2\n1,2.5\n"), split, Task::kClassification); }),
              is_error(kInvalid, "line 3, column 'y': the label of a classification must be a whole number"));
  // The first bad line of the file, although the rows have another order.
  const Split shuffled{.train = {3, 1}, .test = {2, 0}};
  EXPECT_THAT(error_of([&] {
                make_examples(csv("x,y\n1,2\n1,-1\n1,256\n1,300\n"), shuffled, Task::kClassification);
              }),
              is_error(kInvalid, "line 3, column 'y': the label of a classification must be a whole number"));
  EXPECT_THAT(error_of([&] { make_examples(words, {.train = {0}, .test = {3}}, Task::kClassification); }),
              is_error(kInvalid, "include row 3"));
  const std::vector<std::size_t> without = {0};
  EXPECT_THAT(
      error_of([&] { make_examples(words, split, Task::kClassification, without); }),
      is_error(kInvalid, "has no columns besides the label; give data with features, separated by commas"));
}

TEST_F(TableTest, MoreThan256TextsAreNotClasses) {
  std::string text = "x,kind\n";
  for (int i = 0; i < 256; ++i) {
    text += "1,c" + std::to_string(i) + "\n";
  }
  const Table most = csv(text);
  const Split split = random_split(most.row_count(), 0.1, 0);
  EXPECT_EQ(make_examples(most, split, Task::kClassification).class_count, 256U);
  const Table more = csv(text + "1,another\n");
  EXPECT_THAT(
      error_of([&] { make_examples(more, random_split(more.row_count(), 0.1, 0), Task::kClassification); }),
      is_error(kInvalid,
               "the column 'kind' has 257 different texts, and a classification has at most 256 "
               "classes; merge some of them, or choose another label"));
}

TEST_F(TableTest, SplitsArePermutations) {
  const Split random = random_split(10, 0.25, 3);
  EXPECT_EQ(random.train.size(), 8U);  // round(7.5)
  std::vector<std::uint64_t> all = random.train;
  all.insert(all.end(), random.test.begin(), random.test.end());
  EXPECT_NE(random_split(10, 0.25, 4).train, random.train);
  std::sort(all.begin(), all.end());
  std::vector<std::uint64_t> expected(10);
  std::iota(expected.begin(), expected.end(), 0);
  EXPECT_EQ(all, expected);

  test::write_file(folder_ / "s.txt", "0 1 2 3\n3 2 1 0\n0 0 1 2\n0 1 2 4\n0 1 2 2.5\n");
  const Split second = read_split(folder_ / "s.txt", 1, 4, 0.25);
  EXPECT_THAT(second.train, ElementsAre(3, 2, 1));
  EXPECT_THAT(second.test, ElementsAre(0));
  for (const std::uint64_t bad : {2U, 3U, 4U}) {
    EXPECT_THAT(error_of([&] { read_split(folder_ / "s.txt", bad, 4, 0.25); }),
                is_error(kInvalid, "permutation"));
  }
  EXPECT_THAT(error_of([&] { read_split(folder_ / "s.txt", 5, 4, 0.25); }),
              is_error(kInvalid, "it has 5 splits"));
  EXPECT_THAT(error_of([&] { read_split(folder_ / "s.txt", 0, 5, 0.25); }),
              is_error(kInvalid, "a split has 4 rows"));
  EXPECT_THAT(error_of([&] { random_split(1, 0.5, 0); }),
              is_error(kInvalid, "1 row; training and testing need at least 2"));
}

TEST_F(TableTest, TextIsReadAsCharacters) {
  test::write_file(folder_ / "t.txt", "hello\n");
  const Characters text = read_text(folder_ / "t.txt");
  EXPECT_EQ(text.alphabet, "\nehlo");
  EXPECT_THAT(values_of<std::uint8_t>(text.symbols.host_bytes()), ElementsAre(2, 1, 3, 3, 4, 0));
  test::write_file(folder_ / "t.txt", "");
  EXPECT_THAT(error_of([&] { read_text(folder_ / "t.txt"); }), is_error(kInvalid, "is empty"));
}

}  // namespace
}  // namespace yoke::datasets
