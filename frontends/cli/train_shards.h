// SPDX-License-Identifier: Apache-2.0
// frontends/cli/train_shards.h: how many shards and threads a run gets by default.
#pragma once

#include <yoke/runtime/runtime.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "train.h"

namespace yoke::cli {

struct CoreSplit {
  std::int64_t shards = 1;
  std::int64_t threads = 1;  // per shard
};

// Divides cores between shards. Programs of separate shards run without waiting for each other, so there are as many
// shards as possible with 32 rows of a batch each, and at least two; threads take the rest of the cores. Among the
// numbers of shards that use most cores, takes the largest. `threads` is the number that the user chose, if any.
// Precondition: all are at least 1.
CoreSplit split_cores(std::int64_t cores, std::int64_t batch, std::optional<std::int64_t> threads);

// Without --shards: sets options.shards, and the device option "threads", so that the run uses all cores that the
// devices of the backend have. A backend without that option gets as many shards as its devices suggest.
// Precondition: options.batch is set.
void choose_shards(TrainOptions& options, const Runtime& runtime, Backend& backend,
                   std::vector<Option>& device_options);

}  // namespace yoke::cli
