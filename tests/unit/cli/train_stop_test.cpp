// SPDX-License-Identifier: Apache-2.0
// tests/unit/cli/train_stop_test.cpp: yoke train ends early on signals, closed pipes and losses that are not
// finite, and draws only on terminals that can redraw.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <yoke/npz.h>

#include <cstring>

#include "command.h"
#include "words.h"

namespace yoke {
namespace {

using test::json_value;
using test::run;
using ::testing::AllOf;
using ::testing::Each;
using ::testing::FloatNear;
using ::testing::Ge;
using ::testing::HasSubstr;
using ::testing::Le;
using ::testing::Not;
using ::testing::Pointwise;

// How often `part` occurs in `text`.
std::size_t count(const std::string& text, const std::string& part) {
  std::size_t found = 0;
  for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) {
    ++found;
  }
  return found;
}

std::vector<float> values_in(const std::filesystem::path& file) {
  std::vector<float> values;
  for (const NamedArray& array : load_npz(file)) {
    const std::size_t before = values.size();
    values.resize(before + array.bytes.size() / sizeof(float));
    std::memcpy(&values[before], array.bytes.data(), array.bytes.size());
  }
  return values;
}

TEST(YokeTrainStop, SignalStopsAfterAStepAndSaves) {
  for (const int signal : {SIGINT, SIGTERM, SIGHUP}) {
    const test::TemporaryFolder folder;
    test::Command command({"train", "--epochs", "1000000", "--save", folder / "a.npz"});
    ASSERT_TRUE(command.wait_for_output("epoch 1/"));
    command.signal(signal);
    const auto outcome = command.wait();
    EXPECT_EQ(outcome.code, 0) << outcome.err;
    EXPECT_THAT(outcome.out, AllOf(HasSubstr("stopped after step "), HasSubstr("saved the parameters to ")));
    EXPECT_THAT(outcome.out, HasSubstr("a.npz\nevaluating; a second signal ends the run at once\nepoch "));
    EXPECT_EQ(load_npz(folder / "a.npz").size(), 6U);
  }
}

TEST(YokeTrainStop, SignalDuringTheSetUpEndsTheRunBeforeAStep) {
  const test::TemporaryFolder folder;
  std::string model = "mlp:8";
  for (int layer = 0; layer < 60; ++layer) {  // so that setting it up takes long
    model += "-8";
  }
  test::Command command({"train", "--model", model, "--save", folder / "a.npz"});
  ASSERT_TRUE(command.wait_for_output("half-moons"));
  command.signal(SIGINT);
  const auto outcome = command.wait();
  EXPECT_EQ(outcome.code, 1);
  EXPECT_THAT(outcome.err, HasSubstr("yoke: stopped during the set-up; nothing was trained or saved\n"));
  EXPECT_THAT(outcome.out, Not(HasSubstr("epoch 1/")));
  EXPECT_FALSE(std::filesystem::exists(folder / "a.npz"));
}

TEST(YokeTrainStop, SignalThatTheCallerIgnoresStaysIgnored) {
  test::Command command({"-c", "trap '' HUP; exec " YOKE_TEST_COMMAND " train --epochs 1000000"},
                        std::nullopt, false, "/bin/sh");
  ASSERT_TRUE(command.wait_for_output("epoch 1/"));
  command.signal(SIGHUP);
  ASSERT_TRUE(command.wait_for_output("epoch 20/"));
  command.signal(SIGTERM);
  EXPECT_EQ(command.wait().code, 0);
}

TEST(YokeTrainStop, ClosedPipeStopsAfterAStepAndSaves) {
  const test::TemporaryFolder folder;
  const std::string script = "{ " YOKE_TEST_COMMAND " train --epochs 1000000 --save " +
                             (folder / "a.npz").string() + "; echo code $? >&2; } | head -n 1";
  const auto outcome = test::Command({"-c", script}, std::nullopt, false, "/bin/sh").wait();
  EXPECT_THAT(outcome.out, HasSubstr("half-moons"));
  EXPECT_EQ(outcome.err, "yoke: standard output was closed\ncode 1\n");
  EXPECT_EQ(load_npz(folder / "a.npz").size(), 6U);
}

TEST(YokeTrainStop, LossThatIsNotFiniteIsMentionedOnceWithTheStep) {
  const auto outcome = run({"train", "--lr", "1e30", "--epochs", "3", "--json"});
  EXPECT_EQ(outcome.code, 0);
  EXPECT_THAT(outcome.err,
              HasSubstr("yoke: warning: the loss became infinite or nan at step 2 (epoch 1); try a "
                        "smaller --lr; --stop-on-nan ends a run there"));
  EXPECT_EQ(count(outcome.err, "warning"), 1U);
  EXPECT_EQ(json_value(outcome.out, "first_bad_step"), "2");
  EXPECT_EQ(json_value(outcome.out, "stopped"), "false");
  EXPECT_EQ(json_value(run({"train", "--epochs", "1", "--json"}).out, "first_bad_step"), "null");
}

TEST(YokeTrainStop, TestLossThatIsNotFiniteHasNoAdviceForTheTrainingLoss) {
  const auto outcome = run({"train", "--lr", "1e38", "--steps", "1"});
  EXPECT_EQ(outcome.code, 0);
  EXPECT_EQ(outcome.err,
            "yoke: warning: the test loss is infinite or nan after step 1; try a smaller --lr\n");
}

TEST(YokeTrainStop, LossThatIsNotFiniteIsMentionedBeforeALongEpochEnds) {
  // An epoch has 4,000,000 steps, so it takes several seconds.
  const test::TemporaryFolder folder;
  for (const auto& [part, rows] : {std::pair("train", 4000000U), std::pair("t10k", 2U)}) {
    std::string pixels(rows, 'a');
    std::vector<std::uint8_t> labels(rows);
    pixels[1] = 'b';
    labels[1] = 1;
    test::write_file(folder / (std::string(part) + "-images-idx3-ubyte"),
                     test::idx_images(rows, 1, 1, pixels));
    test::write_file(folder / (std::string(part) + "-labels-idx1-ubyte"), test::idx_labels(labels));
  }
  test::Command command({"train", "--data", folder.path(), "--lr", "1e30", "--batch", "1", "--model", "mlp:4",
                         "--shards", "1"});
  ASSERT_TRUE(command.wait_for_output("warning: the loss became infinite or nan at step ", "err"));
  command.signal(SIGTERM);
  EXPECT_THAT(command.wait().out, HasSubstr(", in epoch 1 of 5\n"));
}

TEST(YokeTrainStop, StopOnNanSavesTheParametersOfTheLastGoodStep) {
  const test::TemporaryFolder folder;
  // The step that makes the parameters useless is the first one, so the last good ones are the initial ones.
  const auto outcome = run(
      {"train", "--lr", "1e30", "--stop-on-nan", "--json", "--save", folder / "good.npz", "--shards", "3"});
  EXPECT_EQ(outcome.code, 1);
  EXPECT_THAT(outcome.err, AllOf(HasSubstr("the loss became infinite or nan at step 2 (epoch 1); stopped"),
                                 Not(HasSubstr("warning")), Not(HasSubstr("epoch 1/"))));
  EXPECT_THAT(outcome.err,
              HasSubstr("saved the last parameters that gave a finite loss, those after 0 steps, to "));
  EXPECT_EQ(json_value(outcome.out, "first_bad_step"), "2");
  EXPECT_EQ(json_value(outcome.out, "stopped"), "true");
  const auto start = run({"train", "--lr", "1e-38", "--epochs", "1", "--batch", "2000", "--save",
                          folder / "start.npz", "--shards", "3"});
  ASSERT_EQ(start.code, 0) << start.err;
  // The learning rate of the second run changes the biases, which start at 0, by less than 1e-37.
  EXPECT_THAT(values_in(folder / "good.npz"), Pointwise(FloatNear(1e-30F), values_in(folder / "start.npz")));
}

TEST(YokeTrainStop, StopOnNanAppliesToTheLastStep) {
  const test::TemporaryFolder folder;
  // The first step makes the parameters useless: the run ends with the step that notices it, or before.
  for (const std::string steps : {"1", "2"}) {
    SCOPED_TRACE(steps);
    const std::string file = folder / (steps + ".npz");
    const auto outcome =
        run({"train", "--lr", "1e30", "--steps", steps, "--stop-on-nan", "--json", "--save", file});
    EXPECT_EQ(outcome.code, 1);
    EXPECT_THAT(outcome.err,
                HasSubstr(steps == "1" ? "the test loss is infinite or nan after step 1 (epoch 1); stopped"
                                       : "the loss became infinite or nan at step 2 (epoch 1); stopped"));
    EXPECT_THAT(outcome.err, Not(HasSubstr("warning")));
    EXPECT_EQ(json_value(outcome.out, "first_bad_step"), steps);
    EXPECT_EQ(json_value(outcome.out, "stopped"), "true");
    EXPECT_THAT(outcome.out, HasSubstr("\"history\":[{\"step\":" + steps + ","));
    EXPECT_THAT(values_in(file), Each(AllOf(Ge(-10), Le(10))));
    const std::string checkpoints = folder / ("c" + steps);
    EXPECT_EQ(run({"train", "--lr", "1e30", "--steps", steps, "--stop-on-nan", "--save-every", "1", "--keep",
                   "1", "--save", checkpoints})
                  .code,
              1);
    EXPECT_TRUE(std::filesystem::exists(checkpoints + "/step-000000000001")) << "the one before step 2";
  }
}

TEST(YokeTrainStop, StopOnNanNamesTheLatestCheckpointOfAFolder) {
  const test::TemporaryFolder folder;
  const std::vector<std::string> words = {"train", "--lr", "1e30", "--stop-on-nan", "--save"};
  const auto first = run(test::joined(words, {folder / "first"}));
  EXPECT_EQ(first.code, 1);
  EXPECT_THAT(first.err, HasSubstr("no checkpoint was saved, because none was due before that step"));
  const auto second = run(test::joined(words, {folder / "second", "--save-every", "1"}));
  EXPECT_EQ(second.code, 1);
  EXPECT_THAT(second.err, HasSubstr("the latest checkpoint in " + std::string(folder / "second") +
                                    " is of step 1; its parameters may already diverge\n"));
}

TEST(YokeTrainStop, ReasonWhyCheckpointsAreNotSavedIsPrintedOnce) {
  const test::TemporaryFolder folder;
  constexpr std::uint64_t kMostBytes = 8192;  // fewer than the parameters have
  for (const char* epochs : {"1", "3"}) {
    const auto outcome = test::Command({"train", "--model", "mlp:1000", "--batch", "500", "--epochs", epochs,
                                        "--save", folder / epochs},
                                       kMostBytes)
                             .wait();
    EXPECT_EQ(outcome.code, 1);
    const std::size_t reason = outcome.err.find("weights.safetensors: File too large; ");
    ASSERT_NE(reason, std::string::npos) << outcome.err;
    EXPECT_EQ(outcome.err.find("File too large", reason + 50), std::string::npos) << outcome.err;
    EXPECT_EQ(outcome.err.find("yoke: warning: ") != std::string::npos, *epochs == '3');
  }
}

TEST(YokeTrainStop, StopOnNanReportsASaveThatFails) {
  const test::TemporaryFolder folder;
  constexpr std::uint64_t kMostBytes = 8192;  // fewer than the parameters have
  const std::vector<std::string> words = {"train", "--lr", "1e30", "--model", "mlp:1000", "--stop-on-nan"};
  for (const auto& [save, file] :
       {std::pair(std::vector<std::string>{"--save", folder / "good.npz"}, folder / "good.npz"),
        std::pair(std::vector<std::string>{"--save", folder / "c", "--save-every", "1"},
                  folder / "c/.new/weights.safetensors")}) {
    const auto outcome = test::Command(test::joined(words, save), kMostBytes).wait();
    EXPECT_EQ(outcome.code, 1);
    const std::string why = "cannot save to " + file.string() + ": File too large; ";
    const bool is_warned = save.size() > 2;  // by the checkpoint of step 1
    EXPECT_THAT(
        outcome.err,
        HasSubstr("the loss became infinite or nan at step 2 (epoch 1); stopped; try a smaller --lr\n"
                  "yoke: " +
                  (is_warned ? "the last attempt to save failed; the warning above says why\n" : why)));
    EXPECT_THAT(outcome.err, HasSubstr(is_warned ? "yoke: warning: " + why : why));
    EXPECT_THAT(outcome.out, AllOf(HasSubstr("time: "), Not(HasSubstr("saved"))));
    EXPECT_FALSE(std::filesystem::exists(file));
  }
}

TEST(YokeTrainStop, StopOnNanChangesNothingInAGoodRun) {
  const auto loss = [](std::vector<std::string> words) {
    words.insert(words.begin(), {"train", "--epochs", "2", "--json"});
    const auto outcome = run(words);
    EXPECT_EQ(outcome.code, 0) << outcome.err;
    return json_value(outcome.out, "train_loss") + json_value(outcome.out, "test_loss");
  };
  EXPECT_EQ(loss({"--stop-on-nan"}), loss({}));
}

TEST(YokeTrainStop, IdlePartsOfABatchAreMentionedOnce) {
  const auto warning = [](const char* batch, std::vector<std::string> words) {
    words.insert(words.begin(), {"train", "--epochs", "2", "--batch", batch});
    return run(words).err;
  };
  EXPECT_EQ(
      warning("3", {"--shards", "5"}),
      "yoke: warning: 2 of 5 shards are idle, because a batch has 3 examples; use a larger --batch, or fewer "
      "shards\n");
  EXPECT_EQ(warning("5", {"--shards", "2", "--accumulate", "3"}),
            "yoke: warning: 1 of 6 micro-batches is idle, because a batch has 5 examples; use a larger "
            "--batch, or a smaller --accumulate\n");
  EXPECT_EQ(warning("5", {"--shards", "2", "--reproducible", "8"}),
            "yoke: warning: 3 of 8 micro-batches are idle, because a batch has 5 examples; use a larger "
            "--batch, or a smaller --reproducible\n");
  EXPECT_EQ(warning("6", {"--shards", "2", "--accumulate", "3"}), "");
}

TEST(YokeTrainStop, OneShardWarnsOfMergeOptions) {
  const auto warning = [](std::vector<std::string> words) {
    words.insert(words.begin(), {"train", "--steps", "2"});
    return run(words).err;
  };
  EXPECT_EQ(warning({"--shards", "1", "--wire", "bf16", "--overlap", "on"}),
            "yoke: warning: one shard has nothing to merge, so this has no effect: --overlap, --wire\n");
  EXPECT_EQ(warning({"--row-weights", "3"}),
            "yoke: warning: one shard has nothing to merge, so this has no effect: --row-weights\n");
  EXPECT_EQ(warning({"--shards", "1", "--merge", "ring", "--placement", "sharded"}),
            "yoke: warning: one shard has nothing to merge, so this has no effect: --merge, --placement\n");
  EXPECT_EQ(warning({"--shards", "1", "--merge", "tree", "--reproducible", "4"}), "");
  EXPECT_EQ(warning({"--shards", "2", "--wire", "bf16", "--merge", "ring"}), "");
}

// Runs the command with standard error on a new terminal, and returns what it wrote there.
std::string written_to_terminal(const char* type, const std::string& words = "train --epochs 2 --shards 1",
                                const std::string& expected = "epoch 2/2: ") {
  const int terminal = ::posix_openpt(O_RDWR | O_NOCTTY);
  EXPECT_EQ(::grantpt(terminal) + ::unlockpt(terminal), 0);
  const std::string script =
      std::string(type == nullptr ? "unset TERM" : "export TERM=" + std::string(type)) +
      "; exec " YOKE_TEST_COMMAND " " + words + " 2> " + ::ptsname(terminal);
  const int other_end = ::open(::ptsname(terminal), O_RDWR | O_NOCTTY);  // keeps the output for the read
  const auto outcome = test::Command({"-c", script}, std::nullopt, false, "/bin/sh").wait();
  EXPECT_EQ(outcome.code, 0);
  EXPECT_THAT(outcome.out, HasSubstr(expected));
  ::fcntl(terminal, F_SETFL, O_NONBLOCK);
  std::string text(1 << 16, '\0');
  const ssize_t size = ::read(terminal, text.data(), text.size());
  text.resize(size > 0 ? static_cast<std::size_t>(size) : 0);
  ::close(other_end);
  ::close(terminal);
  return text;
}

TEST(YokeTrainStop, ProgressIsDrawnOnlyOnTerminalsThatCanRedraw) {
  EXPECT_THAT(written_to_terminal("xterm"), HasSubstr("\r\033[K"));
  EXPECT_EQ(written_to_terminal("dumb"), "");
  EXPECT_EQ(written_to_terminal(nullptr), "");
  const std::string kit =
      "check-plugin --filter 'load.*' " + test::plugin_folder() + "/libyoke_backend_null.so";
  EXPECT_THAT(written_to_terminal("xterm", kit, "PASSED"), HasSubstr("\r\033[K"));
  EXPECT_EQ(written_to_terminal("dumb", kit, "PASSED"), "");
  EXPECT_EQ(written_to_terminal(nullptr, kit, "PASSED"), "");
}

TEST(YokeTrainStop, ProgressCountsTheStepsOfTheRunAndNotOfWholeEpochs) {
  EXPECT_THAT(written_to_terminal("xterm", "train --steps 130 --shards 1"),
              HasSubstr("epoch 1/2, step 1/130 ["));
}

}  // namespace
}  // namespace yoke
