// SPDX-License-Identifier: Apache-2.0
// frontends/cli/train_watch.h: notices a loss that is infinite or nan.
#pragma once

#include <yoke/data_parallel.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "train.h"
#include "train_progress.h"

namespace yoke::cli {

class LossWatch {
 public:
  using Values = std::vector<std::vector<std::byte>>;  // per parameter
  static Values values_of(Trainer& trainer);

  explicit LossWatch(const TrainOptions& options) : options_(options) {}

  // Prints a warning the first time that `loss`, a mean over recent steps or the test data, is not finite.
  void look(Trainer& trainer, double loss, Progress& progress);
  // Looks at all losses so far, at most once a second. Does not call mean_loss(), because the
  // times of its calls change the rounding of the mean.
  void look_sometimes(Trainer& trainer, Progress& progress);

  // For --stop-on-nan. before_training() copies the parameters, after_step() waits for the step's loss, and
  // returns whether it is finite; if so, it copies the parameters.
  void before_training(Trainer& trainer);
  bool after_step(Trainer& trainer);
  bool after_test(Trainer& trainer, double loss);  // returns whether the test loss is finite
  // Makes the last parameters that gave a finite loss the values of the model, and returns after how many steps the
  // model had them; empty: no step had a finite loss.
  std::optional<std::int64_t> restore_good(Trainer& trainer);

  // The first step, counted from 1, whose loss, or after which the test loss, was not finite.
  std::optional<std::int64_t> bad_step() const { return bad_step_; }
  std::string bad_text(Trainer& trainer) const;  // "the loss became infinite or nan at step 37 (epoch 2)"

 private:
  const TrainOptions& options_;
  std::optional<std::int64_t> bad_step_;
  bool said_ = false;
  bool is_test_ = false;  // the loss of bad_step_ is that of the test data
  std::chrono::steady_clock::time_point looked_ = std::chrono::steady_clock::now();
  Values latest_;               // with which the next step starts
  Values good_;                 // with which the last step with a finite loss started
  std::int64_t good_step_ = 0;  // the number of steps before it
};

}  // namespace yoke::cli
