// SPDX-License-Identifier: Apache-2.0
// frontends/cli/timeline.cpp: streams events to the file as they are recorded.
#include "timeline.h"

#include <algorithm>
#include <chrono>
#include <exception>
#include <string_view>
#include <utility>

#include "json.h"
#include "text.h"

namespace yoke::cli {
namespace {

std::uint64_t steady_ns() {
  const auto now = std::chrono::steady_clock::now().time_since_epoch();
  return static_cast<std::uint64_t>(std::chrono::duration_cast<std::chrono::nanoseconds>(now).count());
}

enum class Part { kCompute, kMerge, kOther };

// Sums of gradients, updates, and copies between shards are merging. A step of a single shard is computing.
Part part_of(const WorkRecord& work) {
  switch (work.kind) {
    case WorkRecord::Kind::kLaunch:
      return work.name == "merge_sum" || work.name == "update" ? Part::kMerge : Part::kCompute;
    case WorkRecord::Kind::kCopy:
      return work.name == "device_to_device" ? Part::kMerge : Part::kOther;
    case WorkRecord::Kind::kCollective:
      return Part::kMerge;
    default:
      return Part::kOther;
  }
}

const char* category(const WorkRecord& work) {
  switch (work.kind) {
    case WorkRecord::Kind::kLaunch:
      return part_of(work) == Part::kMerge ? "merge" : "compute";
    case WorkRecord::Kind::kCopy:
      return "copy";
    case WorkRecord::Kind::kFill:
      return "fill";
    case WorkRecord::Kind::kCollective:
      return "merge";
    case WorkRecord::Kind::kWait:
      return "wait";
    case WorkRecord::Kind::kCallback:
      return "callback";
  }
  return "work";
}

double microseconds(std::uint64_t ns) {
  return static_cast<double>(ns) / 1e3;
}

// Sorts intervals and joins those that overlap.
template <class Intervals>
void join_overlaps(Intervals& intervals) {
  std::sort(intervals.begin(), intervals.end());
  std::size_t kept = 0;
  for (const auto& interval : intervals) {
    if (kept > 0 && interval.first <= intervals[kept - 1].second) {
      intervals[kept - 1].second = std::max(intervals[kept - 1].second, interval.second);
    } else {
      intervals[kept++] = interval;
    }
  }
  intervals.resize(kept);
}

}  // namespace

Timeline::Timeline(std::filesystem::path file)
    : file_(std::move(file)), out_(std::make_unique<OutputFile>(file_)), start_ns_(steady_ns()) {
  out_->stream() << R"({"displayTimeUnit":"ms","traceEvents":[)" << '\n'
                 << R"({"ph":"M","name":"process_name","pid":1,"args":{"name":"yoke train"}})";
}

int Timeline::lane_of(const WorkRecord& work) {
  const auto [lane, is_new] =
      lanes_.try_emplace(std::string(work.stream), static_cast<int>(lanes_.size()) + 1);
  if (is_new) {
    out_->stream() << ",\n"
                   << json_text({{"ph", "M"},
                                 {"name", "thread_name"},
                                 {"pid", 1},
                                 {"tid", lane->second},
                                 {"args", {{"name", lane->first}}}});
  }
  return lane->second;
}

void Timeline::add(const WorkRecord& work) {
  const std::lock_guard lock(mutex_);
  if (out_ == nullptr) {
    return;  // work of an abandoned stream
  }
  const int lane = lane_of(work);
  Json args = Json::object();
  if (work.step >= 0) {
    args["step"] = work.step;
  }
  if (work.byte_count != 0) {
    args["bytes"] = work.byte_count;
  }
  if (!work.tensor.empty()) {
    args["tensor"] = work.tensor;
  }
  const std::uint64_t begin = std::max(work.begin_ns, start_ns_) - start_ns_;
  const std::uint64_t end = std::max(work.end_ns, start_ns_) - start_ns_;
  out_->stream() << ",\n"
                 << json_text({{"ph", "X"},
                               {"pid", 1},
                               {"tid", lane},
                               {"ts", microseconds(begin)},
                               {"dur", microseconds(end - begin)},
                               {"cat", category(work)},
                               {"name", work.name},
                               {"args", std::move(args)}});
  ++event_count_;
  if (const Part part = part_of(work); part != Part::kOther) {
    Shard& shard = shards_[std::string(work.stream.substr(0, work.stream.find('/')))];
    (part == Part::kMerge ? shard.merging : shard.computing).emplace_back(work.begin_ns, work.end_ns);
  }
}

void Timeline::settle() {
  const std::lock_guard lock(mutex_);
  for (auto& [name, shard] : shards_) {
    join_overlaps(shard.computing);
    join_overlaps(shard.merging);
    auto computing = shard.computing.begin();
    for (const auto& [begin, end] : shard.merging) {
      merge_seconds_ += static_cast<double>(end - begin) / 1e9;
      while (computing != shard.computing.end() && computing->second <= begin) {
        ++computing;
      }
      for (auto at = computing; at != shard.computing.end() && at->first < end; ++at) {
        hidden_seconds_ += static_cast<double>(std::min(end, at->second) - std::max(begin, at->first)) / 1e9;
      }
    }
    shard = {};
  }
}

void Timeline::finish() {
  settle();
  const std::lock_guard lock(mutex_);
  const std::unique_ptr<OutputFile> out = std::move(out_);
  out->stream() << "\n]}\n";
  out->commit();
}

void Timeline::discard() {
  const std::lock_guard lock(mutex_);
  out_ = nullptr;
}

TimelineEnd::~TimelineEnd() {
  try {
    if (timeline_ != nullptr && timeline_->event_count() == 0) {
      discard();
      return;
    }
    finish();
  } catch (const std::exception&) {  // the run's own error is more useful
  }
}

void TimelineEnd::discard() {
  if (Timeline* const timeline = std::exchange(timeline_, nullptr)) {
    timeline->discard();
  }
}

void TimelineEnd::finish() {
  if (Timeline* const timeline = std::exchange(timeline_, nullptr)) {
    timeline->finish();
  }
}

}  // namespace yoke::cli
