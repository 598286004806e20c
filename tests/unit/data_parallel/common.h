// SPDX-License-Identifier: Apache-2.0
// tests/unit/data_parallel/common.h: runtimes, options and data for tests of the trainer.
#pragma once

#include <yoke/yoke.h>

#include <atomic>
#include <chrono>
#include <cstddef>
#include <iterator>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "fake_backend.h"
#include "rounds.h"
#include "test_paths.h"

namespace yoke::testing {

inline const char* backend_name() {
  return "cc";
}

inline std::shared_ptr<Runtime> test_runtime(RuntimeOptions options = {}) {
  options.plugin_dirs = {test::plugin_folder()};
  options.search_environment = false;
  return std::make_shared<Runtime>(options);
}

inline DataParallelOptions options_for(std::int64_t shards, float rate) {
  DataParallelOptions options;
  options.shards = shards;
  options.learning_rate = rate;
  options.backend_name = backend_name();
  options.runtime = test_runtime();
  return options;
}

inline constexpr MergeStrategy kStrategies[] = {MergeStrategy::kOwner, MergeStrategy::kTree,
                                                MergeStrategy::kDirect, MergeStrategy::kRing};
inline constexpr Placement kPlacements[] = {Placement::kOwner, Placement::kEverywhere, Placement::kSharded};

using test::kTriesAll;

using Counts = std::vector<std::int64_t>;  // of shards to try

// Every strategy with every placement; without kTriesAll, each strategy with one of them.
inline std::vector<std::pair<MergeStrategy, Placement>> strategies_and_placements() {
  std::vector<std::pair<MergeStrategy, Placement>> pairs;
  for (std::size_t i = 0; i < std::size(kStrategies); ++i) {
    for (std::size_t j = 0; j < std::size(kPlacements); ++j) {
      if (kTriesAll || (i + 1) % std::size(kPlacements) == j) {
        pairs.emplace_back(kStrategies[i], kPlacements[j]);
      }
    }
  }
  return pairs;
}

// Reproducible pseudo-random numbers in [-1, 1).
inline std::vector<float> some_numbers(std::size_t count, std::uint32_t seed) {
  std::vector<float> values(count);
  std::uint32_t state = seed * 2654435761U + 1;
  for (float& value : values) {
    state = state * 1664525U + 1013904223U;
    value = static_cast<float>(state >> 8) / static_cast<float>(1U << 23) - 1.0F;
  }
  return values;
}

// Holds back what is queued on streams after hold(), until it is opened, at the latest when it is destroyed.
class Gate {
 public:
  Gate() = default;
  ~Gate() { open(); }
  Gate(const Gate&) = delete;
  Gate& operator=(const Gate&) = delete;
  void hold(Stream& stream) {
    stream.host_callback([is_open = is_open_](ErrorCode) {
      while (!*is_open) {
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
      }
    });
  }
  void open() { *is_open_ = true; }
  // Whether it was open when the work that is queued so far on the stream had ended. Waits for that.
  bool was_open_for(Stream& stream) {
    const auto seen = std::make_shared<std::atomic<bool>>(false);
    stream.host_callback([is_open = is_open_, seen](ErrorCode) { *seen = is_open->load(); });
    std::this_thread::sleep_for(
        std::chrono::milliseconds(20));  // a stream that does not wait has run by then
    open();
    stream.wait();
    return *seen;
  }

 private:
  std::shared_ptr<std::atomic<bool>> is_open_ = std::make_shared<std::atomic<bool>>(false);
};

// The values of all parameters, concatenated.
inline std::vector<float> all_values(Trainer& trainer) {
  std::vector<float> values;
  for (const Parameter& parameter : trainer.owner_params()) {
    const std::vector<float> part = trainer.read_values(parameter.name());
    values.insert(values.end(), part.begin(), part.end());
  }
  return values;
}

}  // namespace yoke::testing
