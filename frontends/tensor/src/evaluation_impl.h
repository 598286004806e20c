// SPDX-License-Identifier: Apache-2.0
// frontends/tensor/src/evaluation_impl.h: the state of an Evaluation.
#pragma once

#include "trainer_impl.h"

namespace yoke {

struct Evaluation::Impl {
  std::vector<double> run();

  // What it computes. Without on_device_lost = redistribute, the data is dropped when it has been uploaded.
  Batch data;
  MetricsOf metrics_of;
  std::uint64_t batch_rows = 0;
  std::string prefix;  // of its tensors
  // While the trainer exists: it knows which stream failed first and, with on_device_lost = redistribute, can replace
  // shards.
  std::unique_ptr<Trainer::Impl>* trainer = nullptr;

  // What the trainer's shards compute; created again when shards are lost.
  struct Parts {
    std::vector<Context> contexts;
    std::shared_ptr<const std::vector<SymbolTable>> trainer_symbols;
    std::vector<SymbolTable> symbols;              // the trainer's values, except for kRowSymbol
    std::shared_ptr<detail::ScalarTable> scalars;  // the trainer's
    // Per set of parameters and shard; unused for shards without rows.
    std::vector<std::vector<StepRoutine>> full, tail;
    std::vector<bool> has_full, has_tail;
    detail::RowPlan plan;
    std::size_t metric_count = 0;
    std::vector<std::string> totals;           // names of the sums in the contexts
    std::shared_ptr<const std::uint32_t> set;  // with the current parameters
  };
  Parts parts;
};

}  // namespace yoke
