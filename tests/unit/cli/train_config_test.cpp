// SPDX-License-Identifier: Apache-2.0
// tests/unit/cli/train_config_test.cpp: options of yoke train from a TOML file, as that of a run's folder.
#include <gmock/gmock.h>

#include "command.h"
#include "words.h"

namespace yoke {
namespace {

using test::Command;
using test::joined;
using test::json_value;
using test::Outcome;
using test::run;
using test::TemporaryFolder;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

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
  ASSERT_EQ(run({"train", "--epochs", "8", "--shuffle", "--save", folder / "a", "--option", "threads=1",
                 "--option", "kernels=plain"})
                .code,
            0);
  ASSERT_EQ(run({"train", "--config", folder / "a/config.toml", "--save", folder / "b"}).code, 0);
  const std::string weights = "latest/weights.safetensors";
  EXPECT_EQ(test::read_whole(folder / "a" / weights), test::read_whole(folder / "b" / weights));
  const auto without_comments = [](const std::string& text) { return text.substr(text.find("\n\n") + 1); };
  const std::string config = without_comments(test::read_whole(folder / "a/config.toml"));
  EXPECT_EQ(config, without_comments(test::read_whole(folder / "b/config.toml")));
  EXPECT_THAT(config, AllOf(HasSubstr("\nepochs = 8\n"), HasSubstr("\nshuffle = true\n"),
                            HasSubstr("\noption = [ 'threads=1', 'kernels=plain' ]\n")));
}

TEST(YokeTrainConfig, OptionsOfReplacedBackendsAreLeftOut) {
  const TemporaryFolder folder;
  const std::string file = folder / "a.toml";
  test::write_file(
      file, "steps = 2\noption = [ 'cc.kernels=plain', 'threads=1', 'null.memory_limit=1000000000' ]\n");
  const auto left_out = [&](const char* option, const std::string& backend) {
    return "yoke: warning: --config: " + file + ", line 2: left out --option " + option +
           ", because the file does not give it for --backend " + backend + "\n";
  };
  const auto same = run({"train", "--config", file, "--backend", "cc:2"});
  EXPECT_EQ(same.code, 0) << same.err;
  EXPECT_EQ(same.err, left_out("null.memory_limit=1000000000", "cc:2"));
  const auto other = run({"train", "--config", file, "--backend=null"});
  EXPECT_THAT(other.err,
              AllOf(HasSubstr(left_out("cc.kernels=plain", "null")), HasSubstr(left_out("threads=1", "null")),
                    Not(HasSubstr("left out --option null."))));
  // Without --backend on the command line, an option of a backend that is not in the run is an error.
  EXPECT_THAT(run({"train", "--config", file}).err,
              HasSubstr("--option null.memory_limit=1000000000: 'null' is not a backend of this run"));
}

TEST(YokeTrainConfig, RunThatHasEndedKeepsItsFilesWhenItIsResumed) {
  const TemporaryFolder folder;
  const std::vector<std::string> words = {"train",           "--save",     folder / "c",     "--report",
                                          folder / "r.html", "--timeline", folder / "t.json"};
  ASSERT_EQ(run(joined(words, {"--epochs", "3"})).code, 0);
  const auto contents = [&] {
    return std::vector<std::string>{test::read_whole(folder / "c/config.toml"),
                                    test::read_whole(folder / "r.html"), test::read_whole(folder / "t.json")};
  };
  const auto before = contents();
  const auto again = run(joined(words, {"--epochs", "2", "--resume"}));
  EXPECT_EQ(again.code, 0) << again.err;
  EXPECT_THAT(
      again.out,
      AllOf(HasSubstr("nothing is trained"),
            HasSubstr(std::string(folder / "r.html") + " stays as it is, because nothing was trained\n"),
            HasSubstr(std::string(folder / "t.json") + " stays as it is, because nothing was trained\n")));
  EXPECT_EQ(contents(), before);
  ASSERT_EQ(run(joined(words, {"--epochs", "4", "--resume"})).code, 0);
  const auto after = contents();
  for (std::size_t i = 0; i < after.size(); ++i) {
    EXPECT_NE(after[i], before[i]) << i;
  }
}

TEST(YokeTrainConfig, FilesOfTheUserAreNotReplaced) {
  const TemporaryFolder folder;
  const std::string mine = "# mine\nepochs = 2\n";
  std::filesystem::create_directory(folder / "c");
  test::write_file(folder / "c/config.toml", mine);
  const std::vector<std::string> words = {"train", "--config", folder / "c/config.toml", "--save",
                                          folder / "c"};
  for (const std::vector<std::string>& more : {std::vector<std::string>(), {"--resume"}}) {
    const auto refused = run(joined(words, more));
    EXPECT_EQ(refused.code, 1);
    EXPECT_EQ(refused.err, "yoke: " + std::string(folder / "c/config.toml") +
                               " was not written by yoke train, and saving would replace it; rename it, or "
                               "choose another folder\n");
  }
  EXPECT_EQ(test::read_whole(folder / "c/config.toml"), mine);
  // One that replaces the file of a run stays.
  ASSERT_EQ(run({"train", "--epochs", "1", "--save", folder / "d"}).code, 0);
  test::write_file(folder / "d/config.toml", mine);
  const auto resumed =
      run({"train", "--config", folder / "d/config.toml", "--save", folder / "d", "--resume"});
  EXPECT_EQ(resumed.code, 0) << resumed.err;
  EXPECT_EQ(test::read_whole(folder / "d/config.toml"), mine);
  // One of an earlier version of yoke.
  test::write_file(folder / "d/config.toml",
                   "# To continue this run in the folder in which it started:\n# cd x\n\nepochs = 2\n");
  EXPECT_EQ(run({"train", "--epochs", "3", "--save", folder / "d", "--resume"}).code, 0);
  EXPECT_THAT(test::read_whole(folder / "d/config.toml"), HasSubstr("epochs = 3\n"));
}

TEST(YokeTrainConfig, RunThatDoesNotStartLeavesNoFolder) {
  const TemporaryFolder folder;
  test::write_file(folder / "t.txt", "hello\nworld\n");
  const auto usage = run({"train", "--data", folder / "t.txt", "--model", "char-lstm", "--shuffle", "--save",
                          folder / "c", "--early-stopping", "2"});
  EXPECT_EQ(usage.code, 2);
  EXPECT_FALSE(std::filesystem::exists(folder.path() / "c"));
  EXPECT_EQ(run({"train", "--model", "mlp:1000000-1000000", "--save", folder / "c"}).code, 1);  // too large
  EXPECT_FALSE(std::filesystem::exists(folder.path() / "c"));
  std::filesystem::create_symlink(folder / "nowhere", folder / "link");
  EXPECT_THAT(run({"train", "--save", folder / "link"}).err, HasSubstr("which does not exist"));
  EXPECT_TRUE(std::filesystem::is_symlink(folder.path() / "link"));
  std::filesystem::create_directory(folder / "mine");
  std::filesystem::create_directories(folder / "blocked/config.toml");
  const auto blocked = run({"train", "--epochs", "2", "--save", folder / "blocked"});
  EXPECT_EQ(blocked.code, 1);
  EXPECT_THAT(blocked.err, HasSubstr("blocked/config.toml"));
  EXPECT_THAT(blocked.out, Not(HasSubstr("epoch")));
  EXPECT_EQ(run({"train", "--data", folder / "none.csv", "--save", folder / "mine"}).code, 1);
  EXPECT_TRUE(std::filesystem::exists(folder.path() / "mine"));
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

TEST(YokeTrainConfig, ValueThatIsNotUtf8IsRefusedWithAFolderOfCheckpoints) {
  const TemporaryFolder folder;
  const std::string data = folder / "bad\xff.csv";
  test::write_file(data, "x,y\n1,2\n3,4\n5,6\n7,8\n");
  const std::vector<std::string> words = {"train", "--steps", "3", "--data", data, "--save"};
  const auto refused = run(joined(words, {folder / "c"}));
  EXPECT_EQ(refused.code, 2);
  EXPECT_THAT(refused.err,
              StartsWith("yoke: --data is not valid UTF-8, so " + (folder / "c").string() +
                         "/config.toml cannot contain it; use a name in UTF-8, or --save with a file\n"));
  EXPECT_FALSE(std::filesystem::exists(folder / "c"));
  EXPECT_EQ(run(joined(words, {folder / "a.npz"})).code, 0);

  const std::string umlaut = folder /
                             "gr\xc3\xb6\xc3\x9f"
                             "e.csv";
  std::filesystem::rename(data, umlaut);
  ASSERT_EQ(run({"train", "--steps", "3", "--data", umlaut, "--save", folder / "c"}).code, 0);
  EXPECT_EQ(
      run({"train", "--config", folder / "c/config.toml", "--steps", "5", "--save", folder / "c", "--resume"})
          .code,
      0);
}

TEST(YokeTrainConfig, PipesAreRead) {
  const std::string train = std::string(" | ") + YOKE_TEST_COMMAND + " train --json --config /dev/stdin";
  const auto piped = shell("(printf 'lr = 0.25\n'; sleep 0.1; printf 'steps = 3\n')" + train);
  ASSERT_EQ(piped.code, 0) << piped.err;
  EXPECT_EQ(json_value(piped.last_line(), "learning_rate"), "0.25");
  EXPECT_EQ(json_value(piped.last_line(), "steps"), "3");
  const auto endless = run({"train", "--config", "/dev/zero"});
  EXPECT_EQ(endless.code, 2);
  EXPECT_THAT(endless.err, StartsWith("yoke: --config: /dev/zero is larger than 1 MiB; give a TOML file"));
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
          "'epochs' takes text, a number, true, false or a list of these; write options at the top");
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
