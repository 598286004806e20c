// SPDX-License-Identifier: Apache-2.0
// frontends/cli/train_shards.cpp: divides the cores of a backend's devices between shards.
#include "train_shards.h"

#include <yoke/data_parallel.h>

#include <algorithm>
#include <bit>
#include <string>

namespace yoke::cli {

CoreSplit split_cores(std::int64_t cores, std::int64_t batch, std::optional<std::int64_t> threads) {
  constexpr std::int64_t kRowsPerShard = 32;
  if (threads) {
    return {std::clamp(cores / *threads, std::int64_t{1}, std::int64_t{kMaxShards}), *threads};
  }
  const std::int64_t most =
      std::min({std::max<std::int64_t>(2, batch / kRowsPerShard), cores, std::int64_t{kMaxShards}});
  CoreSplit best{1, cores};
  for (std::int64_t shards = 2; shards <= most; ++shards) {
    if (shards * (cores / shards) >= best.shards * best.threads) {
      best = {shards, cores / shards};
    }
  }
  return best;
}

void choose_shards(TrainOptions& options, const Runtime& runtime, Backend& backend,
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
  CoreSplit split =
      split_cores(cores, std::max<std::int64_t>(1, options.batch / options.accumulate), threads);
  if (options.reproducible != 0) {  // the shards must divide the micro-batches
    const auto power = static_cast<std::int64_t>(std::bit_floor(static_cast<std::uint64_t>(split.shards)));
    split.shards = std::min(power, options.reproducible);
    split.threads = threads.value_or(std::max<std::int64_t>(1, cores / split.shards));
  }
  options.shards = split.shards;
  if (!threads && split.threads > 1) {
    device_options.push_back({"threads", split.threads});
    options.device_options.push_back("threads=" + std::to_string(split.threads));
  }
  runtime.log(LogLevel::kInfo, "train.shards shards=" + std::to_string(split.shards) + " threads=" +
                                   std::to_string(split.threads) + " cores=" + std::to_string(cores) +
                                   " batch=" + std::to_string(options.batch));
}

}  // namespace yoke::cli
