// SPDX-License-Identifier: Apache-2.0
// tests/unit/parallel/recorded.h: the calls of two training steps, with each strategy and placement.
#pragma once

#include <functional>
#include <string>
#include <tuple>

#include "call_graph.h"
#include "training.h"

namespace yoke::test {

inline constexpr std::uint32_t kWeights = 300;
inline constexpr int kSteps = 2;

// For tests of each strategy and placement, with and without overlap.
class AnyStep : public ::testing::TestWithParam<std::tuple<MergeStrategy, Placement, Overlap>> {
 public:
  static auto all() {
    return ::testing::Combine(::testing::ValuesIn(kStrategies), ::testing::ValuesIn(kPlacements),
                              ::testing::Values(Overlap::kOff, Overlap::kOn));
  }
  static std::string name(const ::testing::TestParamInfo<ParamType>& chosen) {
    const auto& [merge, placement, overlap] = chosen.param;
    return std::string(merge_strategy_name(merge)) + "_" + placement_name(placement) +
           (overlap == Overlap::kOn ? "_overlap" : "");
  }

 protected:
  static StepOptions options(std::uint64_t bucket_byte_count) {
    const auto& [merge, placement, overlap] = GetParam();
    return {
        .merge = merge, .placement = placement, .bucket_byte_count = bucket_byte_count, .overlap = overlap};
  }
};

// A training whose steps are recorded.
class Recorded {
 public:
  Recorded(std::uint32_t shards, const StepOptions& options) : training_(rig_, shards, kWeights, options) {}
  const Training& training() const { return training_; }
  // The number of calls that had been queued at the end of each step.
  const std::vector<std::size_t>& ends() const { return ends_; }

  // Queues the steps while the device is blocked, so that nothing finishes before all is queued.
  void queue_steps(const std::function<void()>& begin = {}) {
    for (const Context& context : training_.contexts()) {
      context.stream()->wait();
    }
    graph.clear();
    if (begin) {
      begin();
    }
    control_->is_blocked = true;
    for (int step = 0; step < kSteps; ++step) {
      training_.compute();
      training_.plan().step(training_.tables());
      ends_.push_back(graph.calls().size());
    }
  }
  // The weights of all shards.
  std::vector<float> finish() {
    control_->is_blocked = false;
    std::vector<float> all;
    for (const Context& context : training_.contexts()) {
      context.stream()->wait();
    }
    for (std::uint32_t k = 0; k < training_.contexts().size(); ++k) {
      const std::vector<float> own = training_.weights(k);
      all.insert(all.end(), own.begin(), own.end());
    }
    return all;
  }

 private:
  const std::shared_ptr<Control> control_ = Rig::make_control(Streams::kNative);

 public:
  CallGraph graph{*control_};

 private:
  const Rig rig_{control_};
  Training training_;
  std::vector<std::size_t> ends_;
};

}  // namespace yoke::test
