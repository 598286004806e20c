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
                HasSubstr("is of a run with --precision '" + precision + "', and this one has 'f32'"));
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
                        "a larger --epochs continues it\n"));
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

TEST(YokeTrainResume, WrongUseIsAnError) {
  const TemporaryFolder folder;
  ASSERT_EQ(run({"train", "--epochs", "1", "--save", folder / "c"}).code, 0);
  EXPECT_THAT(run({"train", "--epochs", "1", "--save", folder / "c"}).err,
              HasSubstr("already has checkpoints; add --resume to continue from the latest"));
  EXPECT_THAT(run({"train", "--epochs", "2", "--save", folder / "c", "--resume", "--lr", "0.2"}).err,
              HasSubstr("is of a run with --lr '0.1', and this one has '0.2'"));
  EXPECT_THAT(run({"train", "--epochs", "2", "--save", folder / "c", "--resume", "--seed", "1"}).err,
              HasSubstr("is of a run with --seed '0', and this one has '1'"));
  EXPECT_THAT(run({"train", "--epochs", "2", "--save", folder / "c", "--resume", "--batch", "10"}).err,
              HasSubstr("is of a run with --batch '20', and this one has '10'"));
  // Not --lr, whose default differs, too.
  EXPECT_THAT(run({"train", "--epochs", "2", "--save", folder / "c", "--resume", "--optimizer", "adam"}).err,
              HasSubstr("is of a run with --optimizer 'sgd', and this one has 'adam'"));
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

TEST(YokeTrainConfig, FileGivesOptionsAndTheCommandLineOverridesThem) {
  const TemporaryFolder folder;
  test::write_file(folder / "a.toml",
                   "epochs = 2\nmodel = \"mlp:5\"\nlr = 0.05\nshuffle = true\nnesterov = false\n");
  const auto outcome = run({"train", "--config", folder / "a.toml", "--lr", "0.25", "--json"});
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  const std::string json = outcome.last_line();
  EXPECT_EQ(json_value(json, "epochs"), "2");
  EXPECT_EQ(json_value(json, "model"), "\"mlp:5\"");
  EXPECT_EQ(json_value(json, "learning_rate"), "0.25");
  EXPECT_EQ(json_value(json, "shuffle"), "true");
}

TEST(YokeTrainConfig, FolderOfARunHasItsConfiguration) {
  const TemporaryFolder folder;
  ASSERT_EQ(
      run(joined(kRun, {"--save", folder / "a", "--option", "threads=1", "--option", "kernels=plain"})).code,
      0);
  ASSERT_EQ(run({"train", "--config", folder / "a/config.toml", "--save", folder / "b"}).code, 0);
  EXPECT_EQ(weights_in(folder / "a"), weights_in(folder / "b"));
  const auto without_comments = [](const std::string& text) { return text.substr(text.find("\n\n") + 1); };
  const std::string config = without_comments(test::read_whole(folder / "a/config.toml"));
  EXPECT_EQ(config, without_comments(test::read_whole(folder / "b/config.toml")));
  EXPECT_THAT(config, AllOf(HasSubstr("\nepochs = 8\n"), HasSubstr("\nshuffle = true\n"),
                            HasSubstr("\noption = [ 'threads=1', 'kernels=plain' ]\n")));
}

Outcome shell(const std::string& script) {
  return Command({"-c", script}, std::nullopt, false, "/bin/sh").wait();
}

TEST(YokeTrainConfig, CommentHasTheCommandThatContinuesTheRun) {
  const TemporaryFolder folder;
  std::filesystem::create_directory(folder / "it's here");
  test::write_file(folder / "it's here/t.csv", "x,y\n1,2\n3,4\n5,6\n7,8\n");
  const std::string yoke = YOKE_TEST_COMMAND;
  const std::string go = "cd '" + folder.path().string() + "' && cd it*here && ";
  const auto first = shell(go + yoke + " train --data t.csv --steps 3 --save 'a b'");
  ASSERT_EQ(first.code, 0) << first.err;
  const std::string config = test::read_whole(folder / "it's here/a b/config.toml");
  const std::size_t at = config.find("\n# cd ") + 3;
  std::string command = config.substr(at, config.find('\n', at) - at);
  command.replace(command.find("yoke train"), 4, yoke);
  const auto second = shell(command + " --steps 5");
  EXPECT_EQ(second.code, 0) << command << "\n" << second.err;
  EXPECT_THAT(second.out, HasSubstr("resuming after step 3\n"));

  const auto without = shell(go + yoke + " train --config 'a b/config.toml' --resume");
  EXPECT_EQ(without.code, 2);
  EXPECT_THAT(without.err,
              HasSubstr("--resume needs --save with a folder for checkpoints; to continue the run "
                        "of a b/config.toml, add --save 'a b'\n"));
  EXPECT_THAT(shell(go + yoke + " train --config 'a b/config.toml' --keep 2").err,
              HasSubstr("add --save 'a b' and --resume\n"));
}

TEST(YokeTrainConfig, PathThatCannotBeInACommentDoesNotSpoilTheFile) {
  const TemporaryFolder folder;
  for (const std::string name : {"a\nsteps = 1", "b\xff"}) {
    ASSERT_EQ(run({"train", "--steps", "3", "--save", folder / name}).code, 0);
    const auto again = run({"train", "--config", folder / name / "config.toml", "--json"});
    EXPECT_EQ(json_value(again.last_line(), "steps"), "3") << again.err;
  }
}

TEST(YokeTrainConfig, PipesAreRead) {
  const std::string train = std::string(" | ") + YOKE_TEST_COMMAND + " train --json --config /dev/stdin";
  const auto piped = shell("(printf 'lr = 0.25\n'; sleep 0.1; printf 'steps = 3\n')" + train);
  ASSERT_EQ(piped.code, 0) << piped.err;
  EXPECT_EQ(json_value(piped.last_line(), "learning_rate"), "0.25");
  EXPECT_EQ(json_value(piped.last_line(), "steps"), "3");
  const auto endless = run({"train", "--config", "/dev/zero"});
  EXPECT_EQ(endless.code, 2);
  EXPECT_THAT(endless.err, StartsWith("yoke: --config: /dev/zero has more than 1 MiB; give a TOML file"));
  const TemporaryFolder folder;
  EXPECT_THAT(run({"train", "--config", folder.path()}).err, HasSubstr(" is a folder; give a TOML file"));
}

TEST(YokeTrainConfig, InvalidFilesAreWrongUsage) {
  const TemporaryFolder folder;
  const auto refuses = [&](const std::string& text, const std::string& why) {
    test::write_file(folder / "a.toml", text);
    const auto outcome = run({"train", "--config", folder / "a.toml"});
    EXPECT_EQ(outcome.code, 2) << text;
    EXPECT_THAT(outcome.err, HasSubstr(why));
  };
  const std::string file = folder / "a.toml";
  refuses("timeline = \"" + file + "\"\n", "would replace the file of --config; give another file");
  refuses("epochs = \n", "a.toml, line 1, column 10");
  refuses("epochs = 1\nepochs = 2\n", "line 2");
  refuses("epoch = 1\n",
          "--config: " + file + ", line 1: unknown option '--epoch'; did you mean '--epochs'?");
  refuses("lr = 1\n\nepochs = \"many\"\n", "a.toml, line 3: --epochs takes a whole number");
  refuses("shuffle = \"yes\"\n", "a.toml, line 1: option '--shuffle' does not take any arguments");
  refuses("epochs = 1\noption = [\n 'thread=1']\n",
          "a.toml, line 2: --option: cc: option 'thread' is unknown");
  refuses("\nsteps = 1\nepochs = 1\n", "a.toml, line 2: --steps and --epochs both give");
  refuses("shards = 2\nrow-weights = [1, 2]\n", "a.toml, line 2: --row-weights takes one value, not several");
  refuses("epochs = 1979-05-27\n", "line 1: 'epochs' takes text, a number, true, false or a list of these");
  refuses("lr = 1\ndata = \"\"\n",
          "a.toml, line 2: 'data' has an empty value; give a value, or leave the option out");
  refuses("[epochs]\n",
          "'epochs' takes text, a number, true, false or a list of these; write options without");
  refuses("lr = 1\nepochs = true\n", "a.toml, line 2: --epochs needs a value");
  refuses("lr = 1\nconfig = \"b.toml\"\n", "a.toml, line 2: a file cannot name another one");
  refuses(std::string(10000, '['), "a.toml, line 1");
  test::write_file(file, "lr = 1\nbatch = 2001\n");
  EXPECT_THAT(run({"train", "--config", file}).err,
              AllOf(HasSubstr("a.toml, line 2: --batch 2001 exceeds"), Not(HasSubstr("line 1"))));
  EXPECT_THAT(run({"train", "--config", file, "--batch", "2001"}).err,
              StartsWith("yoke: --batch 2001 exceeds"));
  test::write_file(file, "epochs = 1\n");
  EXPECT_THAT(run({"train", "--config", file, "--steps", "1"}).err, StartsWith("yoke: --steps and --epochs"))
      << "the file is not to blame for an option of the command line";
  EXPECT_EQ(run({"train", "--config", folder / "none.toml"}).code, 2);
  EXPECT_EQ(run({"train", "--config"}).code, 2);
}

}  // namespace
}  // namespace yoke
