// SPDX-License-Identifier: Apache-2.0
// frontends/cli/timeline.h: writes the work of a run for trace viewers, and measures how much of merging is
// hidden behind computing.
#pragma once

#include <yoke/output_file.h>
#include <yoke/runtime/runtime.h>

#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

namespace yoke::cli {

// One file with a lane per stream, in the format of chrome://tracing. Thread-safe.
class Timeline {
 public:
  // Throws Error if the file cannot be created. The file is replaced only when finish() is called.
  explicit Timeline(std::filesystem::path file);

  // For RuntimeOptions::on_work.
  void add(const WorkRecord& work);
  // Adds the work recorded so far to the sums below. Call it while no stream works.
  void settle();
  // Completes the file. Call it once. Throws Error if the file could not be written.
  void finish();
  // Writes no file; an existing file stays unchanged.
  void discard();

  const std::filesystem::path& file() const { return file_; }
  std::uint64_t event_count() const { return event_count_; }
  // Time of merging, updating and publishing parameters, in seconds, summed over all shards; and the part of it
  // during which the same shard computed gradients or metrics.
  double merge_seconds() const { return merge_seconds_; }
  double hidden_seconds() const { return hidden_seconds_; }

 private:
  using Interval = std::pair<std::uint64_t, std::uint64_t>;  // begin and end, in ns
  struct Shard {
    std::vector<Interval> computing, merging;  // not settled
  };

  int lane_of(const WorkRecord& work);

  const std::filesystem::path file_;
  std::unique_ptr<OutputFile> out_;                // null after finish()
  const std::uint64_t start_ns_;                   // time 0 of the file
  std::mutex mutex_;                               // guards the members below
  std::map<std::string, int, std::less<>> lanes_;  // by stream
  std::map<std::string, Shard, std::less<>> shards_;
  std::uint64_t event_count_ = 0;
  double merge_seconds_ = 0;
  double hidden_seconds_ = 0;
};

// Completes the file, also if the run fails, unless it failed before the first work. The runtime may keep the timeline
// longer than the run.
class TimelineEnd {
 public:
  explicit TimelineEnd(Timeline* timeline) : timeline_(timeline) {}  // may be null
  ~TimelineEnd();
  TimelineEnd(const TimelineEnd&) = delete;
  TimelineEnd& operator=(const TimelineEnd&) = delete;

  void finish();   // Timeline::finish
  void discard();  // Timeline::discard

 private:
  Timeline* timeline_;
};

}  // namespace yoke::cli
