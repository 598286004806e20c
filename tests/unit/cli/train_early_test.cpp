// SPDX-License-Identifier: Apache-2.0
// tests/unit/cli/train_early_test.cpp: yoke train --early-stopping keeps the best parameters, and --report writes a
// page.
#include <gmock/gmock.h>
#include <yoke/npz.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <random>
#include <thread>

#include "words.h"

namespace yoke {
namespace {

using test::Command;
using test::joined;
using test::json_of;
using test::run;
using test::TemporaryFolder;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
using Json = nlohmann::json;

// A net that learns 40 rows of noise by heart: the loss of the test rows soon rises.
class YokeTrainEarly : public ::testing::Test {
 protected:
  YokeTrainEarly() {
    std::string text = "a,b,c,y\n";
    std::string order;
    for (int i = 0; i < 60; ++i) {
      text += std::to_string(i * 7919 % 101) + "," + std::to_string(i * 104729 % 97) + "," +
              std::to_string(i * 1299709 % 89) + "," + std::to_string(i * 15485863 % 83) + "\n";
      order += std::to_string(i) + " ";
    }
    test::write_file(folder_ / "t.csv", text);
    test::write_file(folder_ / "s.txt", order + "\n");
    test::write_file(folder_ / "test.csv", text.substr(0, 8) + text.substr(line_start(text, 41)));
  }
  static std::size_t line_start(const std::string& text, int line) {
    std::size_t at = 0;
    for (int i = 0; i < line; ++i) {
      at = text.find('\n', at) + 1;
    }
    return at;
  }
  std::vector<std::string> words(const std::vector<std::string>& more) const {
    return joined({"train", "--data", folder_ / "t.csv", "--splits", folder_ / "s.txt", "--test-share",
                   "0.3333", "--model", "mlp:64", "--optimizer", "adam", "--lr", "0.02", "--epochs", "60",
                   "--batch", "20", "--seed", "1"},
                  more);
  }

  TemporaryFolder folder_;
};

TEST_F(YokeTrainEarly, EndsAfterEpochsWithoutALowerLossAndSavesTheBest) {
  const Json whole = json_of(words({}));
  EXPECT_TRUE(whole["best_step"].is_null());
  EXPECT_FALSE(whole["stopped_early"].get<bool>());
  EXPECT_TRUE(whole["saved"].is_null());
  const Json unsaved = json_of(words({"--early-stopping", "3"}));
  EXPECT_TRUE(unsaved["stopped_early"].get<bool>());
  EXPECT_TRUE(unsaved["saved"].is_null());
  const Json early = json_of(words({"--early-stopping", "3", "--save", folder_ / "run"}));
  EXPECT_TRUE(early["stopped_early"].get<bool>());
  EXPECT_FALSE(early["stopped"].get<bool>());
  // The epochs are those of the whole run; the best one is the third before the last, and none before was lower.
  const std::size_t epochs = early["history"].size();
  ASSERT_GE(epochs, 4U);
  ASSERT_LT(epochs, 60U);
  double best = INFINITY;
  std::size_t best_epoch = 0;
  for (std::size_t e = 0; e < epochs; ++e) {
    const double loss = early["history"][e]["test_loss"].get<double>();
    EXPECT_EQ(loss, whole["history"][e]["test_loss"].get<double>());
    if (loss < best) {
      best = loss;
      best_epoch = e + 1;
    }
  }
  EXPECT_EQ(best_epoch + 3, epochs);
  EXPECT_EQ(early["best_validation_loss"].get<double>(), best);
  EXPECT_EQ(early["best_step"], best_epoch * 2);
  EXPECT_GT(early["validation_loss"].get<double>(), best);
  // What is saved predicts with the best loss.
  const Json predicted = json_of({"predict", "--from", folder_ / "run", "--data", folder_ / "test.csv"});
  EXPECT_NEAR(predicted["loss"].get<double>(), best, 1e-5);
  EXPECT_EQ(predicted["step"], early["best_step"]);
  const Json latest = json_of({"predict", "--from", folder_ / "run/latest", "--data", folder_ / "test.csv"});
  EXPECT_NEAR(latest["loss"].get<double>(), early["validation_loss"].get<double>(), 1e-5);

  ASSERT_EQ(run(words({"--early-stopping", "3", "--save", folder_ / "best.npz"})).code, 0);
  ASSERT_EQ(run(words({"--epochs", "60", "--steps", "1"})).code, 2);
  const auto loss_of_loaded = [&](const char* load) {
    const Json loaded = json_of({"train", "--data", folder_ / "t.csv", "--splits", folder_ / "s.txt",
                                 "--test-share", "0.3333", "--model", "mlp:64", "--load", folder_ / load,
                                 "--steps", "1", "--lr", "1e-30", "--batch", "20"});
    return loaded["validation_loss"].get<double>();
  };
  EXPECT_NEAR(loss_of_loaded("best.npz"), best, 1e-5);
  EXPECT_NEAR(loss_of_loaded("run"), best, 1e-5);
  EXPECT_NEAR(loss_of_loaded("run/latest"), early["validation_loss"].get<double>(), 1e-5);
}

TEST_F(YokeTrainEarly, ResumedRunEndsAtTheSameStepWithTheSameBest) {
  const Json whole = json_of(words({"--early-stopping", "3", "--save", folder_ / "whole"}));
  const auto bits = [&](const std::string& name) {
    return test::read_whole(folder_ / (name + "/best/latest/weights.safetensors")) +
           test::read_whole(folder_ / (name + "/latest/weights.safetensors"));
  };
  std::mt19937 random(41);
  for (int kills = 0; kills < 5; ++kills) {  // from before the first checkpoint to the end of the run
    Command command(
        words({"--early-stopping", "3", "--save", folder_ / "parts", "--resume", "--save-every", "1"}));
    std::uniform_real_distribution<double> seconds(0, whole["seconds"].get<double>());
    std::this_thread::sleep_for(std::chrono::duration<double>(seconds(random)));
    command.signal(SIGKILL);
    command.wait();
  }
  const std::vector<std::string> rest =
      words({"--early-stopping", "3", "--save", folder_ / "parts", "--resume"});
  const Json parts = json_of(rest);
  EXPECT_EQ(parts["steps"], whole["steps"]);
  EXPECT_EQ(parts["best_step"], whole["best_step"]);
  EXPECT_TRUE(bits("parts") == bits("whole"));
  EXPECT_EQ(json_of(rest)["steps"], whole["steps"]);  // it has ended
  EXPECT_TRUE(bits("parts") == bits("whole"));
  EXPECT_THAT(run(words({"--save", folder_ / "parts", "--resume"})).err,
              HasSubstr("belongs to a run with --early-stopping 'on', but this one has 'off'"));
}

TEST_F(YokeTrainEarly, EndedRunKeepsItsConfigurationUntilItGoesOn) {
  const auto train = [&](const std::vector<std::string>& more) {
    return json_of(words(joined({"--save", folder_ / "run", "--resume"}, more)));
  };
  const auto config = [&] { return test::read_whole(folder_ / "run/config.toml"); };
  const Json first = train({"--early-stopping", "3"});
  ASSERT_TRUE(first["stopped_early"].get<bool>());
  const std::string before = config();
  EXPECT_THAT(before, AllOf(HasSubstr("early-stopping = 3\n"), Not(HasSubstr("keep ="))));
  EXPECT_EQ(train({"--early-stopping", "3", "--keep", "2"})["steps"], first["steps"]);
  EXPECT_EQ(config(), before);
  EXPECT_GT(train({"--early-stopping", "5"})["steps"], first["steps"]);
  EXPECT_THAT(config(), HasSubstr("early-stopping = 5\n"));
}

TEST_F(YokeTrainEarly, PlateauReducesTheRateAndAResumedRunHasTheSameBits) {
  const std::vector<std::string> plateau =
      words({"--schedule", "plateau:factor=0.5,patience=2,cooldown=1", "--report", folder_ / "r.html"});
  const Json constant = json_of(words({"--schedule", "constant", "--save", folder_ / "constant"}));
  const auto whole = run(joined(plateau, {"--save", folder_ / "whole"}));
  ASSERT_EQ(whole.code, 0) << whole.err;
  EXPECT_THAT(whole.out, HasSubstr("the test loss has not improved; the learning rate is now 0.01\n"));
  EXPECT_THAT(whole.out, HasSubstr("the learning rate is now 0.005\n"));
  const auto bits = [&](const std::string& name) {
    return test::read_whole(folder_ / (name + "/latest/weights.safetensors")) +
           test::read_whole(folder_ / (name + "/latest/optimizer.safetensors"));
  };
  EXPECT_FALSE(bits("whole") == bits("constant"));
  // Two steps are an epoch: a checkpoint is written before the evaluation, or in the middle of an epoch.
  for (const std::string every : {"1", "3"}) {
    const std::string save = folder_ / ("parts" + every);
    for (const char* epochs : {"3", "8", "9", "20", "21", "60"}) {  // a run that ended may go on
      std::vector<std::string> shorter = joined(plateau, {"--save", save, "--resume", "--save-every", every});
      *(std::find(shorter.begin(), shorter.end(), "--epochs") + 1) = epochs;
      ASSERT_EQ(run(shorter).code, 0);
    }
    EXPECT_TRUE(bits("parts" + every) == bits("whole")) << every;
  }
  for (int kills = 0; kills < 5; ++kills) {
    Command command(joined(plateau, {"--save", folder_ / "killed", "--resume", "--save-every", "1"}));
    std::this_thread::sleep_for(std::chrono::milliseconds(100 + 40 * kills));
    command.signal(SIGKILL);
    command.wait();
  }
  ASSERT_EQ(run(joined(plateau, {"--save", folder_ / "killed", "--resume"})).code, 0);
  EXPECT_TRUE(bits("killed") == bits("whole"));
}

TEST_F(YokeTrainEarly, ReportIsOnePageWithoutOtherFiles) {
  const std::filesystem::path data = folder_ / "<b>&'t'.csv";
  std::filesystem::copy_file(folder_ / "t.csv", data);
  const auto outcome =
      run({"train", "--data", data, "--epochs", "4", "--report", folder_ / "r.html", "--schedule", "linear"});
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_THAT(outcome.out, HasSubstr("report: "));
  const std::string page = test::read_whole(folder_ / "r.html");
  for (const std::string title : {"Loss", "Test rmse", "Learning rate", "Examples per second"}) {
    EXPECT_THAT(page, HasSubstr("<h2>" + title + "</h2><svg")) << title;
  }
  EXPECT_THAT(page,
              AllOf(HasSubstr("&lt;b&gt;&amp;&#39;t&#39;.csv"), Not(HasSubstr("<b>")), HasSubstr("yoke 0."),
                    HasSubstr("plugins: cc "), HasSubstr("<th>schedule</th><td>linear</td>")));
  for (const std::string outside : {"http", "src=", "href=", "@import", "url(", "<script", "nan", "inf "}) {
    EXPECT_THAT(page, Not(HasSubstr(outside)));
  }
  EXPECT_EQ(page.substr(page.size() - 8), "</html>\n");
}

TEST_F(YokeTrainEarly, ReportIsWrittenWhenARunIsStopped) {
  Command command({"train", "--epochs", "1000000", "--report", folder_ / "r.html"});
  ASSERT_TRUE(command.wait_for_output("epoch 2/"));
  command.signal(SIGINT);
  const auto outcome = command.wait();
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  const std::string page = test::read_whole(folder_ / "r.html");
  EXPECT_THAT(page,
              AllOf(HasSubstr("stopped before the end"), HasSubstr("Test accuracy"), HasSubstr("<svg")));
}

TEST_F(YokeTrainEarly, PredictTakesTheLatestCheckpointIfThereIsNoBestOne) {
  ASSERT_EQ(run(words({"--save", folder_ / "run"})).code, 0);
  std::filesystem::create_directory(std::filesystem::path(folder_ / "run") / "best");
  const auto outcome = run({"predict", "--from", folder_ / "run", "--data", folder_ / "test.csv"});
  EXPECT_EQ(outcome.code, 0) << outcome.err;
}

TEST_F(YokeTrainEarly, WrongUseIsAnError) {
  EXPECT_EQ(run({"train", "--early-stopping", "0"}).code, 2);
  const auto plateau = run({"train", "--schedule", "plateau:factor=2"});
  EXPECT_EQ(plateau.code, 2);
  EXPECT_THAT(plateau.err, HasSubstr("--schedule: factor must be at least 0 and less than 1"));
  EXPECT_THAT(run({"train", "--report", "r.txt"}).err, HasSubstr("--report takes a file that ends in .html"));
  const auto outcome = run({"train", "--epochs", "1", "--report", folder_ / "none/r.html"});
  EXPECT_EQ(outcome.code, 1);
  EXPECT_EQ(outcome.out, "");
}

}  // namespace
}  // namespace yoke
