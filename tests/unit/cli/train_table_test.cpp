// SPDX-License-Identifier: Apache-2.0
// tests/unit/cli/train_table_test.cpp: yoke train on tables.
#include <gmock/gmock.h>
#include <yoke/npz.h>

#include "words.h"

namespace yoke {
namespace {

using test::json_value;
using test::run;
using test::TemporaryFolder;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

// 300 rows of y = 3 + 20 a - 10 b + 5 a b, and a column that must not be used.
std::string regression_table(const char* separator, bool has_header) {
  std::string text = has_header ? "a,b,cheat,y\n" : "";
  for (int i = 0; i < 300; ++i) {
    const double a = i % 17 / 17.0;
    const double b = i % 23 / 23.0;
    const double y = 3 + 20 * a - 10 * b + 5 * a * b;
    text += std::to_string(a) + separator + std::to_string(b) + separator + std::to_string(i) + separator +
            std::to_string(y) + "\n";
  }
  return text;
}

TEST(YokeTrainTable, DropOfAllFeaturesIsNamed) {
  const TemporaryFolder folder;
  const std::string data = folder / "t.csv";
  test::write_file(data, "a,b,y\n1,2,3\n2,3,5\n3,4,6\n");
  const auto outcome = run({"train", "--data", data, "--drop", "a,1"});
  EXPECT_EQ(outcome.code, 1);
  EXPECT_EQ(outcome.err,
            "yoke: --drop a,1 leaves out all columns of " + data + " besides the label; keep one at least\n");
  EXPECT_EQ(run({"train", "--data", data, "--drop", "a,0", "--epochs", "1"}).code, 0);
}

TEST(YokeTrainTable, DropTakesANameWithACommaInQuotes) {
  const TemporaryFolder folder;
  const std::string data = folder / "t.csv";
  test::write_file(data, "\"length, cm\",b,c,y\n1,2,x,3\n2,3,x,5\n3,4,x,6\n");
  const auto dropped =
      run({"train", "--data", data, "--drop", "\"length, cm\",c", "--epochs", "1", "--save", folder / "c"});
  EXPECT_EQ(dropped.code, 0) << dropped.err;
  EXPECT_THAT(test::read_whole(folder / "c/config.toml"), HasSubstr("drop = '\"length, cm\",c'"));
  const auto bare = run({"train", "--data", data, "--drop", "length, cm"});
  EXPECT_EQ(bare.code, 2);
  EXPECT_EQ(
      bare.err,
      "yoke: --drop: the name of the column 'length, cm' has a comma, so it needs double quotes: --drop "
      "'\"length, cm\"'\n");
  EXPECT_EQ(run({"train", "--data", data, "--drop", "\"length"}).err,
            "yoke: --drop '\"length' has an unmatched double quote\n");
  test::write_file(data, "b,\"5\"\" nail\",y\n1,x,3\n2,x,5\n3,x,6\n");
  for (const char* name : {"5\" nail", "\"5\"\" nail\""}) {
    EXPECT_EQ(run({"train", "--data", data, "--drop", name, "--epochs", "1"}).code, 0) << name;
  }
  EXPECT_EQ(run({"train", "--data", data, "--drop", "\"b\"c"}).err,
            "yoke: --drop '\"b\"c' has text after the double quotes of a name\n");
}

TEST(YokeTrainTable, RegressionReportsTheRmseInTheUnitOfTheLabels) {
  const TemporaryFolder folder;
  test::write_file(folder / "t.csv", regression_table(",", true));
  const auto outcome =
      run({"train", "--data", folder / "t.csv", "--label", "y", "--drop", "cheat", "--optimizer", "adam",
           "--lr", "0.01", "--epochs", "60", "--model", "mlp:20", "--json"});
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  const std::string json = outcome.last_line();
  EXPECT_THAT(outcome.err, HasSubstr("270 training and 30 test rows of 2 features; regression of 'y'"));
  const double rmse = std::stod(json_value(json, "rmse"));
  EXPECT_LT(rmse, 0.5);  // the deviation of y is 6.3
  EXPECT_GT(rmse, 1e-4);
  EXPECT_EQ(json_value(json, "validation_accuracy"), "null");
  EXPECT_EQ(json_value(json, "validation_loss"), json_value(json, "test_loss"));
}

TEST(YokeTrainTable, RowThatBecomesAHeaderIsNamed) {
  const TemporaryFolder folder;
  test::write_file(folder / "t.csv", "NA,0.5,7,3\n" + regression_table(",", false));
  const std::string text = "; the first line is a header, because it has text above a number\n";
  EXPECT_THAT(run({"train", "--data", folder / "t.csv", "--steps", "1"}).out,
              HasSubstr("regression of '3'" + text));
  test::write_file(folder / "t.csv", regression_table(",", true));
  EXPECT_THAT(run({"train", "--data", folder / "t.csv", "--steps", "1"}).out,
              AllOf(HasSubstr("regression of 'y'\n"), Not(HasSubstr(text))));
}

TEST(YokeTrainTable, LossThatIsNanIsStillThatOfARegression) {
  const TemporaryFolder folder;
  test::write_file(folder / "t.csv", regression_table(",", true));
  const std::vector<std::string> words = {"train",    "--data", folder / "t.csv", "--lr",      "1e30",
                                          "--epochs", "2",      "--save",         folder / "c"};
  const auto outcome = run(words);
  EXPECT_THAT(outcome.out, AllOf(HasSubstr("test loss nan, test rmse nan, "), Not(HasSubstr("accuracy"))));
  EXPECT_THAT(
      run({"predict", "--from", folder / "c", "--data", folder / "t.csv", "--out", folder / "p.csv"}).out,
      HasSubstr(", rmse nan\n"));
}

TEST(YokeTrainTable, SplitFileChoosesTheTestRows) {
  const TemporaryFolder folder;
  test::write_file(folder / "t.txt", regression_table(" ", false));
  std::string forward;
  std::string backward;
  for (int i = 0; i < 300; ++i) {
    forward += std::to_string(i) + " ";
    backward += std::to_string(299 - i) + " ";
  }
  test::write_file(folder / "s.txt", forward + "\n" + backward + "\n");
  const auto loss = [&](const std::string& split) {
    const auto outcome = run({"train", "--data", folder / "t.txt", "--splits", folder / "s.txt", "--split",
                              split, "--epochs", "1", "--json"});
    EXPECT_EQ(outcome.code, 0) << outcome.err;
    return json_value(outcome.last_line(), "test_loss");
  };
  EXPECT_EQ(loss("1"), loss("1"));
  EXPECT_NE(loss("0"), loss("1"));
  EXPECT_THAT(run({"train", "--data", folder / "t.txt", "--splits", folder / "s.txt", "--split", "2"}).err,
              HasSubstr("it has 2 splits"));
}

TEST(YokeTrainTable, ResumeNamesOtherDataBeforeDefaultsThatDependOnIt) {
  const TemporaryFolder folder;
  const std::string save = folder / "a b";
  test::write_file(folder / "t.csv", "a,b,kind\n1,2,x\n3,4,y\n5,6,x\n7,8,y\n");
  ASSERT_EQ(run({"train", "--data", folder / "t.csv", "--steps", "3", "--save", save}).code, 0);
  const auto other = run({"train", "--steps", "5", "--save", save, "--resume"});
  EXPECT_EQ(other.code, 1);
  EXPECT_THAT(
      other.err,
      HasSubstr("belongs to a run on a table with 2 columns (a, b) and the label 'kind' of 2 classes (x, y), "
                "but this one is on half-moons, a table with 2 columns (0, 1) and the label '2'; to continue "
                "that run, use --config '" +
                save + "/config.toml' --save '" + save + "' --resume, or start from its parameters"));
  EXPECT_EQ(run({"train", "--config", save + "/config.toml", "--save", save, "--resume"}).code, 0);
}

TEST(YokeTrainTable, WordsAreClasses) {
  const TemporaryFolder folder;
  std::string text = "x,y,kind\n";
  for (int i = 0; i < 200; ++i) {
    text += std::to_string(i % 7) + "," + std::to_string(i % 11) + "," + (i % 7 > 3 ? "high" : "low") + "\n";
  }
  test::write_file(folder / "t.csv", text);
  const auto outcome =
      run({"train", "--data", folder / "t.csv", "--json", "--optimizer", "adam", "--lr", "0.01"});
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_GE(std::stod(json_value(outcome.last_line(), "validation_accuracy")), 0.95);
  EXPECT_EQ(json_value(outcome.last_line(), "rmse"), "null");
}

TEST(YokeTrainTable, OneClassIsAnError) {
  const TemporaryFolder folder;
  const std::string data = folder / "t.csv";
  const auto error_of = [&](const std::string& text, const std::vector<std::string>& more) {
    test::write_file(data, text);
    const auto outcome = run(test::joined({"train", "--data", data, "--steps", "1"}, more));
    EXPECT_EQ(outcome.code, outcome.err.empty() ? 0 : 1);
    return outcome.err;
  };
  const std::string words = "x,y,kind\n1,3,low\n2,3,low\n";
  EXPECT_EQ(error_of(words, {}), "yoke: " + data +
                                     ": all rows have the same class in the column 'kind', 'low', so a model "
                                     "has nothing to learn; choose another column with --label\n");
  EXPECT_EQ(error_of(words, {"--label", "x", "--drop", "kind"}), "");
  const std::string numbers = "x,y\n1,3\n2,3\n";
  EXPECT_THAT(error_of(numbers, {"--task", "classification"}),
              HasSubstr("in the column 'y', '3', so a model"));
  EXPECT_EQ(error_of(numbers, {}), "") << "a regression";
  EXPECT_EQ(error_of("x,kind\n1,low\n2,high\n", {}), "");
}

TEST(YokeTrainTable, LabelsThatCouldBeClassesNameTheOption) {
  const TemporaryFolder folder;
  const std::string hint = "; to use the labels as classes, add --task classification\n";
  const auto error_of = [&](const std::string& text, const std::vector<std::string>& more = {}) {
    test::write_file(folder / "t.csv", text);
    return run(test::joined({"train", "--data", folder / "t.csv", "--steps", "1"}, more)).err;
  };
  const std::string commas = "x;y\n1;1,5\n2;2,5\n3;1,5\n";
  EXPECT_THAT(error_of(commas), AllOf(HasSubstr("'1,5' has a decimal comma"), HasSubstr(hint)));
  EXPECT_THAT(error_of("x,y\n1,2\n2,two\n3,2\n"), AllOf(HasSubstr("line 3"), HasSubstr(hint)));
  EXPECT_THAT(error_of(commas, {"--task", "regression"}), Not(HasSubstr(hint)));
  EXPECT_THAT(error_of("x,y\n1,2\nfour,1\n"), Not(HasSubstr(hint))) << "a feature";
  EXPECT_EQ(error_of(commas, {"--task", "classification"}), "");
}

TEST(YokeTrainTable, EndingsOfFilesHaveNoCase) {
  const TemporaryFolder folder;
  test::write_file(folder / "T.CSV", regression_table(",", true));
  const auto trained = run({"train", "--data", folder / "T.CSV", "--steps", "1", "--save", folder / "M.NPZ",
                            "--report", folder / "R.HTML"});
  ASSERT_EQ(trained.code, 0) << trained.err;
  EXPECT_EQ(load_npz(folder / "M.NPZ").size(), 4U);
  EXPECT_THAT(test::read_whole(folder / "R.HTML"), HasSubstr("<html"));
  ASSERT_EQ(run({"train", "--data", folder / "T.CSV", "--steps", "1", "--save", folder / "run"}).code, 0);
  const auto predicted =
      run({"predict", "--from", folder / "run", "--data", folder / "T.CSV", "--out", folder / "P.NPY"});
  ASSERT_EQ(predicted.code, 0) << predicted.err;
  EXPECT_EQ(load_npy(folder / "P.NPY").dims, (std::vector<std::uint64_t>{300}));
}

TEST(YokeTrainTable, MistakesAreErrors) {
  const TemporaryFolder folder;
  test::write_file(folder / "t.csv", "x,y\n1,2\n3,four\n");
  EXPECT_THAT(run({"train", "--data", folder / "t.csv", "--label", "x"}).err,
              HasSubstr("t.csv, line 3, column 'y': 'four' is not a finite number"));
  test::write_file(folder / "one.csv", "x,y\n1,2\n");
  EXPECT_THAT(run({"train", "--data", folder / "one.csv"}).err,
              HasSubstr("one.csv has only one row; training and testing need at least 2"));
  EXPECT_THAT(run({"train", "--label", "x"}).err, HasSubstr("need --data with the file of a table"));
  EXPECT_THAT(run({"train", "--test-share", "0.5"}).err, HasSubstr("need --data with the file of a table"));
  test::write_file(folder / "names.txt", "emma\nolivia\n");
  EXPECT_THAT(run({"train", "--data", folder / "names.txt"}).err,
              HasSubstr("names.txt has one column, and so no features besides the label; to train on the "));
  test::write_file(folder / "iris.data", "5.1,3.5,setosa\n4.9,3.0,virginica\n");
  EXPECT_THAT(run({"train", "--data", folder / "iris.data"}).err,
              AllOf(HasSubstr("if commas separate the columns, rename the file to end in .csv\n"),
                    Not(HasSubstr("characters of a text"))));
  test::write_file(folder / "prose.txt", "First Citizen:\nBefore we proceed any further, hear me speak.\n");
  EXPECT_THAT(
      run({"train", "--data", folder / "prose.txt"}).err,
      AllOf(HasSubstr("prose.txt, line 2: it has 8 fields, but the first line has 2; correct one of them"),
            HasSubstr("; to train on the characters of a text, add --model")));
  for (const std::string of_a_table : {"--label=0", "--task=classification", "--drop=0"}) {
    EXPECT_THAT(run({"train", "--data", folder / "prose.txt", of_a_table}).err,
                AllOf(HasSubstr("prose.txt"), Not(HasSubstr("characters of a text"))));
  }
  test::write_file(folder / "t.txt", "x y\n1 2\n3 four\n5 6\n");
  EXPECT_THAT(run({"train", "--data", folder / "t.txt"}).err,
              AllOf(HasSubstr("t.txt, line 3"), Not(HasSubstr("--model"))));
  test::write_file(folder / "t.xyz", "x,y\n1,2\n");
  EXPECT_THAT(
      run({"train", "--data", folder / "t.xyz"}).err,
      HasSubstr("t.xyz is neither a folder of images nor, by its name, a table; the name of a table ends"));
  EXPECT_EQ(run({"train", "--split", "1"}).code, 2);
  EXPECT_EQ(run({"train", "--task", "guess"}).code, 2);
  EXPECT_THAT(run({"train", "--schedule", "cosin"}).err, HasSubstr("--schedule: unknown kind 'cosin'"));
}

}  // namespace
}  // namespace yoke
