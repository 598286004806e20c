// SPDX-License-Identifier: Apache-2.0
// frontends/cli/train_run.h: the body of yoke train's call of data_parallel: the loop over epochs.
#pragma once

#include <yoke/data_parallel.h>
#include <yoke/nn.h>

#include <chrono>
#include <cstdint>
#include <functional>
#include <iosfwd>
#include <optional>

#include "stop_request.h"
#include "timeline.h"
#include "train.h"
#include "train_checkpoints.h"
#include "train_early.h"
#include "train_memory.h"
#include "train_progress.h"
#include "train_report.h"
#include "train_watch.h"

namespace yoke::cli {

class TrainRun {
 public:
  // Keeps the references. `timeline` may be null.
  TrainRun(const TrainOptions& options, const TrainData& data, const nn::Module& model, std::ostream& out,
           TrainReport* report, Timeline* timeline, TrainCheckpoints* checkpoints, StopRequest* stop);

  // The learning rate of --schedule plateau.
  const Scalar& rate() const { return rate_; }

  // For calls during the set-up. Throws Error kAborted after a signal.
  void check_set_up() const;
  void train(Trainer& trainer, const MemoryCheck& memory);

 private:
  Evaluation make_evaluation(Trainer& trainer);
  double loss_so_far(Trainer& trainer, Progress& progress);
  bool after_step(Trainer& trainer, Progress& progress, std::int64_t step_in_epoch);
  void run_epoch(Trainer& trainer, Evaluation& evaluation, Progress& progress, std::int64_t epoch);
  void stop_at_bad_step(Trainer& trainer, Progress& progress);
  void evaluate(Trainer& trainer, Evaluation& evaluation, EpochReport& report);
  void resume(Trainer& trainer, Evaluation& evaluation, Progress& progress);
  void stop_early(Trainer& trainer, Progress& progress, double loss);
  void adapt_rate(const Trainer& trainer, Progress& progress, double loss);
  void add_to_curve(Trainer& trainer, Progress& progress);
  bool is_at_end(const Trainer& trainer) const;
  void save(Trainer& trainer, Progress& progress);
  void save_checkpoint(Trainer& trainer);
  void save(const std::function<void()>& write);

  const TrainOptions& options_;
  const TrainData& data_;
  const nn::Module& model_;
  std::ostream& out_;
  TrainReport* report_;
  Timeline* timeline_;
  TrainCheckpoints* checkpoints_;
  StopRequest& stop_;
  bool is_set_up_ = false;
  LossWatch watch_;
  EarlyStopping early_;
  const Scalar rate_;
  std::optional<ReduceOnPlateau> plateau_;
  double loss_sum_ = 0;
  std::int64_t loss_steps_ = 0;   // in loss_sum_
  std::int64_t epoch_steps_ = 0;  // done in this epoch
  // The last point of the curve in this epoch.
  std::int64_t curve_steps_ = 0;
  double curve_sum_ = 0;
  std::chrono::steady_clock::time_point curve_time_;
};

}  // namespace yoke::cli
