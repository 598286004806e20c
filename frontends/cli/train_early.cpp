// SPDX-License-Identifier: Apache-2.0
// frontends/cli/train_early.cpp: keeps the parameters with the lowest test loss.
#include "train_early.h"

#include "train_watch.h"

namespace yoke::cli {

void EarlyStopping::start(const Trainer& trainer) {
  steps_per_epoch_ = trainer.steps_per_epoch();
  if (const auto best = checkpoints_.best()) {
    best_step_ = best->step;
    best_loss_ = best->loss;
  }
}

void EarlyStopping::evaluated(Trainer& trainer, double loss) {
  if (options_.early_stopping == 0 || !(loss < best_loss_)) {
    return;
  }
  if (checkpoints_.is_on()) {
    checkpoints_.save_best(trainer, loss);
  } else if (!options_.save.empty()) {
    best_ = LossWatch::values_of(trainer);
  }
  best_loss_ = loss;  // not earlier: after an Error, the next lower loss is saved again
  best_step_ = trainer.step_count();
}

bool EarlyStopping::is_over(const Trainer& trainer) const {
  return options_.early_stopping != 0 &&
         trainer.step_count() - best_step_ >= options_.early_stopping * steps_per_epoch_;
}

bool EarlyStopping::restore_best(Trainer& trainer) const {
  for (std::size_t i = 0; i < best_.size(); ++i) {
    trainer.owner_params()[i].set_values(best_[i]);
  }
  return !best_.empty();
}

}  // namespace yoke::cli
