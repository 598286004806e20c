// SPDX-License-Identifier: Apache-2.0
// tests/unit/cli/train_test.cpp: yoke train learns, reports and saves.
#include <gmock/gmock.h>
#include <yoke/npz.h>

#include <cmath>

#include "command.h"

namespace yoke {
namespace {

using test::json_value;
using test::run;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

TEST(YokeTrain, DefaultsToHalfMoons) {
  const auto outcome = run({"train", "--epochs", "3"});
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_THAT(
      outcome.out,
      AllOf(StartsWith("no --data: training on generated half-moons"), HasSubstr(" shard"),
            HasSubstr("epoch 1/3: loss "), HasSubstr("epoch 3/3: loss "), HasSubstr("test accuracy"),
            HasSubstr("examples/s"), HasSubstr("time: "), HasSubstr("compile"), HasSubstr("evaluation")));
  EXPECT_THAT(outcome.out, Not(HasSubstr("\r")));  // no progress line, because there is no terminal
  EXPECT_EQ(outcome.err, "");
}

TEST(YokeTrain, JsonIsTheOnlyLineOnStandardOutput) {
  const auto outcome = run({"train", "--epochs", "20", "--json", "--seed", "4", "--shards", "3", "--merge",
                            "tree", "--placement", "everywhere", "--overlap", "on"});
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_EQ(test::line_count(outcome.out), 1U);
  const std::string json = outcome.last_line();
  EXPECT_THAT(json, AllOf(StartsWith("{\"backend\":\"cc\""), EndsWith("}")));
  EXPECT_EQ(json_value(json, "shards"), "3");
  EXPECT_EQ(json_value(json, "merge"), "\"tree\"");
  EXPECT_EQ(json_value(json, "placement"), "\"everywhere\"");
  EXPECT_EQ(json_value(json, "overlap"), "true");
  EXPECT_EQ(json_value(json, "epochs"), "20");
  EXPECT_EQ(json_value(json, "steps"), "2000");
  EXPECT_EQ(json_value(json, "seed"), "4");
  EXPECT_EQ(json_value(json, "stopped"), "false");
  EXPECT_EQ(json_value(json, "saved"), "null");
  EXPECT_GT(std::stod(json_value(json, "test_accuracy")), 0.98);
  EXPECT_LT(std::stod(json_value(json, "test_loss")), 0.1);
  EXPECT_GT(std::stod(json_value(json, "train_loss")), 0);
  EXPECT_GT(std::stod(json_value(json, "examples_per_second")), 0);
  EXPECT_GT(std::stod(json_value(json, "seconds")), 0);
  EXPECT_THAT(json, HasSubstr(R"("memory":[{"device":"cc:0","parameters":)"));
  EXPECT_THAT(outcome.err, HasSubstr("epoch 20/20"));
}

TEST(YokeTrain, ReproducibleRunsGiveTheSameLossForEveryNumberOfShards) {
  std::string loss;
  for (const std::string shards : {"1", "2", "4"}) {
    const auto outcome =
        run({"train", "--epochs", "1", "--json", "--shards", shards, "--reproducible", "4", "--batch", "30"});
    ASSERT_EQ(outcome.code, 0) << outcome.err;
    EXPECT_EQ(json_value(outcome.last_line(), "reproducible"), "4");
    loss = loss.empty() ? json_value(outcome.last_line(), "train_loss") : loss;
    EXPECT_EQ(json_value(outcome.last_line(), "train_loss"), loss) << shards << " shards";
  }
  const auto refused = run({"train", "--shards", "3", "--reproducible", "4"});
  EXPECT_EQ(refused.code, 2);
  EXPECT_THAT(refused.err, HasSubstr("--reproducible 4 needs a number of shards that divides it"));
}

TEST(YokeTrain, OnDeviceLostTakesFailOrRedistribute) {
  const auto outcome =
      run({"train", "--epochs", "3", "--json", "--shards", "2", "--on-device-lost", "redistribute"});
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_THAT(outcome.out, HasSubstr("\"lost_shards\":[]"));
  EXPECT_GT(std::stod(json_value(outcome.last_line(), "test_accuracy")), 0.8);
  const auto refused = run({"train", "--on-device-lost", "ignore"});
  EXPECT_EQ(refused.code, 2);
  EXPECT_THAT(refused.err, HasSubstr("--on-device-lost: unknown reaction to a lost device 'ignore'; use fail "
                                     "or redistribute"));
}

TEST(YokeTrain, AccumulateTrainsInMicroBatches) {
  const auto outcome = run({"train", "--epochs", "20", "--json", "--accumulate", "3"});
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_EQ(json_value(outcome.last_line(), "accumulate"), "3");
  EXPECT_EQ(json_value(outcome.last_line(), "steps"), "2000");
  EXPECT_GT(std::stod(json_value(outcome.last_line(), "test_accuracy")), 0.98);
}

TEST(YokeTrain, RowWeightsDivideTheBatches) {
  const auto given = run({"train", "--epochs", "20", "--json", "--row-weights", "3,1"});
  EXPECT_EQ(given.code, 0) << given.err;
  EXPECT_EQ(json_value(given.last_line(), "shards"), "2");
  EXPECT_THAT(given.last_line(), HasSubstr("\"row_weights\":[3,1]"));
  EXPECT_THAT(given.err, HasSubstr(", row weights 3,1,"));
  const std::vector<std::string> mixed = {"train",       "--epochs",      "1",       "--json", "--backend",
                                          "cc:2,null:1", "--row-weights", "measured"};
  std::string report;  // null computes nothing, and that fast; on a busy machine, it may be interrupted
  for (int attempt = 0; attempt < 5 && report.find(",1000],") == report.npos; ++attempt) {
    report = run(mixed).last_line();
  }
  EXPECT_THAT(report, HasSubstr(",1000],"));
}

TEST(YokeTrain, UnknownPlacementsAreUsageErrors) {
  const auto outcome = run({"train", "--placement", "middle"});
  EXPECT_EQ(outcome.code, 2);
  EXPECT_THAT(outcome.err,
              HasSubstr("--placement: unknown placement of the update 'middle'; use auto, owner, "
                        "everywhere or sharded"));
}

TEST(YokeTrain, StrictSucceedsOnABackendThatRunsEverything) {
  const auto outcome = run({"train", "--epochs", "1", "--strict", "--json"});
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_THAT(outcome.last_line(), HasSubstr("\"fallbacks\":[]"));
  EXPECT_THAT(outcome.err, Not(HasSubstr("fallback")));
}

TEST(YokeTrain, DeviceOptionsAreAppliedAndReported) {
  const auto outcome =
      run({"train", "--epochs", "1", "--json", "--option", "threads=2", "--option=kernels=plain"});
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_THAT(outcome.last_line(), HasSubstr(R"("device_options":["threads=2","kernels=plain"])"));
}

TEST(YokeTrain, SeedDeterminesTheResult) {
  const auto losses = [](const std::string& seed) {
    const std::string json = run({"train", "--epochs", "2", "--json", "--seed", seed}).last_line();
    return json_value(json, "train_loss") + " " + json_value(json, "test_loss");
  };
  const std::string first = losses("1");
  EXPECT_EQ(losses("1"), first);
  EXPECT_NE(losses("2"), first);
}

TEST(YokeTrain, EveryOptimizerOptionIsAccepted) {
  const auto outcome =
      run({"train", "--epochs",    "2",    "--json",     "--model", "mlp:8-4",    "--batch",
           "50",    "--lr",        "0.05", "--momentum", "0.9",     "--nesterov", "--weight-decay",
           "1e-4",  "--reduction", "sum",  "--shards",   "2",       "--backend",  "cc"});
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_EQ(json_value(outcome.out, "steps"), "80");
  EXPECT_EQ(json_value(outcome.out, "reduction"), "\"sum\"");
}

// Weights that are clipped to almost nothing do not move; biases without decay do not shrink.
TEST(YokeTrain, ClipsGradientsAndExemptsParametersFromDecay) {
  const test::TemporaryFolder folder;
  const auto saved = [&](const std::vector<std::string>& more) {
    std::vector<std::string> words = {"train",  "--epochs", "1",      "--model",       "mlp:5",
                                      "--seed", "3",        "--save", folder / "a.npz"};
    words.insert(words.end(), more.begin(), more.end());
    const auto outcome = run(words);
    EXPECT_EQ(outcome.code, 0) << outcome.err;
    return load_npz(folder / "a.npz");
  };
  const auto start = saved({"--clip", "value:1e-60", "--lr", "1e-30"});
  for (const char* shards : {"1", "2"}) {
    for (const char* limit : {"1e-60", "norm:1e-60", "value:1e-60"}) {
      const auto clipped = saved({"--clip", limit, "--shards", shards});
      for (std::size_t i = 0; i < start.size(); ++i) {
        EXPECT_EQ(clipped[i].bytes, start[i].bytes) << limit << ", " << start[i].name;
      }
      const auto decayed = saved({"--clip", limit, "--weight-decay", "0.5", "--no-decay", "*bias"});
      for (std::size_t i = 0; i < start.size(); ++i) {
        EXPECT_EQ(decayed[i].bytes == start[i].bytes, start[i].name.ends_with("bias")) << start[i].name;
      }
    }
    EXPECT_NE(saved({"--clip", "1e30", "--shards", shards})[0].bytes, start[0].bytes);
  }
}

TEST(YokeTrain, PatternsWithoutDecayThatMatchNothingAreAWarning) {
  const test::TemporaryFolder folder;
  const auto saved = [&](const std::string& patterns, const std::string& warning) {
    const auto outcome = run({"train", "--steps", "3", "--weight-decay", "0.5", "--no-decay", patterns,
                              "--save", folder / "a.npz"});
    EXPECT_EQ(outcome.code, 0) << outcome.err;
    EXPECT_EQ(outcome.err, warning);
    return test::read_whole(folder / "a.npz");
  };
  const std::string plain = saved("*bias", "");
  EXPECT_EQ(saved("*bias,*norm*,*.bias",
                  "yoke: warning: --no-decay: no parameter of --model mlp:16-16 matches "
                  "'*norm*'; its parameters are 0.weight, 0.bias, 2.weight, 2.bias, "
                  "4.weight, 4.bias\n"),
            plain);
  const auto refused =
      run({"train", "--weight-decay", "0.5", "--no-decay", "*norm*,bias", "--model", "mlp:9-9-9"});
  EXPECT_EQ(refused.code, 2);
  EXPECT_EQ(refused.err,
            "yoke: --no-decay: no parameter of --model mlp:9-9-9 matches '*norm*' or 'bias'; its "
            "parameters are 0.weight, 0.bias, 2.weight, 2.bias, 4.weight, 4.bias and 2 more\n");
  std::string text;
  for (int i = 0; i < 200; ++i) {
    text += "hello world\n";
  }
  test::write_file(folder / "t.txt", text);
  const auto outcome =
      run({"train", "--data", folder / "t.txt", "--model", "gpt:layers=1,heads=1,width=8,context=4",
           "--steps", "1", "--optimizer", "adamw", "--no-decay", "*bias,*norm*"});
  EXPECT_EQ(outcome.code, 0);
  EXPECT_THAT(outcome.err, AllOf(HasSubstr("matches '*bias'; its parameters are embedding.weight, "),
                                 HasSubstr(" and 5 more\n")));
}

TEST(YokeTrain, EveryOptimizerLearnsWithItsDefaults) {
  for (const std::string name : {"sgd", "adam", "adamw", "rmsprop", "adagrad", "lion", "lamb"}) {
    const auto outcome = run({"train", "--optimizer", name, "--json", "--shards", "2"});
    ASSERT_EQ(outcome.code, 0) << name << ": " << outcome.err;
    EXPECT_EQ(json_value(outcome.out, "optimizer"), "\"" + name + "\"");
    EXPECT_GT(std::stod(json_value(outcome.out, "test_accuracy")), 0.8) << name;
  }
}

TEST(YokeTrain, PrintedLossIsTheMeanForEveryReduction) {
  // With a batch of 3, one of the 4 shards has no rows.
  const auto loss = [](const std::string& reduction) {
    const auto outcome = run({"train", "--epochs", "1", "--json", "--lr", "1e-30", "--batch", "3", "--shards",
                              "4", "--reduction", reduction});
    EXPECT_EQ(outcome.code, 0) << outcome.err;
    return std::stod(json_value(outcome.out, "train_loss"));
  };
  const double of_mean = loss("mean");
  EXPECT_NEAR(loss("sum"), of_mean, 1e-5 * of_mean);
}

TEST(YokeTrain, SavesTheParametersByName) {
  const test::TemporaryFolder folder;
  const auto outcome = run({"train", "--epochs", "1", "--model", "mlp:7", "--save", folder / "a.npz"});
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_THAT(outcome.out, HasSubstr("saved the parameters to " + (folder / "a.npz").string()));
  const auto arrays = load_npz(folder / "a.npz");
  std::vector<std::string> names;
  for (const NamedArray& array : arrays) {
    names.push_back(array.name);
  }
  EXPECT_THAT(names, ElementsAre("0.weight", "0.bias", "2.weight", "2.bias"));
  EXPECT_THAT(arrays[0].dims, ElementsAre(7, 2));
}

TEST(YokeTrain, ImageSizeAndClassesComeFromTheFiles) {
  // Two classes of 2 x 2 images: bright at the top, and bright at the bottom.
  const test::TemporaryFolder folder;
  std::string pixels;
  std::vector<std::uint8_t> labels;
  for (unsigned i = 0; i < 40; ++i) {
    const bool top = i % 2 == 0;
    pixels += static_cast<char>(top ? 200 + i : i);
    pixels += static_cast<char>(top ? 180 + i : i);
    pixels += static_cast<char>(top ? i : 200 + i);
    pixels += static_cast<char>(top ? i : 180 + i);
    labels.push_back(top ? 0 : 1);
  }
  for (const std::string part : {"train", "t10k"}) {
    test::write_file(folder / (part + "-images-idx3-ubyte"), test::idx_images(40, 2, 2, pixels));
    test::write_file(folder / (part + "-labels-idx1-ubyte"), test::idx_labels(labels));
  }
  const auto outcome = run(
      {"train", "--data", folder.path(), "--batch", "12", "--epochs", "20", "--model", "mlp:4", "--json"});
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_THAT(outcome.err, HasSubstr("40 training and 40 test images of 2 x 2 pixels, 2 classes"));
  EXPECT_EQ(json_value(outcome.out, "test_accuracy"), "1.0");
  EXPECT_EQ(json_value(outcome.out, "steps"), "80");  // 12 + 12 + 12 + 4 rows
}

TEST(YokeTrain, LenetLearnsImages) {
  // 16 x 16 pixels, bright on the left or on the right.
  const test::TemporaryFolder folder;
  std::string pixels;
  std::vector<std::uint8_t> labels;
  for (unsigned i = 0; i < 32; ++i) {
    for (unsigned k = 0; k < 256; ++k) {
      const bool is_left = k % 16 < 8;
      pixels += static_cast<char>(is_left == (i % 2 == 0) ? 120 + i : (i * 31 + k * 7) % 60);
    }
    labels.push_back(static_cast<std::uint8_t>(i % 2));
  }
  for (const std::string part : {"train", "t10k"}) {
    test::write_file(folder / (part + "-images-idx3-ubyte"), test::idx_images(32, 16, 16, pixels));
    test::write_file(folder / (part + "-labels-idx1-ubyte"), test::idx_labels(labels));
  }
  const auto outcome = run({"train", "--data", folder.path(), "--batch", "16", "--epochs", "15", "--model",
                            "lenet", "--lr", "0.05", "--momentum", "0.9", "--shards", "2", "--json"});
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_EQ(json_value(outcome.out, "test_accuracy"), "1.0");
}

TEST(YokeTrain, AugmentationChangesImagesInTrainingAndDoesNotDependOnTheShards) {
  const test::TemporaryFolder folder;
  std::string pixels;
  std::vector<std::uint8_t> labels;
  for (unsigned i = 0; i < 24; ++i) {
    for (unsigned k = 0; k < 64; ++k) {
      pixels += static_cast<char>((i * 31 + k * k * 7) % 200);
    }
    labels.push_back(static_cast<std::uint8_t>(i % 2));
  }
  for (const std::string part : {"train", "t10k"}) {
    test::write_file(folder / (part + "-images-idx3-ubyte"), test::idx_images(24, 8, 8, pixels));
    test::write_file(folder / (part + "-labels-idx1-ubyte"), test::idx_labels(labels));
  }
  const auto losses = [&](const std::string& shards, const std::vector<std::string>& more) {
    std::vector<std::string> words = {"train", "--data",  folder.path(), "--batch",  "8",    "--epochs",
                                      "3",     "--model", "mlp:6",       "--shards", shards, "--json"};
    words.insert(words.end(), more.begin(), more.end());
    const auto outcome = run(words);
    EXPECT_EQ(outcome.code, 0) << outcome.err;
    return std::stod(json_value(outcome.out, "test_loss"));
  };
  const double one = losses("1", {"--augment", "flip,crop:2"});
  EXPECT_NEAR(losses("2", {"--augment", "flip,crop:2"}), one, 1e-5);  // sums of 64 f32 terms, 9 steps
  EXPECT_NE(losses("1", {}), one);
  EXPECT_NE(losses("1", {"--augment", "flip"}), one);
  for (const char* wrong : {"turn", "flip,flip", "crop", "crop:0", "crop:8", "flip,"}) {
    const auto outcome = run({"train", "--data", folder.path(), "--augment", wrong});
    EXPECT_EQ(outcome.code, 2) << wrong;
    EXPECT_THAT(outcome.err, HasSubstr("--augment")) << wrong;
  }
  EXPECT_THAT(run({"train", "--augment", "flip"}).err,
              HasSubstr("--augment needs images, but half-moons has none"));
}

TEST(YokeTrain, ModelsOfTextsLearnATextOfOneWord) {
  const test::TemporaryFolder folder;
  std::string text;
  for (int i = 0; i < 100; ++i) {
    text += "yokel ";
  }
  test::write_file(folder / "words.txt", text);
  const std::vector<std::vector<std::string>> models = {{"char-bigram:context=6", "5"},
                                                        {"char-mlp:hidden=16", "0.2"},
                                                        {"char-lstm:context=6,width=16", "1"},
                                                        {"gpt:context=6,layers=1,heads=2,width=16", "0.5"}};
  for (const std::vector<std::string>& model : models) {
    const auto outcome = run({"train", "--data", folder / "words.txt", "--batch", "8", "--steps", "120",
                              "--model", model[0], "--lr", model[1], "--shards", "2", "--json"});
    ASSERT_EQ(outcome.code, 0) << model[0] << ": " << outcome.err;
    EXPECT_THAT(outcome.err, HasSubstr("600 characters, 6 distinct; the last 60 are for testing"));
    EXPECT_EQ(json_value(outcome.out, "test_accuracy"), "1.0") << model[0];
    EXPECT_DOUBLE_EQ(std::stod(json_value(outcome.out, "perplexity")),
                     std::exp(std::stod(json_value(outcome.out, "test_loss"))));
  }
  test::write_file(folder / "not_ascii.txt", text + "na\xc3\xafve ");
  EXPECT_THAT(
      run({"train", "--data", folder / "not_ascii.txt", "--model", "char-bigram:context=2", "--steps", "1"})
          .out,
      HasSubstr("607 characters, 11 distinct (a character that is not ASCII counts once per byte)"));
  const auto outcome = run({"train", "--data", folder / "words.txt", "--model", "gpt:context=600"});
  EXPECT_EQ(outcome.code, 1);
  EXPECT_THAT(outcome.err,
              HasSubstr("the text has 600 characters, but --model gpt:context=600 needs at least 6,010"));
  EXPECT_THAT(run({"train", "--data", folder / "words.txt", "--model", "char-bigram"}).err,
              HasSubstr("needs at least 650: the last tenth is for testing; use a longer text, or a smaller "
                        "context, as with --model char-bigram:context=2\n"));
}

TEST(YokeTrain, LinesAreDividedInAnOrderOfTheSeed) {
  const test::TemporaryFolder folder;
  std::string text;
  for (int i = 0; i < 200; ++i) {
    text += i < 180 ? "abcdef\n" : "uvwxyz\n";  // the last tenth is different
  }
  test::write_file(folder / "lines.txt", text);
  const auto accuracy = [&](const std::vector<std::string>& more) {
    std::vector<std::string> words = {
        "train", "--data",  folder / "lines.txt", "--batch",  "16", "--steps", "400", "--lr",
        "0.5",   "--model", "char-mlp:hidden=16", "--shards", "2",  "--json"};
    words.insert(words.end(), more.begin(), more.end());
    const auto outcome = run(words);
    EXPECT_EQ(outcome.code, 0) << outcome.err;
    return std::stod(json_value(outcome.out, "test_accuracy"));
  };
  EXPECT_LT(accuracy({}), 0.5);
  EXPECT_GT(accuracy({"--lines"}), 0.9);
  const auto one_line = folder / "one.txt";
  test::write_file(one_line, std::string(100, 'a') + "b");
  EXPECT_THAT(run({"train", "--data", one_line, "--model", "char-mlp", "--lines"}).err,
              HasSubstr("--lines needs a text with several lines"));
  EXPECT_EQ(run({"train", "--lines"}).code, 2);
}

TEST(YokeTrain, FolderOfCheckpointsMayHaveTheNameOfACheckpoint) {
  const test::TemporaryFolder folder;
  for (const std::string name : {"step-12", "step-000000000012"}) {
    const std::string save = folder / name;
    ASSERT_EQ(run({"train", "--steps", "3", "--save", save}).code, 0);
    EXPECT_THAT(run({"train", "--steps", "5", "--save", save, "--resume"}).out,
                HasSubstr("resuming after step 3\n"));
    EXPECT_EQ(run({"train", "--steps", "1", "--load", save}).err, "");
  }
}

}  // namespace
}  // namespace yoke
