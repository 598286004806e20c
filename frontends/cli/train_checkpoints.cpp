// SPDX-License-Identifier: Apache-2.0
// frontends/cli/train_checkpoints.cpp: reads and writes the checkpoints of yoke train.
#include "train_checkpoints.h"

#include <yoke/runtime/error.h>

#include "text.h"

namespace yoke::cli {
namespace {

// The options that decide what the parameters become, besides those in TrainerState.
std::map<std::string, std::string> notes_of(const TrainOptions& options, const TrainData& data) {
  std::map<std::string, std::string> notes = {
      {"model", options.model},
      {"lr", shortest(options.learning_rate)},
      {"momentum", shortest(options.momentum)},
      {"weight-decay", shortest(options.weight_decay)},
      {"no-decay", join(options.no_decay, ",")},
      {"clip", options.clip},
      {"nesterov", options.nesterov ? "on" : "off"},
      {"reduction", options.reduction == Reduction::kMean ? "mean" : "sum"},
      {"schedule", options.schedule},
      {"shuffle", options.shuffle ? "on" : "off"},
      {"lines", options.lines ? "on" : "off"},
      {"reproducible", std::to_string(options.reproducible)},
      {"task", data.is_regression ? "regression" : "classification"},
      {"label", options.label},
      {"split", options.splits.empty() ? "" : std::to_string(options.split)},
      {"test-share", shortest(options.test_share)}};
  if (options.schedule != "constant") {
    notes["steps"] = std::to_string(total_steps(options, data));
  }
  return notes;
}

}  // namespace

TrainCheckpoints::TrainCheckpoints(const TrainOptions& options) : options_(options) {
  if (options.checkpoints.empty()) {
    return;
  }
  folder_.emplace(options.checkpoints, static_cast<std::uint32_t>(options.keep));
  if (!options.resume && folder_->latest()) {
    throw Error(
        ErrorCode::kFailedPrecondition,
        options.checkpoints.string() +
            " already has checkpoints; add --resume to continue from the latest, or choose another folder");
  }
}

void TrainCheckpoints::read(const TrainData& data) {
  notes_ = notes_of(options_, data);
  if (!folder_ || !folder_->latest()) {
    return;
  }
  const std::filesystem::path latest = *folder_->latest();
  found_ = load_checkpoint(latest);
  for (const auto& [name, value] : notes_) {
    const auto before = found_->notes.find(name);
    if (before != found_->notes.end() && before->second != value) {
      throw Error(ErrorCode::kInvalidArgument,
                  latest.string() + " is of a run with --" + name + " '" + before->second +
                      "', and this one has '" + value +
                      "'; give the same options, or start from its parameters with "
                      "--load and another --save");
    }
  }
}

std::int64_t TrainCheckpoints::start(Trainer& trainer) {
  if (!options_.load.empty()) {
    std::error_code ignored;
    const bool is_folder = std::filesystem::is_directory(options_.load, ignored);
    trainer.restore_params(is_folder ? checkpoint_weights(options_.load) : options_.load);
  }
  if (found_) {
    trainer.set_state(found_->state);
    saved_step_ = found_->state.step;
    found_.reset();
  }
  return trainer.step_count();
}

bool TrainCheckpoints::is_due(const Trainer& trainer) const {
  const std::int64_t every = options_.save_every != 0 ? options_.save_every : trainer.steps_per_epoch();
  return is_on() && trainer.step_count() % every == 0;
}

void TrainCheckpoints::save(Trainer& trainer) {
  if (folder_ && saved_step_ != trainer.step_count()) {
    folder_->save(trainer, notes_);
    saved_step_ = trainer.step_count();
  }
}

}  // namespace yoke::cli
