// SPDX-License-Identifier: Apache-2.0
// runtime/parallel/core_split.cpp: estimates a training step on the cores of a CPU, by shards and threads.
#include <yoke/runtime/cost_model.h>

#include <algorithm>
#include <cmath>

namespace yoke {

// The figures are those of a recent core with AVX-512, in round numbers. They are fixed, so that a run has the same
// shards, and so the same bits, on every machine with as many cores.
double step_seconds(const CoreSplit& split, const ComputeWork& work) {
  constexpr double kRate = 6e10;   // operations per second and core
  constexpr double kMemory = 8e9;  // bytes per second and core, from memory
  constexpr double kCache = 3e10;  // and from a core's cache
  constexpr double kCacheBytes = 1e6;
  constexpr double kStatements = 5;  // of a layer, that threads share
  constexpr double kFork = 2e-6;     // of a statement, and for each thread
  constexpr double kForkThread = 5e-7;
  constexpr double kSerial = 0.02;  // share of the time that another thread does not shorten
  constexpr double kMeet = 8e-6;    // waiting for the slowest shard
  constexpr double kShard = 3e-6;   // host time of a shard's launches
  const auto shards = static_cast<double>(split.shards);
  const auto threads = static_cast<double>(split.threads);
  const double bytes = 4 * static_cast<double>(work.parameter_count);
  const double rows = std::ceil(static_cast<double>(work.rows) / shards);
  // Forward, and backward for the inputs and for the parameters, each read all parameters.
  const double one_thread =
      std::max(rows * work.operations_per_row / kRate, 3 * bytes / (bytes <= kCacheBytes ? kCache : kMemory));
  const double fork = threads > 1 ? work.layer_count * kStatements * (kFork + threads * kForkThread) : 0;
  // Work that is too small for several threads runs on one.
  double seconds = std::min(one_thread, one_thread / threads * (1 + kSerial * (threads - 1)) + fork);
  if (split.shards == 1) {
    return seconds + 2 * bytes / (threads * kMemory);  // the update, in the same program
  }
  seconds += kMeet + shards * kShard;
  seconds += bytes / (threads * kMemory);  // gradients are stored, and summed up by all
  return seconds + (shards + 2) * bytes / (shards * threads * kMemory);
}

}  // namespace yoke
