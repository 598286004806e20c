// SPDX-License-Identifier: Apache-2.0
// frontends/tensor/src/trainer_measure.cpp: measures how fast each kind of device computes gradients, to weight the
// rows of its shards.
#include <algorithm>
#include <cmath>
#include <limits>
#include <thread>

#include "trainer_impl.h"

namespace yoke {

namespace {

constexpr int kRounds = 5;
constexpr double kRoundSeconds = 0.005;  // much longer than the interval at which streams are polled
constexpr double kMostRepeats = 100;
constexpr double kLargestWeight = 1000;

}  // namespace

// Per shard: the backend, and the device's description.
std::vector<std::string> Trainer::Impl::device_kinds() const {
  std::vector<std::string> kinds;
  for (std::size_t k = 0; k < shard_backends.size(); ++k) {
    kinds.push_back(shard_backends[k]->name() + ": " +
                    shard_backends[k]->device_info(shard_ordinals[k]).name);
  }
  return kinds;
}

// Computes gradients on all shards at the same time, as a step does. Returns the seconds until each has finished.
std::vector<double> Trainer::Impl::time_gradients(int repeats) {
  const detail::Stopwatch watch;
  for (int i = 0; i < repeats; ++i) {
    queue_gradients();
  }
  std::vector<double> seconds(shards.size(), 0);
  for (std::size_t left = shards.size(); left > 0;) {
    for (std::size_t k = 0; k < shards.size(); ++k) {
      if (seconds[k] == 0 && shards[k].stream->is_idle()) {
        seconds[k] = std::max(watch.seconds(), 1e-9);
        --left;
      }
    }
    if (std::chrono::duration<double>(watch.seconds()) > runtime->options().wait_timeout) {
      throw Error(
          ErrorCode::kDeadlineExceeded,
          "measuring the shards' speed missed the deadline; give row weights, or a longer wait timeout");
    }
    std::this_thread::sleep_for(std::chrono::microseconds(20));
  }
  return seconds;
}

// Zeros instead of a feed's first batch, which the caller supplies only once.
void Trainer::Impl::pretend_batch() {
  if (!is_fed()) {
    return;
  }
  const std::uint64_t zero = 0;
  for (std::size_t s = 0; s < micro_batches.size(); ++s) {
    const Context& slot = micro_batches[s].slots[0];
    for (const Field& field : data.fields()) {
      if (slot_rows(s) > 0) {
        slot.stream()->fill(slot.tensor(field.name).view, &zero, 1);
      }
    }
  }
  if (is_varying()) {
    fed_rows[0] = plan.rows;
  }
  fetched = 1;
}

// Weights in proportion to rows per second, the same for all shards on devices of a kind. A separate setup
// does the work, so that it leaves nothing in the run.
void Trainer::Impl::measure_row_weights() {
  const std::vector<std::string> kinds = device_kinds();
  const bool is_mixed =
      std::any_of(kinds.begin(), kinds.end(), [&](const std::string& kind) { return kind != kinds.front(); });
  if (!options.measure_row_weights || !is_mixed) {
    return;
  }
  Impl trial;
  trial.options = options;
  trial.options.measure_row_weights = false;
  trial.options.on_device_lost = OnDeviceLost::kFail;
  trial.options.runtime = runtime;
  trial.data = data;
  trial.feed = feed;
  trial.loss_of = loss_of;
  trial.is_trial = true;
  trial.set_up();
  trial.pretend_batch();
  if (trial.rows_of(trial.variants[0], shard_backends.size() - 1) == 0) {
    return;  // fewer rows than shards
  }
  std::map<std::string, double> seconds_per_row;  // by kind
  trial.time_gradients(1);
  double once = std::numeric_limits<double>::infinity();  // the fastest: others may have been interrupted
  for (int round = 0; round < kRounds; ++round) {
    const std::vector<double> seconds = trial.time_gradients(1);
    once = std::min(once, *std::max_element(seconds.begin(), seconds.end()));
  }
  const int repeats = static_cast<int>(std::clamp(kRoundSeconds / once, 1.0, kMostRepeats));
  for (int round = 0; round < kRounds; ++round) {
    const std::vector<double> seconds = trial.time_gradients(repeats);
    std::map<std::string, std::pair<double, double>> measured;  // of seconds and rows
    for (std::size_t k = 0; k < kinds.size(); ++k) {
      measured[kinds[k]].first += seconds[k];
      measured[kinds[k]].second += static_cast<double>(trial.rows_of(trial.variants[0], k));
    }
    for (const auto& [kind, sum] : measured) {
      double& best = seconds_per_row.try_emplace(kind, std::numeric_limits<double>::infinity()).first->second;
      best = std::min(best, sum.first / sum.second);
    }
  }
  double fastest = std::numeric_limits<double>::infinity();
  for (const auto& [kind, seconds] : seconds_per_row) {
    fastest = std::min(fastest, seconds);
  }
  std::string text;
  for (const std::string& kind : kinds) {
    const double weight = std::round(kLargestWeight * fastest / seconds_per_row.at(kind));
    options.row_weights.push_back(std::max<std::int64_t>(1, static_cast<std::int64_t>(weight)));
    text += (text.empty() ? "" : ",") + std::to_string(options.row_weights.back());
  }
  runtime->log(LogLevel::kInfo, "train.row_weights measured=" + text);
}

}  // namespace yoke
