// SPDX-License-Identifier: Apache-2.0
// frontends/cli/train_shards.cpp: divides the cores of a backend's devices between shards.
#include "train_shards.h"

#include <yoke/data_parallel.h>

#include <algorithm>
#include <cmath>
#include <string>

namespace yoke::cli {

ComputeWork compute_work(const TrainOptions& options, const TrainData& data) {
  std::uint64_t width = data.train_inputs.element_count() / data.train_inputs.dims()[0];
  std::vector<std::uint64_t> widths = options.hidden;
  widths.push_back(data.class_count);
  ComputeWork work{.rows = std::max<std::int64_t>(1, options.batch / options.accumulate),
                   .layer_count = static_cast<std::uint32_t>(widths.size())};
  // Forward, and backward for the parameters and for the inputs; the first layer's inputs need no gradient.
  double passes = 2;
  for (const std::uint64_t next : widths) {
    work.operations_per_row += passes * 2 * static_cast<double>(width * next);
    work.parameter_count += width * next + next;
    width = next;
    passes = 3;
  }
  return work;
}

CoreSplit split_cores(std::int64_t cores, const ComputeWork& work, std::optional<std::int64_t> threads,
                      std::int64_t reproducible) {
  constexpr double kSame = 1.02;
  const std::int64_t most = std::min({cores, work.rows, std::int64_t{kMaxShards}});
  CoreSplit best{1, threads.value_or(cores)};
  if (threads) {
    best.shards = std::clamp(cores / *threads, std::int64_t{1}, std::int64_t{kMaxShards});
  }
  if (threads && reproducible == 0) {
    return best;
  }
  for (std::int64_t shards = 1; shards <= most; ++shards) {
    const CoreSplit split{shards, threads.value_or(cores / shards)};
    const bool is_allowed = reproducible == 0 || reproducible % shards == 0;
    const bool fits = shards == 1 || shards * split.threads <= cores;
    if (is_allowed && fits && (shards == 1 || step_seconds(split, work) * kSame < step_seconds(best, work))) {
      best = split;
    }
  }
  return best;
}

void choose_shards(TrainOptions& options, const TrainData& data, const Runtime& runtime, Backend& backend,
                   std::vector<Option>& device_options) {
  const auto specs = backend.option_specs();
  const bool has_threads = std::any_of(specs.begin(), specs.end(), [](const OptionSpec& spec) {
    return spec.name == "threads" && spec.type == YOKE_OPTION_INTEGER &&
           spec.scope == YOKE_OPTION_SCOPE_DEVICE;
  });
  std::int64_t cores = 0;
  for (std::uint32_t ordinal = 0; ordinal < backend.device_count(); ++ordinal) {
    cores += backend.device_info(ordinal).compute_unit_count;
  }
  if (!has_threads || cores == 0) {
    return;  // the trainer uses what the devices suggest
  }
  const auto given = std::find_if(device_options.begin(), device_options.end(),
                                  [](const Option& option) { return option.name == "threads"; });
  std::optional<std::int64_t> threads;
  if (given != device_options.end()) {
    threads = std::get<std::int64_t>(given->value);
  }
  const ComputeWork work = compute_work(options, data);
  const CoreSplit split = split_cores(cores, work, threads, options.reproducible);
  options.shards = split.shards;
  if (!threads && split.threads > 1) {
    device_options.push_back({"threads", split.threads});
    options.device_options.push_back("threads=" + std::to_string(split.threads));
  }
  const auto microseconds = [&](const CoreSplit& one) {
    return std::to_string(std::llround(step_seconds(one, work) * 1e6));
  };
  runtime.log(LogLevel::kInfo,
              "train.shards shards=" + std::to_string(split.shards) +
                  " threads=" + std::to_string(split.threads) + " cores=" + std::to_string(cores) +
                  " batch=" + std::to_string(options.batch) + " expected_step_us=" + microseconds(split) +
                  " one_shard_us=" + microseconds({1, cores}) +
                  " one_thread_us=" + microseconds({std::min(cores, work.rows), 1}));
}

}  // namespace yoke::cli
