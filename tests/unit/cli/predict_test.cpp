// SPDX-License-Identifier: Apache-2.0
// tests/unit/cli/predict_test.cpp: yoke predict prepares data as the training did, and refuses what does not fit.
#include <gmock/gmock.h>
#include <yoke/npz.h>
#include <zlib.h>

#include <nlohmann/json.hpp>
#include <sstream>

#include "words.h"

namespace yoke {
namespace {

using test::joined;
using test::json_of;
using test::run;
using test::TemporaryFolder;
using test::write_file;
using ::testing::AllOf;
using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;
using Json = nlohmann::json;

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) {
    lines.push_back(line);
  }
  return lines;
}

// Rows `begin` to `end` - 1 of tables with a regression, in the order of the columns that is asked for.
std::string regression(int begin, int end) {
  std::string text = "a,b,y\n";
  for (int i = begin; i < end; ++i) {
    text += std::to_string(i % 17) + "," + std::to_string(1000 + i % 23) + "," +
            std::to_string(100 + 20 * (i % 17) - 10 * (i % 23)) + "\n";
  }
  return text;
}

std::string classes(int begin, int end) {
  std::string text = "x,y,kind\n";
  for (int i = begin; i < end; ++i) {
    text += std::to_string(i % 7) + "," + std::to_string(i % 11) + "," +
            (i % 7 > 3 ? "\"very, high\"" : "low") + "\n";
  }
  return text;
}

// A file of one split, whose test rows are the last tenth.
std::string in_order(int count) {
  std::string text;
  for (int i = 0; i < count; ++i) {
    text += std::to_string(i) + " ";
  }
  return text + "\n";
}

// Writes checkpoint.json with another note; null removes it. The name of the checksum is that of the file's format.
void write_with_note(const std::filesystem::path& file, Json checkpoint, const std::string& name,
                     const Json& value) {
  if (value.is_null()) {
    checkpoint["notes"].erase(name);
  } else {
    checkpoint["notes"][name] = value;
  }
  checkpoint.erase("crc32");
  const std::string text = checkpoint.dump();
  checkpoint["crc32"] = crc32_z(0, reinterpret_cast<const unsigned char*>(text.data()), text.size());
  write_file(file, checkpoint.dump());
}

// The folder of checkpoints is "run"; test rows are written apart.
class YokePredict : public ::testing::Test {
 protected:
  Json train_table(const std::string& all, int count) {
    write_file(folder_ / "all.csv", all);
    write_file(folder_ / "split.txt", in_order(count));
    return json_of({"train", "--data", folder_ / "all.csv", "--splits", folder_ / "split.txt", "--save",
                    folder_ / "run", "--optimizer", "adam", "--lr", "0.01", "--epochs", "10"});
  }
  std::vector<std::string> predict(const std::string& data) const {
    return {"predict", "--from", folder_ / "run", "--data", folder_ / data};
  }

  TemporaryFolder folder_;
};

TEST_F(YokePredict, RegressionHasTheRmseOfTheTraining) {
  const Json trained = train_table(regression(0, 300), 300);
  write_file(folder_ / "test.csv", regression(270, 300));
  const Json predicted = json_of(joined(predict("test.csv"), {"--out", folder_ / "p.npy"}));
  EXPECT_EQ(predicted["predictions"], 30);
  EXPECT_NEAR(predicted["rmse"].get<double>(), trained["rmse"].get<double>(), 1e-3);
  EXPECT_NEAR(predicted["loss"].get<double>(), trained["validation_loss"].get<double>(), 1e-5);
  EXPECT_TRUE(predicted["accuracy"].is_null());
  EXPECT_EQ(predicted["step"], 90);
  EXPECT_THAT(run(predict("test.csv")).err, ContainsRegex(", rmse [0-9.]{1,6}\n"));  // as training prints it
  // Without labels, and with the columns in another order.
  write_file(folder_ / "bare.csv", "b,a\n1003,5\n1022,0\n");
  const auto bare = run(predict("bare.csv"));
  ASSERT_EQ(bare.code, 0) << bare.err;
  const auto lines = lines_of(bare.out);
  ASSERT_EQ(lines.size(), 3U);
  EXPECT_EQ(lines[0], "prediction");
  EXPECT_GT(std::stod(lines[1]), std::stod(lines[2]) + 100);  // 170 and -120
  EXPECT_THAT(bare.err, AllOf(HasSubstr("mlp:50 after step 90: 2 predictions"), Not(HasSubstr("rmse"))));
  EXPECT_EQ(load_npy(folder_ / "p.npy").dims, (std::vector<std::uint64_t>{30}));
}

TEST_F(YokePredict, ColumnsWithoutNamesAreFoundByNumber) {
  const std::string named = regression(0, 300);
  const Json trained = train_table(named.substr(named.find('\n') + 1), 300);
  write_file(folder_ / "test.csv", regression(270, 300));
  const Json predicted = json_of(predict("test.csv"));
  EXPECT_NEAR(predicted["rmse"].get<double>(), trained["rmse"].get<double>(), 1e-3);
  write_file(folder_ / "texts.csv", "a,b,y\n1,one,3\n");
  EXPECT_THAT(run(predict("texts.csv")).err, HasSubstr("line 2, column 'b': 'one' is not a finite number"));
}

TEST_F(YokePredict, NumberOfColumnsWithoutNamesIsThatOfTheTraining) {
  const std::string named = classes(0, 300);
  train_table(named.substr(named.find('\n') + 1), 300);
  const std::string wanted =
      ", but the model was trained on a table of 3 columns without a header, with the label in the last one; "
      "give 3 columns, or 2 without the label\n";
  for (const auto& [text, count] : {std::pair("1,2,3,low\n", "4 columns"),
                                    {"low,1,2,low\n", "4 columns"},
                                    {"a,b,c,kind\n1,2,3,low\n", "4 columns"},
                                    {"1\n", "1 column"}}) {
    write_file(folder_ / "t.csv", text);
    EXPECT_THAT(run(predict("t.csv")).err, HasSubstr(std::string("t.csv has ") + count + wanted)) << text;
  }
  for (const char* text : {"1,2,low\n", "1,2\n", ",2,0,1\n0,low,1,2\n"}) {  // the last has their names
    write_file(folder_ / "t.csv", text);
    EXPECT_EQ(run(predict("t.csv")).err.substr(0, 6), "mlp:50") << text;
  }
}

TEST_F(YokePredict, LabelThatIsNotTheLastColumnIsNamed) {
  write_file(folder_ / "t.csv", "1,2,3\n3,4,5\n5,6,8\n");
  const std::vector<std::string> words = {"train",        "--data", folder_ / "t.csv", "--label", "0",
                                          "--drop",       "1",      "--epochs",        "1",       "--save",
                                          folder_ / "run"};
  ASSERT_EQ(run(words).code, 0);
  EXPECT_EQ(run(predict("t.csv")).code, 0);
  write_file(folder_ / "t.csv", "2,3\n4,5\n");
  EXPECT_THAT(run(predict("t.csv")).err,
              HasSubstr("t.csv has 2 columns, but the model was trained on a table of 3 columns without a "
                        "header, with the label in column 0; give 3 columns\n"));
}

// Checkpoints of older versions do not have the number of columns of a table.
TEST_F(YokePredict, CheckpointWithoutTheNumberOfColumnsIsUsedAsBefore) {
  const std::string named = classes(0, 300);
  write_file(folder_ / "t.csv", named.substr(named.find('\n') + 1));
  const std::vector<std::string> words = {"train", "--data", folder_ / "t.csv", "--save", folder_ / "run"};
  ASSERT_EQ(run(joined(words, {"--epochs", "1"})).code, 0);
  const std::filesystem::path file = folder_ / "run/latest/checkpoint.json";
  const Json checkpoint = Json::parse(test::read_whole(file));
  Json data = Json::parse(checkpoint["notes"]["data"].get<std::string>());
  EXPECT_EQ(data["column_count"], 3);
  data["column_count"] = 0;
  write_with_note(file, checkpoint, "data", data.dump());
  write_file(folder_ / "more.csv", "1,2,low,3\n");
  EXPECT_EQ(run(predict("more.csv")).code, 0);
  const auto resumed = run(joined(words, {"--epochs", "2", "--resume"}));
  EXPECT_EQ(resumed.code, 0) << resumed.err;
  EXPECT_EQ(run(predict("more.csv")).code, 1) << "the new checkpoint has the number";
}

TEST_F(YokePredict, ColumnsWithBlankNamesAreToldApart) {
  const auto unnamed = [](const std::string& table) { return ",," + table.substr(table.find('y')); };
  const Json trained = train_table(unnamed(regression(0, 300)), 300);
  write_file(folder_ / "test.csv", unnamed(regression(270, 300)));
  EXPECT_NEAR(json_of(predict("test.csv"))["rmse"].get<double>(), trained["rmse"].get<double>(), 1e-3);
}

// Checkpoints of older versions have blank names.
TEST_F(YokePredict, CheckpointWithABlankNameIsUsedAsBefore) {
  write_file(folder_ / "t.csv", "x, ,kind\n1,2,low\n3,4,high\n5,6,low\n");
  const std::vector<std::string> words = {"train", "--data", folder_ / "t.csv", "--save", folder_ / "run"};
  ASSERT_EQ(run(joined(words, {"--epochs", "1"})).code, 0);
  const std::filesystem::path file = folder_ / "run/latest/checkpoint.json";
  const Json checkpoint = Json::parse(test::read_whole(file));
  Json data = Json::parse(checkpoint["notes"]["data"].get<std::string>());
  EXPECT_EQ(data["columns"], Json::array({"x", "unnamed 1"}));
  data["columns"][1] = " ";
  write_with_note(file, checkpoint, "data", data.dump());
  EXPECT_EQ(run(predict("t.csv")).code, 0);
  const auto resumed = run(joined(words, {"--epochs", "2", "--resume"}));
  EXPECT_EQ(resumed.code, 0) << resumed.err;
}

TEST_F(YokePredict, ClassesHaveTheirNamesAndProbabilities) {
  const Json trained = train_table(classes(0, 300), 300);
  write_file(folder_ / "test.csv", classes(270, 300));
  const Json predicted = json_of(joined(predict("test.csv"), {"--out", folder_ / "p.csv"}));
  EXPECT_NEAR(predicted["accuracy"].get<double>(), trained["validation_accuracy"].get<double>(), 1e-9);
  EXPECT_NEAR(predicted["loss"].get<double>(), trained["validation_loss"].get<double>(), 1e-5);
  EXPECT_TRUE(predicted["rmse"].is_null());
  const auto lines = lines_of(test::read_whole(folder_ / "p.csv"));
  ASSERT_EQ(lines.size(), 31U);
  EXPECT_EQ(lines[0], "prediction,probability");
  EXPECT_THAT(lines[1], StartsWith(270 % 7 > 3 ? "\"very, high\",0." : "low,0."));
  ASSERT_EQ(run(joined(predict("test.csv"), {"--out", folder_ / "p.npy"})).code, 0);
  const NamedArray all = load_npy(folder_ / "p.npy");
  EXPECT_EQ(all.dims, (std::vector<std::uint64_t>{30, 2}));
  const auto values = test::values_of<float>(all.bytes);
  EXPECT_NEAR(values[0] + values[1], 1, 1e-6);
  EXPECT_NEAR(std::max(values[0], values[1]), std::stod(lines[1].substr(lines[1].rfind(',') + 1)), 1e-6);

  write_file(folder_ / "other.csv", "x,y,kind\n1,2,medium\n3,4,low\n");
  EXPECT_THAT(run(predict("other.csv")).err,
              HasSubstr("other.csv, line 2, column 'kind': the model has no class 'medium'"));
  write_file(folder_ / "less.csv", "x,z\n1,2\n");
  EXPECT_THAT(run(predict("less.csv")).err, HasSubstr("less.csv has no column 'y'; it has 'x', 'z'"));
  EXPECT_THAT(run(predict("run")).err,
              HasSubstr("run is a folder, but the model was trained on a table; give "));
  write_file(folder_ / "test", classes(270, 300));
  EXPECT_THAT(run(predict("test")).err,
              HasSubstr("test does not have the name of a table, which ends in .csv, "));
}

TEST_F(YokePredict, ImagesAreScaledAsInTheTraining) {
  std::string pixels;
  std::vector<std::uint8_t> labels;
  for (int i = 0; i < 60; ++i) {
    labels.push_back(static_cast<std::uint8_t>(i % 3));
    for (int p = 0; p < 16; ++p) {
      pixels += static_cast<char>(p % 3 == i % 3 ? 200 + i % 5 : 3 * p);
    }
  }
  const std::filesystem::path data = folder_ / "images";
  std::filesystem::create_directory(data);
  for (const std::string part : {"train", "t10k"}) {
    write_file(data / (part + "-images-idx3-ubyte"), test::idx_images(60, 4, 4, pixels));
    write_file(data / (part + "-labels-idx1-ubyte"), test::idx_labels(labels));
  }
  const Json trained = json_of({"train", "--data", data, "--model", "mlp:8", "--epochs", "3", "--batch", "20",
                                "--save", folder_ / "run"});
  const Json predicted = json_of(predict("images"));
  EXPECT_NEAR(predicted["loss"].get<double>(), trained["validation_loss"].get<double>(), 1e-5);
  EXPECT_EQ(predicted["predictions"], 60);
  const Json bare = json_of(predict("images/train-images-idx3-ubyte"));
  EXPECT_TRUE(bare["loss"].is_null());
  write_file(folder_ / "small", test::idx_images(1, 2, 2, "1234"));
  EXPECT_THAT(run(predict("small")).err, HasSubstr("images of 2 x 2 pixels, but the model needs 4 x 4"));
  write_file(folder_ / "t.csv", "1,2\n");
  EXPECT_THAT(run(predict("t.csv")).err,
              AllOf(HasSubstr("t.csv"),
                    HasSubstr("; the model was trained on images, and this is the name of a table\n")));
}

TEST_F(YokePredict, TextHasTheLossOfTheTraining) {
  std::string text;
  for (int i = 0; i < 300; ++i) {
    text += i % 3 == 0 ? "hello\n" : "world\n";
  }
  write_file(folder_ / "all.txt", text);
  write_file(folder_ / "tail.txt", text.substr(text.size() - text.size() / 10));
  for (const std::string model : {"char-bigram:context=8", "char-mlp:context=3,hidden=8"}) {
    std::filesystem::remove_all(folder_ / "run");
    const Json trained = json_of({"train", "--data", folder_ / "all.txt", "--model", model, "--steps", "30",
                                  "--lr", "1", "--save", folder_ / "run"});
    const Json predicted = json_of(predict("tail.txt"));
    EXPECT_NEAR(predicted["loss"].get<double>(), trained["validation_loss"].get<double>(), 1e-5) << model;
    EXPECT_NEAR(predicted["perplexity"].get<double>(), trained["perplexity"].get<double>(), 1e-4) << model;
  }
  write_file(folder_ / "unknown.txt", "hello\nworld?\n");
  EXPECT_THAT(run(predict("unknown.txt")).err,
              HasSubstr("has byte 63, a character that is not in the training text"));
  EXPECT_THAT(run(predict("run")).err,
              HasSubstr("run is a folder, but the model was trained on a text; give "));
}

TEST_F(YokePredict, HalfMoonsPredictPoints) {
  ASSERT_EQ(run({"train", "--epochs", "5", "--save", folder_ / "run"}).code, 0);
  write_file(folder_ / "points.csv", "0,1\n1,-0.5\n");
  const auto outcome = run(predict("points.csv"));
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  const auto lines = lines_of(outcome.out);
  ASSERT_EQ(lines.size(), 3U);
  EXPECT_THAT(lines[1], StartsWith("0,"));
  EXPECT_THAT(lines[2], StartsWith("1,"));
}

TEST_F(YokePredict, NanHasNoSign) {
  ASSERT_EQ(run({"train", "--epochs", "1", "--lr", "1e38", "--save", folder_ / "run"}).code, 0);
  write_file(folder_ / "points.csv", "0,1\n");
  EXPECT_EQ(run(predict("points.csv")).out, "prediction,probability\n0,nan\n");
}

TEST_F(YokePredict, WrongUseIsAnError) {
  write_file(folder_ / "t.csv", classes(0, 30));
  EXPECT_EQ(run({"predict"}).code, 2);
  EXPECT_EQ(run({"predict", "--from", folder_ / "run"}).code, 2);
  EXPECT_THAT(run({"predict", "--data", folder_ / "t.csv"}).err, HasSubstr("--from is missing"));
  EXPECT_THAT(run({"predict", "--from", "a", "--data", "t.csv", "--out", "./t.csv"}).err,
              HasSubstr("--out ./t.csv would replace the file of --data; give another file"));
  EXPECT_EQ(run(joined(predict("t.csv"), {"--out", "p.txt"})).code, 2);
  const auto none = run(predict("t.csv"));
  EXPECT_EQ(none.code, 1);
  EXPECT_THAT(none.err, HasSubstr(" has no checkpoint"));
  ASSERT_EQ(run({"train", "--data", folder_ / "t.csv", "--epochs", "1", "--save", folder_ / "run"}).code, 0);
  EXPECT_THAT(run(joined(predict("t.csv"), {"--backend", "nothing"})).err, HasSubstr("'nothing'"));
  EXPECT_EQ(run(joined(predict("t.csv"), {"--option", "wrong=1"})).code, 2);
  EXPECT_THAT(run(joined(predict("t.csv"), {"--out", folder_ / "none/p.csv"})).err, HasSubstr("p.csv"));
  EXPECT_THAT(run(predict("none.csv")).err, HasSubstr("none.csv"));
}

TEST_F(YokePredict, DamagedAndHostileCheckpointsAreOneSentence) {
  write_file(folder_ / "t.csv", classes(0, 30));
  ASSERT_EQ(run({"train", "--data", folder_ / "t.csv", "--epochs", "1", "--save", folder_ / "run"}).code, 0);
  const std::filesystem::path file = folder_ / "run/latest/checkpoint.json";
  const Json good = Json::parse(test::read_whole(file));
  const auto with_note = [&](const std::string& name, const Json& value) {
    write_with_note(file, good, name, value);
    const auto outcome = run(predict("t.csv"));
    EXPECT_EQ(outcome.code, 1) << name << value;
    EXPECT_EQ(test::line_count(outcome.err), 1U) << outcome.err;
    return outcome.err;
  };
  const auto with_data = [&](const std::string& key, const Json& value) {
    Json data = Json::parse(good["notes"]["data"].get<std::string>());
    data[key] = value;
    return with_note("data", data.dump());
  };
  EXPECT_THAT(with_note("data", nullptr), HasSubstr("has no note 'data'"));
  EXPECT_THAT(with_note("data", "{}"), HasSubstr("the note 'data' is damaged"));
  EXPECT_THAT(with_note("data", std::string(100000, '[')), HasSubstr("the note 'data' is damaged"));
  EXPECT_THAT(with_data("outputs", -1), HasSubstr("the note 'data' is damaged"));
  EXPECT_THAT(with_data("outputs", 1000000000), HasSubstr("the note 'data' is damaged"));
  EXPECT_THAT(with_data("deviations", Json::array({0, 1})), HasSubstr("the note 'data' is damaged"));
  EXPECT_THAT(with_data("column_count", 2), HasSubstr("the note 'data' is damaged"));
  EXPECT_THAT(with_data("means", Json::array({1})), HasSubstr("the note 'data' is damaged"));
  EXPECT_THAT(with_data("kind", "sound"), HasSubstr("the note 'data' is damaged"));
  EXPECT_THAT(with_data("outputs", 3), HasSubstr("'2.weight'"));
  EXPECT_THAT(with_note("model", "mlp:1000000"), HasSubstr("'0.weight'"));
  EXPECT_THAT(with_note("model", "mlp:50-50"), HasSubstr("which has '4.weight'"));
  EXPECT_THAT(with_note("model", "gpt:layers=65536"), HasSubstr("is unknown, or does not fit the data"));
  EXPECT_THAT(with_note("model", "lenet"), HasSubstr("is unknown, or does not fit the data"));
  EXPECT_THAT(with_note("model", "nothing"), HasSubstr("is unknown, or does not fit the data"));
  write_file(file, "{");
  EXPECT_THAT(run(predict("t.csv")).err, HasSubstr("it is not a JSON object"));
  std::filesystem::remove_all(folder_ / "run/latest/weights.safetensors");
  write_file(file, good.dump());
  EXPECT_THAT(run(predict("t.csv")).err, HasSubstr("the file is missing"));
}

}  // namespace
}  // namespace yoke
