// SPDX-License-Identifier: Apache-2.0
// frontends/cli/train_watch.cpp: reads losses, and keeps the parameters of the last good step.
#include "train_watch.h"

#include <cmath>
#include <limits>
#include <utility>

namespace yoke::cli {

LossWatch::Values LossWatch::values_of(Trainer& trainer) {
  trainer.sync_params_to_host();
  Values values;
  for (const Parameter& parameter : trainer.owner_params()) {
    values.emplace_back(parameter.values().begin(), parameter.values().end());
  }
  return values;
}

std::string LossWatch::bad_text(Trainer& trainer) const {
  if (!bad_step_) {
    return "the test loss is infinite or nan after step " + std::to_string(trainer.step_count());
  }
  return (is_test_ ? "the test loss is infinite or nan after step "
                   : "the loss became infinite or nan at step ") +
         std::to_string(*bad_step_) + " (epoch " +
         std::to_string((*bad_step_ - 1) / trainer.steps_per_epoch() + 1) + ")";
}

void LossWatch::look(Trainer& trainer, double loss, Progress& progress) {
  if (said_ || std::isfinite(loss)) {
    return;
  }
  said_ = true;
  if (const auto step = trainer.first_bad_step()) {
    bad_step_ = *step + 1;
  }
  progress.warn(bad_text(trainer) + "; try a smaller --lr" + (options_.momentum > 0 ? " or --momentum" : "") +
                (options_.reduction == Reduction::kSum ? ", or --reduction mean" : "") +
                (bad_step_ ? "; --stop-on-nan ends a run there" : ""));
}

void LossWatch::look_sometimes(Trainer& trainer, Progress& progress) {
  const auto now = std::chrono::steady_clock::now();
  if (said_ || now - looked_ < std::chrono::seconds(1)) {
    return;
  }
  looked_ = now;
  if (trainer.first_bad_step()) {
    look(trainer, std::numeric_limits<double>::quiet_NaN(), progress);
  }
}

void LossWatch::before_training(Trainer& trainer) {
  latest_ = values_of(trainer);
}

bool LossWatch::after_step(Trainer& trainer) {
  if (!std::isfinite(trainer.loss_value())) {
    said_ = true;
    bad_step_ = trainer.step_count();
    return false;
  }
  good_ = std::exchange(latest_, values_of(trainer));
  good_step_ = trainer.step_count() - 1;
  return true;
}

bool LossWatch::after_test(Trainer& trainer, double loss) {
  if (std::isfinite(loss)) {
    return true;
  }
  said_ = is_test_ = true;
  bad_step_ = trainer.step_count();
  return false;
}

std::optional<std::int64_t> LossWatch::restore_good(Trainer& trainer) {
  for (std::size_t i = 0; i < good_.size(); ++i) {
    trainer.owner_params()[i].set_values(good_[i]);
  }
  return good_.empty() ? std::nullopt : std::optional(good_step_);
}

}  // namespace yoke::cli
