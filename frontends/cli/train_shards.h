// SPDX-License-Identifier: Apache-2.0
// frontends/cli/train_shards.h: how many shards and threads a run gets by default.
#pragma once

#include <yoke/runtime/cost_model.h>
#include <yoke/runtime/runtime.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "train.h"

namespace yoke::cli {

// The work of one step of the model that the options describe. Precondition: `options` are complete.
ComputeWork compute_work(const TrainOptions& options, const TrainData& data);

// Divides cores between shards. Of the splits whose step_seconds() is within 2 % of the lowest, returns the one with
// the fewest shards. `threads` per shard is the number that the user chose, if any; the shards then use all cores. If
// `reproducible` is not 0, the number of shards divides it. Precondition: cores and threads are at least 1.
CoreSplit split_cores(std::int64_t cores, const ComputeWork& work, std::optional<std::int64_t> threads,
                      std::int64_t reproducible = 0);

// Without --shards: sets options.shards, and the device option "threads", so that the run uses all cores that the
// devices of the backend have. A backend without that option gets as many shards as its devices suggest.
void choose_shards(TrainOptions& options, const TrainData& data, const Runtime& runtime, Backend& backend,
                   std::vector<Option>& device_options);

}  // namespace yoke::cli
