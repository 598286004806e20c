// SPDX-License-Identifier: Apache-2.0
// frontends/cli/train_early.h: ends a run whose validation loss no longer improves, and keeps the best parameters.
#pragma once

#include <yoke/data_parallel.h>

#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

#include "train.h"
#include "train_checkpoints.h"

namespace yoke::cli {

// Does nothing without --early-stopping.
class EarlyStopping {
 public:
  EarlyStopping(const TrainOptions& options, TrainCheckpoints* checkpoints)
      : options_(options), checkpoints_(*checkpoints) {}

  void start(const Trainer& trainer);
  // After an evaluation at the end of an epoch or of the run. Keeps the parameters if no loss was lower.
  void evaluated(Trainer& trainer, double loss);
  // Whether --early-stopping evaluations have passed since the best one. It depends only on the steps, so a run that
  // was killed and goes on ends at the same step.
  bool is_over(const Trainer& trainer) const;
  // Makes the best parameters of a run without checkpoints those of the model. Returns false if there are none.
  bool restore_best(Trainer& trainer) const;

  bool has_best() const { return best_step_ > 0; }
  double best_loss() const { return best_loss_; }
  std::int64_t best_step() const { return best_step_; }

 private:
  const TrainOptions& options_;
  TrainCheckpoints& checkpoints_;
  std::int64_t steps_per_epoch_ = 1;
  std::int64_t best_step_ = 0;
  double best_loss_ = std::numeric_limits<double>::infinity();
  std::vector<std::vector<std::byte>> best_;  // per parameter, without checkpoints
};

}  // namespace yoke::cli
