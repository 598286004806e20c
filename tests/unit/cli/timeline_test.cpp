// SPDX-License-Identifier: Apache-2.0
// tests/unit/cli/timeline_test.cpp: reads the timelines that yoke train writes.
#include "timeline.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <chrono>
#include <map>
#include <nlohmann/json.hpp>
#include <thread>

#include "command.h"
#include "train_progress.h"

namespace yoke {
namespace {

using cli::Timeline;
using nlohmann::json;
using test::run;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

// The events of a file by the name of their lane, in order of time.
std::map<std::string, std::vector<json>> lanes_of(const std::string& file) {
  const json all = json::parse(test::read_whole(file));
  std::map<int, std::string> names;
  std::map<std::string, std::vector<json>> lanes;
  for (const json& event : all.at("traceEvents")) {
    if (event.at("ph") == "M" && event.at("name") == "thread_name") {
      names[event.at("tid")] = event.at("args").at("name");
    } else if (event.at("ph") == "X") {
      lanes[names.at(event.at("tid"))].push_back(event);
    }
  }
  for (auto& [name, events] : lanes) {
    std::stable_sort(events.begin(), events.end(),
                     [](const json& a, const json& b) { return a["ts"] < b["ts"]; });
  }
  return lanes;
}

std::ptrdiff_t count(const std::vector<json>& events, const std::string& key, const std::string& value) {
  return std::count_if(events.begin(), events.end(),
                       [&](const json& event) { return event.at(key) == value; });
}

TEST(YokeTimeline, HasALanePerStreamWithEveryLaunchAndNoOverlaps) {
  const test::TemporaryFolder folder;
  const std::string file = folder / "run.json";
  // Half-moons have 2,000 points: 20 steps of 100.
  const auto outcome = run({"train", "--epochs", "2", "--batch", "100", "--shards", "3", "--merge", "tree",
                            "--trace", file, "--json"});
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  const auto lanes = lanes_of(file);
  std::size_t events_in_all = 0;
  for (const auto& [name, events] : lanes) {
    EXPECT_THAT(name, HasSubstr("shard "));
    events_in_all += events.size();
    EXPECT_EQ(count(events, "name", "gradient"), 40);
    double last_end = 0;
    for (const json& event : events) {
      // Rounded to nanoseconds.
      EXPECT_GE(event["ts"].get<double>(), last_end - 0.002) << name << ": " << event;
      last_end = event["ts"].get<double>() + event["dur"].get<double>();
    }
  }
  ASSERT_EQ(lanes.size(), 3U);
  // Each step: 2 + 1 sums in a tree of three, an update, and a copy of the parameters to each other shard.
  std::ptrdiff_t sums = 0;
  std::ptrdiff_t updates = 0;
  for (const auto& [name, events] : lanes) {
    sums += count(events, "name", "merge_sum");
    updates += count(events, "name", "update");
    EXPECT_GE(count(events, "name", "device_to_device"), name.starts_with("shard 0") ? 0 : 40);
    const auto gradient = std::find_if(events.begin(), events.end(),
                                       [](const json& event) { return event["name"] == "gradient"; });
    EXPECT_EQ(gradient->at("args").at("step"), 0);
  }
  EXPECT_EQ(sums, 80);
  EXPECT_EQ(updates, 40);
  EXPECT_THAT(outcome.out, HasSubstr("\"events\":" + std::to_string(events_in_all)));
  EXPECT_THAT(outcome.err, HasSubstr(" ms over all shards, 0 % of it hidden behind computing\n"));
}

TEST(YokeTimeline, FileThatCannotBeWrittenIsAnError) {
  const test::TemporaryFolder folder;
  const auto missing = run({"train", "--timeline", folder / "none" / "run.json"});
  EXPECT_EQ(missing.code, 1);
  EXPECT_THAT(missing.err, HasSubstr("cannot save to "));
  const auto full = run({"train", "--epochs", "1", "--timeline", "/dev/full"});
  EXPECT_EQ(full.code, 1);
  EXPECT_THAT(full.err, HasSubstr("cannot save to /dev/full: it is not a regular file"));
}

TEST(YokeTimeline, RefusedRunLeavesTheFileUnchanged) {
  const test::TemporaryFolder folder;
  test::write_file(folder / "old.json", "old");
  for (const std::vector<std::string>& wrong :
       {std::vector<std::string>{"--data", folder / "none"}, {"--backend", "nope"}, {"--batch", "100000"}}) {
    std::vector<std::string> words{"train", "--timeline", folder / "old.json"};
    words.insert(words.end(), wrong.begin(), wrong.end());
    EXPECT_NE(run(words).code, 0);
    EXPECT_EQ(test::read_whole(folder / "old.json"), "old") << wrong[0];
    EXPECT_EQ(folder.names().size(), 1U) << wrong[0];
  }
}

TEST(YokeTimeline, FullDiskDoesNotLoseTheResults) {
  const test::TemporaryFolder folder;
  test::Outcome outcome;
  {
    const test::FileSizeLimit full(10000);
    outcome = run({"train", "--epochs", "2", "--json", "--timeline", folder / "run.json"});
  }
  EXPECT_EQ(outcome.code, 1);
  EXPECT_EQ(test::json_value(outcome.out, "epochs"), "2");
  EXPECT_THAT(outcome.err,
              AllOf(HasSubstr("time: "), HasSubstr("cannot save to "), HasSubstr("File too large")));
  EXPECT_TRUE(folder.names().empty());
}

TEST(YokeProgress, LineFitsTheTerminal) {
  const std::string before = "epoch 1/300 ";
  const std::string after = "loss 0.7020, 84,587 examples/s, 7.1 s left";
  for (std::size_t width = 1; width < 120; ++width) {
    EXPECT_LT(cli::progress_line(before, 0.5, after, width).size(), width) << width;
  }
  EXPECT_EQ(cli::progress_line(before, 0.5, after, 200), before + "[############............] " + after);
  EXPECT_EQ(cli::progress_line(before, 1, after, 80), before + "[######################] " + after);
  EXPECT_EQ(cli::progress_line(before, 1, after, 60), before + after);
}

TEST(YokeProgress, LineShowsEpochStepLossRateAndTimeLeft) {
  std::ostringstream out;
  ::testing::internal::CaptureStderr();
  cli::Progress progress(out, true, 3, 10, 25, 20, [] { return 0.25; });
  progress.begin_epoch(2);
  progress.step_done(3);
  EXPECT_THAT(::testing::internal::GetCapturedStderr(),
              ::testing::MatchesRegex(".*epoch 2/3, step 14/25 .*loss 0.2500, [0-9,]+ examples/s, .* left"));
  EXPECT_EQ(out.str(), "");
}

TEST(YokeProgress, RateOfAResumedRunLeavesOutTheStepsBeforeIt) {
  std::ostringstream out;
  ::testing::internal::CaptureStderr();
  cli::Progress progress(out, true, 10, 1000, 10'000, 1, [] { return 0.25; });
  progress.begin_epoch(10);
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  progress.step_done(500);
  EXPECT_THAT(::testing::internal::GetCapturedStderr(),
              ::testing::MatchesRegex(".*step 9501/10000 .*loss 0.2500, [0-9]{1,2} examples/s, .* left"));
}

WorkRecord launch(const char* stream, const char* name, std::uint64_t begin_ns, std::uint64_t end_ns) {
  WorkRecord work;
  work.stream = stream;
  work.name = name;
  work.begin_ns = begin_ns;
  work.end_ns = end_ns;
  return work;
}

TEST(TimelineTest, MergingIsHiddenWhileTheSameShardComputes) {
  const test::TemporaryFolder folder;
  Timeline timeline((folder / "run.json").string());
  const std::uint64_t second = 1'000'000'000;
  const auto at = [&](double seconds) {
    return static_cast<std::uint64_t>(seconds * static_cast<double>(second));
  };
  timeline.add(launch("shard 0 on a", "gradient", at(1), at(2)));
  timeline.add(launch("shard 0 on a", "gradient", at(3), at(4)));
  timeline.add(launch("shard 0 on a/merge", "merge_sum", at(1.5), at(3.25)));  // 0.75 s hidden
  timeline.settle();
  timeline.add(launch("shard 1 on a", "gradient", at(5), at(9)));
  timeline.add(launch("shard 0 on a/merge", "update", at(6), at(7)));  // another shard computes
  timeline.finish();
  EXPECT_DOUBLE_EQ(timeline.merge_seconds(), 2.75);
  EXPECT_DOUBLE_EQ(timeline.hidden_seconds(), 0.75);
  EXPECT_EQ(lanes_of((folder / "run.json").string()).size(), 3U);
}

}  // namespace
}  // namespace yoke
