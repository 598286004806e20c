// SPDX-License-Identifier: Apache-2.0
// tests/unit/cli/train_resume_test.cpp: yoke train saves checkpoints and goes on from them: with the same bits,
// whenever it was killed.
#include <gmock/gmock.h>
#include <yoke/checkpoint.h>
#include <yoke/safetensors.h>

#include <random>
#include <thread>

#include "command.h"

namespace yoke {
namespace {

using test::Command;
using test::json_value;
using test::Outcome;
using test::run;
using test::TemporaryFolder;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

std::vector<std::string> joined(std::vector<std::string> words, const std::vector<std::string>& more) {
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

std::string weights_in(const std::filesystem::path& folder) {
  return test::read_whole(folder / "latest/weights.safetensors") +
         test::read_whole(folder / "latest/optimizer.safetensors");
}

const std::vector<std::string> kRun = {
    "train",   "--epochs", "8",         "--optimizer", "adamw", "--model",    "mlp:12",
    "--batch", "50",       "--shuffle", "--seed",      "5",     "--schedule", "cosine:warmup=10"};

TEST(YokeTrainResume, RunThatIsKilledAtRandomMomentsEndsWithTheSameBits) {
  constexpr int kKills = 20;
  const TemporaryFolder folder;
  std::vector<std::string> words = joined(kRun, {"--save-every", "1", "--keep", "2"});
  words[2] = "2";  // epochs
  const auto started = std::chrono::steady_clock::now();
  ASSERT_EQ(run(joined(words, {"--save", folder / "whole"})).code, 0);
  const std::chrono::duration<double> whole_run = std::chrono::steady_clock::now() - started;
  const std::string whole = weights_in(folder / "whole");
  ASSERT_FALSE(whole.empty());

  std::mt19937 random(41);
  int kills = 0;
  for (int attempt = 0; kills < kKills; ++attempt) {
    ASSERT_LT(attempt, 10 * kKills);
    const std::string save = folder / ("run" + std::to_string(attempt));
    bool is_done = false;
    while (!is_done) {
      // From before the first checkpoint to the end of the run.
      std::uniform_real_distribution<double> seconds(0, 0.7 * whole_run.count());
      Command command(joined(words, {"--save", save, "--resume"}));
      if (kills < kKills) {
        std::this_thread::sleep_for(std::chrono::duration<double>(seconds(random)));
        command.signal(SIGKILL);
      }
      const auto outcome = command.wait();
      is_done = outcome.code == 0;
      kills += is_done ? 0 : 1;
      ASSERT_THAT(outcome.code, ::testing::AnyOf(0, 128 + SIGKILL)) << outcome.err;
    }
    EXPECT_EQ(weights_in(save), whole) << "attempt " << attempt;
  }
}

TEST(YokeTrainResume, CheckpointsAreTakenEveryFewStepsAndTheLastOnesKept) {
  const TemporaryFolder folder;
  const auto outcome =
      run(joined(kRun, {"--save", folder / "c", "--save-every", "100", "--keep", "2", "--json"}));
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_EQ(json_value(outcome.last_line(), "saved"), "\"" + (folder / "c").string() + "\"");
  EXPECT_EQ(json_value(outcome.last_line(), "resumed_step"), "null");
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(folder / "c")) {
    names.push_back(entry.path().filename().string());
  }
  EXPECT_THAT(names, ::testing::UnorderedElementsAre("config.toml", "latest", "step-000000000300",
                                                     "step-000000000320"));
}

TEST(YokeTrainResume, OtherNumberOfShardsHasTheSameBitsIfReproducible) {
  const TemporaryFolder folder;
  const std::vector<std::string> same = joined(kRun, {"--reproducible", "4"});
  ASSERT_EQ(run(joined(same, {"--shards", "1", "--save", folder / "whole"})).code, 0);
  Command first(joined(same, {"--shards", "4", "--save", folder / "parts", "--save-every", "30"}));
  ASSERT_TRUE(first.wait_for_output("epoch 2/"));
  first.signal(SIGINT);
  ASSERT_EQ(first.wait().code, 0);
  const auto second = run(joined(same, {"--shards", "2", "--save", folder / "parts", "--resume", "--json"}));
  ASSERT_EQ(second.code, 0) << second.err;
  EXPECT_NE(json_value(second.last_line(), "resumed_step"), "null");
  EXPECT_EQ(json_value(second.last_line(), "steps"), "320");
  EXPECT_EQ(weights_in(folder / "parts"), weights_in(folder / "whole"));
}

TEST(YokeTrainResume, MixedPrecisionGoesOnWithTheSameBits) {
  const TemporaryFolder folder;
  for (const std::string precision : {"bf16", "f16"}) {
    const std::vector<std::string> words = {"train",  "--model", "mlp:12",      "--optimizer", "adamw",
                                            "--clip", "1",       "--precision", precision,     "--json"};
    const auto half = run(joined(words, {"--steps", "10", "--save", folder / precision}));
    ASSERT_EQ(half.code, 0) << half.err;
    const auto resumed = run(joined(words, {"--steps", "25", "--save", folder / precision, "--resume"}));
    ASSERT_EQ(resumed.code, 0) << resumed.err;
    ASSERT_EQ(run(joined(words, {"--steps", "25", "--save", folder / (precision + " whole")})).code, 0);
    EXPECT_EQ(weights_in(folder / precision), weights_in(folder / (precision + " whole")));
    EXPECT_THAT(resumed.err, HasSubstr("mlp:12 in " + precision + " on "));
    EXPECT_EQ(json_value(resumed.out, "precision"), '"' + precision + '"');
    EXPECT_EQ(json_value(resumed.out, "loss_scale"), precision == "f16" ? "65536.0" : "null");
    EXPECT_EQ(json_value(resumed.out, "skipped_steps"), "0");
    EXPECT_EQ(resumed.err.find("loss scale: 65536; 0 steps were skipped") != std::string::npos,
              precision == "f16");
    EXPECT_THAT(test::read_whole(folder / (precision + "/config.toml")),
                HasSubstr("precision = '" + precision + "'"));
    const auto other = run({"train", "--model", "mlp:12", "--optimizer", "adamw", "--clip", "1", "--steps",
                            "30", "--save", folder / precision, "--resume"});
    EXPECT_EQ(other.code, 1);
    EXPECT_THAT(other.err,
                HasSubstr("belongs to a run with --precision '" + precision + "', but this one has 'f32'"));
  }
  const auto wrong = run({"train", "--precision", "f64"});
  EXPECT_EQ(wrong.code, 2);
  EXPECT_THAT(wrong.err, HasSubstr("--precision: unknown precision 'f64'; use f32, bf16 or f16"));
}

TEST(YokeTrainResume, FinishedRunIsOnlyEvaluated) {
  const TemporaryFolder folder;
  const auto first = run(joined(kRun, {"--save", folder / "c", "--json"}));
  EXPECT_THAT(first.err, Not(HasSubstr("nothing is trained")));
  const auto again = run(joined(kRun, {"--save", folder / "c", "--resume", "--json"}));
  EXPECT_EQ(again.code, 0) << again.err;
  EXPECT_THAT(again.err,
              HasSubstr("resuming after step 320\nnothing is trained, because the run ends after step 320; "
                        "the rates of --schedule cosine:warmup=10 depend on this number; to train further, "
                        "start from its parameters with --load and another --save\n"));
  EXPECT_EQ(json_value(again.last_line(), "test_loss"), json_value(first.last_line(), "test_loss"));
  EXPECT_EQ(json_value(again.last_line(), "resumed_step"), "320");
  EXPECT_THAT(first.err, HasSubstr("saved checkpoints to "));
  EXPECT_THAT(again.err, Not(HasSubstr("saved checkpoints to ")));
}

TEST(YokeTrainResume, RunThatAsksForFewerStepsSaysSo) {
  const TemporaryFolder folder;
  ASSERT_EQ(run({"train", "--steps", "9", "--save", folder / "c"}).code, 0);
  const auto fewer = run({"train", "--steps", "5", "--save", folder / "c", "--resume"});
  EXPECT_EQ(fewer.code, 0);
  EXPECT_THAT(fewer.out,
              HasSubstr("resuming after step 9\nnothing is trained, because the run ends after step 5; "
                        "a larger --steps continues it\n"));
}

TEST(YokeTrainResume, LongerRunGoesOnIfTheRatesDoNotDependOnTheLength) {
  const TemporaryFolder folder;
  int number = 0;
  for (const std::string schedule :
       {"constant", "constant:warmup=5", "step:every=3", "exponential:gamma=0.9", "plateau:patience=0"}) {
    const std::string save = folder / std::to_string(number++);
    const std::vector<std::string> words = {"train", "--schedule", schedule, "--batch", "500", "--save"};
    ASSERT_EQ(run(joined(words, {save, "--epochs", "2"})).code, 0);
    EXPECT_THAT(run(joined(words, {save, "--resume", "--epochs", "2"})).out,
                HasSubstr("the run ends after step 8; a larger --epochs continues it\n"));
    const auto longer = run(joined(words, {save, "--resume", "--epochs", "3"}));
    EXPECT_EQ(longer.code, 0) << longer.err;
    ASSERT_EQ(run(joined(words, {save + " whole", "--epochs", "3"})).code, 0);
    EXPECT_EQ(weights_in(save), weights_in(save + " whole")) << schedule;
  }
}

TEST(YokeTrainResume, LengthThatDecidesTheRatesMustBeTheSame) {
  const TemporaryFolder folder;
  for (const std::string schedule : {"linear", "cosine", "one-cycle"}) {
    const std::string save = folder / schedule;
    const std::vector<std::string> words = {"train", "--schedule",   schedule, "--batch",
                                            "500",   "--epochs",     "2",      "--save",
                                            save,    "--save-every", "3"};
    ASSERT_EQ(run(words).code, 0);
    const auto longer = [&](const std::vector<std::string>& length) {
      const auto outcome = run(
          joined({"train", "--schedule", schedule, "--batch", "500", "--save", save, "--resume"}, length));
      EXPECT_EQ(outcome.code, 1);
      return outcome.err;
    };
    EXPECT_THAT(longer({"--epochs", "3"}),
                HasSubstr("belongs to a run of 8 steps, but this one has --epochs 3, which is 12 steps; with "
                          "--schedule " +
                          schedule +
                          ", the learning rates depend on that number; that run "
                          "is finished; start from its parameters with --load and another --save\n"));
    std::filesystem::remove_all(folder / schedule / "step-000000000008");
    EXPECT_THAT(longer({"--steps", "12"}),
                AllOf(HasSubstr("belongs to a run of 8 steps, but this one has --steps 12; with --schedule "),
                      HasSubstr("; to continue that run, use --config "),
                      HasSubstr(" --resume, or start from its parameters with --load and another --save\n")));
    EXPECT_EQ(run(joined(words, {"--resume"})).code, 0);
  }
}

// Checkpoints of earlier versions have the length with every schedule except constant.
TEST(YokeTrainResume, LengthInACheckpointIsIgnoredIfTheRatesDoNotDependOnIt) {
  const TemporaryFolder folder;
  const std::vector<std::string> words = {"train", "--schedule", "step:every=3", "--save", folder / "c"};
  ASSERT_EQ(run(joined(words, {"--steps", "8"})).code, 0);
  Checkpoint old = load_checkpoint(folder / "c");
  old.notes["steps"] = "8";
  CheckpointFolder(folder / "c").save(old.state, old.notes);
  const auto longer = run(joined(words, {"--resume", "--steps", "12"}));
  EXPECT_EQ(longer.code, 0) << longer.err;
  EXPECT_FALSE(load_checkpoint(folder / "c").notes.contains("steps"));
}

TEST(YokeTrainResume, CheckpointWithoutItsDescriptionIsAnError) {
  const TemporaryFolder folder;
  const std::vector<std::string> words = {"train", "--epochs", "2", "--save", folder / "c", "--resume"};
  ASSERT_EQ(run(words).code, 0);
  const auto newest = folder / "c/step-000000000200";
  std::filesystem::remove(newest / "checkpoint.json");
  const auto outcome = run(words);
  EXPECT_EQ(outcome.code, 1);
  EXPECT_THAT(outcome.err,
              HasSubstr("yoke: " + newest.string() +
                        "/checkpoint.json: the file is missing; the checkpoint is damaged: remove its "
                        "folder to use the one before it\n"));
  EXPECT_THAT(run({"train", "--load", newest / ""}).err, HasSubstr("checkpoint.json: the file is missing"));
  std::filesystem::remove_all(newest);
  EXPECT_THAT(run(words).out, HasSubstr("resuming after step 100\n"));
  std::filesystem::resize_file(newest / "weights.safetensors", 100);
  EXPECT_THAT(run({"train", "--load", folder / "c"}).err, HasSubstr("weights.safetensors: it has 100 bytes"));
}

TEST(YokeTrainResume, DataThatHasChangedInItsFileIsNamed) {
  const TemporaryFolder folder;
  const std::string data = folder / "a.csv";
  const std::string other = folder / "b.csv";
  const auto write = [](const std::string& file, int factor) {
    std::ofstream stream(file);
    stream << "x,y\n";
    for (int x = 1; x < 10; ++x) {
      stream << x << ',' << factor * x << '\n';
    }
  };
  write(data, 2);
  write(other, 3);
  const std::vector<std::string> words = {"train", "--test-share", "0.2", "--save", folder / "c", "--data"};
  ASSERT_EQ(run(joined(words, {data, "--epochs", "2"})).code, 0);
  const auto is_other = run(joined(words, {other, "--epochs", "4", "--resume"}));
  EXPECT_EQ(is_other.code, 1);
  EXPECT_THAT(is_other.err, AllOf(HasSubstr(" belongs to a run on data other than " + other),
                                  HasSubstr("; to continue that run, use --config ")));
  write(data, 3);
  const auto changed = run(joined(words, {data, "--epochs", "4", "--resume"}));
  EXPECT_EQ(changed.code, 1);
  EXPECT_THAT(
      changed.err,
      AllOf(HasSubstr("yoke: " + data + " has changed since " + (folder / "c/step-").string()),
            HasSubstr(" was saved; restore it, or start from the parameters of that run with --load "),
            Not(HasSubstr("--config"))));
  // A change in any row is reported, also in test rows.
  for (int row = 1; row < 10; ++row) {
    write(data, 2);
    std::string text = test::read_whole(data);
    const std::string line = "\n" + std::to_string(row) + ",";
    text.insert(text.find(line) + line.size(), "1");
    test::write_file(data, text);
    EXPECT_THAT(run(joined(words, {data, "--epochs", "4", "--resume"})).err, HasSubstr(" has changed since "))
        << row;
  }
  write(data, 2);
  EXPECT_EQ(run(joined(words, {data, "--epochs", "4", "--resume"})).code, 0);
}

TEST(YokeTrainResume, WrongUseIsAnError) {
  const TemporaryFolder folder;
  ASSERT_EQ(run({"train", "--epochs", "1", "--save", folder / "c"}).code, 0);
  EXPECT_THAT(run({"train", "--epochs", "1", "--save", folder / "c"}).err,
              HasSubstr("already has checkpoints; add --resume to continue from the latest"));
  EXPECT_THAT(run({"train", "--epochs", "2", "--save", folder / "c", "--resume", "--lr", "0.2"}).err,
              HasSubstr("belongs to a run with --lr '0.1', but this one has '0.2'"));
  EXPECT_THAT(run({"train", "--epochs", "2", "--save", folder / "c", "--resume", "--seed", "1"}).err,
              HasSubstr("belongs to a run with --seed '0', but this one has '1'"));
  EXPECT_THAT(run({"train", "--epochs", "2", "--save", folder / "c", "--resume", "--batch", "10"}).err,
              HasSubstr("belongs to a run with --batch '20', but this one has '10'"));
  // Not --lr, whose default differs, too.
  EXPECT_THAT(run({"train", "--epochs", "2", "--save", folder / "c", "--resume", "--optimizer", "adam"}).err,
              HasSubstr("belongs to a run with --optimizer 'sgd', but this one has 'adam'"));
  for (const auto& words : {std::vector<std::string>{"--resume"},
                            {"--keep", "2", "--save", "a.npz"},
                            {"--save-every", "2", "--save", "a.safetensors"}}) {
    const auto outcome = run(joined({"train"}, words));
    EXPECT_EQ(outcome.code, 2);
    EXPECT_THAT(outcome.err, HasSubstr("needs --save with a folder for checkpoints\n"));
  }
  EXPECT_THAT(run({"train", "--keep", "2", "--resume"}).err,
              HasSubstr("--keep and --resume need --save with a folder for checkpoints\n"));
  EXPECT_EQ(run({"train", "--steps", "3", "--epochs", "2"}).code, 2);
  test::write_file(folder / "c/latest/weights.safetensors", "x");
  EXPECT_THAT(run({"train", "--epochs", "2", "--save", folder / "c", "--resume"}).err,
              HasSubstr("weights.safetensors: it has 1 byte, which is not what checkpoint.json says"));
}

TEST(YokeTrainResume, ParametersAreLoadedFromFilesAndCheckpoints) {
  const TemporaryFolder folder;
  const std::vector<std::string> one = {"train", "--epochs", "1", "--model", "mlp:7"};
  ASSERT_EQ(run(joined(one, {"--save", folder / "a.safetensors"})).code, 0);
  ASSERT_EQ(run(joined(one, {"--save", folder / "c"})).code, 0);
  const auto trained = load_safetensors(folder / "a.safetensors").arrays;
  for (const char* source : {"a.safetensors", "c"}) {
    const auto outcome = run(joined(one, {"--lr", "1e-38", "--load", folder / source, "--save",
                                          folder / (std::string(source) + ".npz")}));
    ASSERT_EQ(outcome.code, 0) << outcome.err;
    EXPECT_EQ(outcome.err, "");
    for (const NamedArray& each : load_npz(folder / (std::string(source) + ".npz"))) {
      const auto same = std::find_if(trained.begin(), trained.end(),
                                     [&](const NamedArray& other) { return other.name == each.name; });
      ASSERT_NE(same, trained.end());
      EXPECT_EQ(same->bytes, each.bytes) << each.name;
    }
  }
  // A run that can be started again: only the first time, the parameters are those of --load.
  const auto again = joined(one, {"--load", folder / "a.safetensors", "--save", folder / "d", "--resume"});
  EXPECT_THAT(run(again).out, Not(HasSubstr("resuming")));
  EXPECT_NE(load_checkpoint(folder / "d").state.parameters[0].bytes, trained[0].bytes);
  std::filesystem::remove(folder / "a.safetensors");
  EXPECT_THAT(run(again).out, HasSubstr("resuming after step 100\n"));
  ASSERT_EQ(run(joined(one, {"--save", folder / "a.safetensors"})).code, 0);
  EXPECT_THAT(run({"train", "--epochs", "1", "--model", "mlp:8", "--load", folder / "a.safetensors"}).err,
              StartsWith("yoke: '" + (folder / "a.safetensors").string() + "' does not match the model: "));
}

TEST(YokeTrainResume, ArraysToLoadThatTheModelDoesNotHaveAreNamed) {
  const TemporaryFolder folder;
  const std::vector<std::string> one = {"train", "--steps", "1", "--model", "mlp:7"};
  ASSERT_EQ(run(joined(one, {"--save", folder / "a.npz"})).code, 0);
  const auto all = load_npz(folder / "a.npz");
  const auto err_with = [&](int more) {
    auto arrays = all;
    for (int i = 0; i < more; ++i) {
      arrays.push_back(arrays[0]);
      arrays.back().name = "extra" + std::to_string(i);
    }
    save_npz(folder / "b.npz", arrays);
    const auto outcome = run(joined(one, {"--load", folder / "b.npz"}));
    EXPECT_EQ(outcome.code, 0);
    return outcome.err;
  };
  const std::string file = folder / "b.npz";
  EXPECT_EQ(err_with(0), "");
  EXPECT_EQ(err_with(1), "yoke: warning: " + file +
                             " has 1 array that the model does not have: 'extra0'; if they belong to "
                             "the model, give the --model of that file\n");
  EXPECT_THAT(err_with(7),
              HasSubstr("has 7 arrays that the model does not have: 'extra0', 'extra1', 'extra2', "
                        "'extra3', 'extra4' and 2 more; "));
}

TEST(YokeTrainResume, FileToLoadIsReadBeforeTheData) {
  const TemporaryFolder folder;
  test::write_file(folder / "text.npz", "not an archive");
  for (const char* name : {"none.npz", "text.npz"}) {
    const auto outcome = run({"train", "--data", "/nowhere", "--load", folder / name});
    EXPECT_EQ(outcome.code, 1);
    EXPECT_THAT(outcome.err, AllOf(HasSubstr(name), Not(HasSubstr("nowhere"))));
  }
}

TEST(YokeTrainResume, StepsEndTheRun) {
  const auto outcome = run({"train", "--steps", "130", "--json"});
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_EQ(json_value(outcome.last_line(), "steps"), "130");
  EXPECT_EQ(json_value(outcome.last_line(), "epochs"), "1");
  EXPECT_EQ(json_value(outcome.last_line(), "stopped"), "false");
}

}  // namespace
}  // namespace yoke
