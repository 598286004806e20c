// SPDX-License-Identifier: Apache-2.0
// frontends/cli/train_run.cpp: trains epoch by epoch, evaluates, prints progress and saves.
#include "train_run.h"

#include <yoke/losses.h>
#include <yoke/npz.h>
#include <yoke/runtime/counted.h>
#include <yoke/train_helpers.h>

#include <algorithm>
#include <cmath>
#include <exception>
#include <ostream>
#include <utility>

#include "stopwatch.h"
#include "text.h"
#include "train_setup.h"

namespace yoke::cli {
namespace {

// A warning about shards or micro-batches that get no rows of a batch; empty if all get rows.
std::string idle_text(const TrainOptions& options, std::int64_t shards) {
  const std::int64_t parts = options.reproducible != 0 ? options.reproducible : shards * options.accumulate;
  const std::int64_t idle = parts - options.batch;
  if (idle <= 0) {
    return {};
  }
  const char* const option = options.reproducible != 0 ? "--reproducible" : "--accumulate";
  return std::to_string(idle) + " of " + std::to_string(parts) +
         (parts == shards ? " shards" : " micro-batches") + (idle == 1 ? " is" : " are") +
         " idle, because a batch has " + detail::counted(options.batch, "example") +
         "; use a larger --batch, or " +
         (parts == shards ? "fewer shards" : "a smaller " + std::string(option));
}

// Names the given options that have no effect with one shard; empty: every option has an effect.
std::string unused_text(const TrainOptions& options, std::int64_t shards) {
  if (shards != 1) {
    return {};
  }
  const std::vector<std::pair<const char*, bool>> merging = {
      {"--merge", options.merge != MergeStrategy::kAuto && options.reproducible == 0},
      {"--placement", options.placement != Placement::kAuto},
      {"--overlap", options.overlap == Overlap::kOn},
      {"--wire", options.wire != Wire::kFull},
      {"--row-weights", !options.row_weights.empty() || options.measure_row_weights}};
  std::string names;
  for (const auto& [name, is_given] : merging) {
    names += is_given ? (names.empty() ? "" : ", ") + std::string(name) : "";
  }
  return names.empty() ? names : "one shard has nothing to merge, so this has no effect: " + names;
}

}  // namespace

TrainRun::TrainRun(const TrainOptions& options, const TrainData& data, const nn::Module& model,
                   std::ostream& out, TrainReport* report, Timeline* timeline, TrainCheckpoints* checkpoints,
                   StopRequest* stop)
    : options_(options),
      data_(data),
      model_(model),
      out_(out),
      report_(report),
      timeline_(timeline),
      checkpoints_(checkpoints),
      stop_(*stop),
      watch_(options),
      early_(options, checkpoints),
      rate_(scalar("learning_rate", options.learning_rate)) {
  if (options.plateau) {
    plateau_.emplace(rate_, *options.plateau);
  }
}

void TrainRun::check_set_up() const {
  if (!is_set_up_ && StopRequest::has_signal()) {
    throw Error(ErrorCode::kAborted, "stopped during the set-up; nothing was trained or saved");
  }
}

void TrainRun::train(Trainer& trainer, const MemoryCheck& memory) {
  report_->devices = trainer.device_names();
  report_->merge = merge_strategy_name(trainer.merge_strategy());
  report_->placement = placement_name(trainer.placement());
  report_->merge_reason = trainer.merge_reason();
  report_->overlaps = trainer.overlaps();
  report_->row_weights = trainer.row_weights();
  report_->shards = trainer.shards();
  Evaluation evaluation = make_evaluation(trainer);
  check_set_up();
  is_set_up_ = true;
  report_->memory = memory.needs();
  report_->compile_seconds = trainer.compile_seconds();
  report_->setup_seconds += trainer.setup_seconds() - trainer.compile_seconds();
  out_ << options_.model << precision_text(options_) << " on " << report_->devices << ", "
       << detail::counted(report_->shards, "shard") << ", "
       << detail::counted(trainer.steps_per_epoch(), "step") << " of "
       << detail::counted(options_.batch, "example") << " per epoch, "
       << (report_->shards == 1 ? "" : "gradient merge " + report_->merge + row_weights_text(*report_) + ", ")
       << byte_text(memory.total()) << " of memory" << std::endl;
  if (options_.merge == MergeStrategy::kAuto && report_->shards > 1) {
    out_ << "merge: " << report_->merge_reason << std::endl;
  }
  Progress progress(out_, can_redraw(), options_.epochs, trainer.steps_per_epoch(),
                    total_steps(options_, data_), options_.batch,
                    [&] { return loss_so_far(trainer, progress); });
  for (const std::string& text :
       {idle_text(options_, report_->shards), unused_text(options_, report_->shards)}) {
    if (!text.empty()) {
      progress.warn(text);
    }
  }
  resume(trainer, evaluation, progress);
  while (!is_at_end(trainer) && !report_->stopped && !report_->stopped_early) {
    run_epoch(trainer, evaluation, progress, trainer.step_count() / trainer.steps_per_epoch() + 1);
  }
  if (report_->epochs.empty()) {  // the run had ended before
    evaluate(trainer, evaluation, report_->epochs.emplace_back());
    watch_.look(trainer, report_->epochs.back().test_loss, progress);
  }
  if (!report_->stopped) {
    save(trainer, progress);
  }
  report_->steps = trainer.step_count();
  report_->best_step = early_.best_step();
  report_->best_loss = early_.best_loss();
  report_->lost_shards = trainer.lost_shards();
  report_->loss_scale = trainer.loss_scale();
  report_->first_bad_step = watch_.bad_step();
}

void TrainRun::resume(Trainer& trainer, Evaluation& evaluation, Progress& progress) {
  if (const std::int64_t done = checkpoints_->start(trainer, plateau_ ? &*plateau_ : nullptr); done > 0) {
    report_->resumed_step = done;
    out_ << "resuming after step " << done << std::endl;
  }
  if (const std::string text = checkpoints_->unused_text(trainer); !text.empty()) {
    progress.warn(text);
  }
  if (is_at_end(trainer)) {
    out_ << "nothing is trained, because the run ends after step " << total_steps(options_, data_)
         << (options_.schedule_needs_steps
                 ? "; the rates of --schedule " + options_.schedule +
                       " depend on this number; to train further, start from its parameters with --load and "
                       "another --save"
                 : std::string("; a larger ") + (options_.steps != 0 ? "--steps" : "--epochs") +
                       " continues it")
         << std::endl;
  }
  if (options_.stop_on_nan) {
    watch_.before_training(trainer);
  }
  early_.start(trainer);
  if (report_->resumed_step && (options_.early_stopping != 0 || plateau_) &&
      (trainer.step_count() % trainer.steps_per_epoch() == 0 || is_at_end(trainer))) {
    EpochReport last;  // the run may have been killed between the checkpoint and its evaluation
    evaluate(trainer, evaluation, last);
    watch_.look(trainer, last.test_loss, progress);
    adapt_rate(trainer, progress, last.test_loss);
    stop_early(trainer, progress, last.test_loss);
  }
}

// Each epoch counts once, also if a checkpoint was written before its evaluation or after.
void TrainRun::adapt_rate(const Trainer& trainer, Progress& progress, double loss) {
  if (!plateau_ || trainer.step_count() % trainer.steps_per_epoch() != 0 ||
      plateau_->observation_count() >= trainer.step_count() / trainer.steps_per_epoch()) {
    return;
  }
  if (plateau_->observe(loss)) {
    progress.line("the test loss has not improved; the learning rate is now " + shortest(rate_.value()));
  }
}

Evaluation TrainRun::make_evaluation(Trainer& trainer) {
  const Timed timed(&report_->setup_seconds);
  return trainer.evaluation(data_.test_inputs, data_.test_labels, [this](const Tensor& x, const Tensor& y) {
    return metrics_of(data_, model_(x), y);
  });
}

bool TrainRun::is_at_end(const Trainer& trainer) const {
  return trainer.step_count() >= total_steps(options_, data_);
}

// The mean over the epoch's steps so far. Trainer::mean_loss covers only the steps since its last call.
double TrainRun::loss_so_far(Trainer& trainer, Progress& progress) {
  const std::int64_t fresh = epoch_steps_ - loss_steps_;
  if (fresh > 0) {
    // Always the mean over the rows, so that the number is comparable for every reduction of the gradients.
    loss_sum_ += trainer.mean_loss(Reduction::kMean) * static_cast<double>(fresh);
    loss_steps_ = epoch_steps_;
  }
  watch_.look(trainer, loss_sum_, progress);
  return loss_sum_ / static_cast<double>(loss_steps_);
}

// Returns false if the run ends here.
bool TrainRun::after_step(Trainer& trainer, Progress& progress, std::int64_t step_in_epoch) {
  ++epoch_steps_;
  if (options_.stop_on_nan && !watch_.after_step(trainer)) {
    return false;
  }
  watch_.look_sometimes(trainer, progress);
  progress.step_done(step_in_epoch);
  add_to_curve(trainer, progress);
  if (checkpoints_->is_due(trainer)) {
    save_checkpoint(trainer);
    if (!report_->save_error.empty() && report_->save_warning.empty() && !is_at_end(trainer)) {
      report_->save_warning = report_->save_error;
      progress.warn(report_->save_warning + "; the run goes on");
    }
    curve_time_ = std::chrono::steady_clock::now();
  }
  return !stop_.made() && !is_at_end(trainer);
}

void TrainRun::run_epoch(Trainer& trainer, Evaluation& evaluation, Progress& progress, std::int64_t epoch) {
  EpochReport report;
  loss_sum_ = 0;
  loss_steps_ = epoch_steps_ = 0;
  curve_sum_ = 0;
  curve_steps_ = 0;
  curve_time_ = std::chrono::steady_clock::now();
  progress.begin_epoch(epoch);
  double seconds = 0;
  bool is_whole = false;
  const double saved_before = report_->save_seconds;
  {
    const Timed timed(&seconds);
    is_whole = trainer.run_epoch([&](std::int64_t step) { return after_step(trainer, progress, step); });
    report_->stopped = stop_.made() || (!is_whole && !is_at_end(trainer));
    report.train_loss = loss_so_far(trainer, progress);
    trainer.wait();
  }
  if (timeline_ != nullptr) {
    timeline_->settle();
  }
  seconds -= report_->save_seconds - saved_before;
  const std::int64_t rows =
      std::min(epoch_steps_ * options_.batch, static_cast<std::int64_t>(data_.train_count()));
  report_->examples += rows;
  report_->step_seconds += seconds;
  report_->finished_epochs += trainer.step_count() % trainer.steps_per_epoch() == 0 ? 1 : 0;
  report.examples_per_second = static_cast<double>(rows) / seconds;
  if (options_.stop_on_nan && watch_.bad_step()) {
    report.step = trainer.step_count();  // without metrics, because those of nan parameters would be nan
    report_->epochs.push_back(report);
    stop_at_bad_step(trainer, progress);
    return;
  }
  if (report_->stopped) {  // save first: the evaluation may take long
    progress.line("stopped after step " + std::to_string(trainer.step_count()) + ", in epoch " +
                  std::to_string(epoch) + " of " + std::to_string(options_.epochs));
    save(trainer, progress);
    progress.line("evaluating; a second signal ends the run at once");
  }
  evaluate(trainer, evaluation, report);
  report_->epochs.push_back(report);
  if (options_.stop_on_nan && !watch_.after_test(trainer, report.test_loss)) {
    stop_at_bad_step(trainer, progress);
    return;
  }
  watch_.look(trainer, report.test_loss, progress);
  progress.line(epoch_text(epoch, options_.epochs, report, data_.is_regression));
  adapt_rate(trainer, progress, report.test_loss);
  if (is_whole || is_at_end(trainer)) {  // not where a signal stopped it: the run may go on later
    stop_early(trainer, progress, report.test_loss);
  }
}

void TrainRun::stop_early(Trainer& trainer, Progress& progress, double loss) {
  if (options_.early_stopping == 0) {
    return;
  }
  const auto keep = [&] { early_.evaluated(trainer, loss); };
  if (checkpoints_->is_on()) {
    const Timed timed(&report_->save_seconds);
    save(keep);
  } else {
    keep();
  }
  report_->stopped_early = early_.is_over(trainer);
  if (report_->stopped_early) {
    progress.line("the test loss has not improved in " + detail::counted(options_.early_stopping, "epoch") +
                  (early_.has_best() ? "; the best was " + fixed(early_.best_loss(), 4) + " after step " +
                                           std::to_string(early_.best_step())
                                     : std::string()));
  }
}

// Waits for the losses, about 200 times in a run.
void TrainRun::add_to_curve(Trainer& trainer, Progress& progress) {
  constexpr std::int64_t kPoints = 200;
  const std::int64_t every = std::max<std::int64_t>(1, total_steps(options_, data_) / kPoints);
  if (options_.report.empty() || trainer.step_count() % every != 0) {
    return;
  }
  loss_so_far(trainer, progress);
  const auto now = std::chrono::steady_clock::now();
  const auto steps = static_cast<double>(loss_steps_ - curve_steps_);
  const std::chrono::duration<double> seconds = now - curve_time_;
  report_->curve.push_back(
      {.step = trainer.step_count(),
       .loss = (loss_sum_ - curve_sum_) / steps,
       .learning_rate = trainer.learning_rate_value(),
       .examples_per_second = steps * static_cast<double>(options_.batch) / seconds.count()});
  curve_sum_ = loss_sum_;
  curve_steps_ = loss_steps_;
  curve_time_ = now;
}

void TrainRun::evaluate(Trainer& trainer, Evaluation& evaluation, EpochReport& report) {
  const Timed timed(&report_->evaluation_seconds);
  const std::vector<double> metrics = evaluation.run();
  report.step = trainer.step_count();
  report.test_loss = metrics.at(0);
  if (data_.is_regression) {
    report.rmse = std::sqrt(report.test_loss) * data_.target_deviation;
  } else {
    // The accuracy is a fraction of the rows in f32; recover the exact number of rows.
    const auto count = static_cast<double>(data_.test_labels.element_count());
    report.test_accuracy = std::round(metrics.at(1) * count) / count;
  }
}

void TrainRun::stop_at_bad_step(Trainer& trainer, Progress& progress) {
  report_->stopped = true;
  const std::optional<std::int64_t> good_step = watch_.restore_good(trainer);
  progress.error(watch_.bad_text(trainer) + "; stopped; try a smaller --lr");
  if (const auto step = checkpoints_->saved_step(); checkpoints_->is_on() && step) {
    progress.warn("the latest checkpoint in " + options_.checkpoints.string() + " is of step " +
                  std::to_string(*step) + "; its parameters may already diverge");
  } else if (checkpoints_->is_on()) {
    if (report_->save_error.empty()) {
      progress.warn(
          "no checkpoint was saved, because none was due before that step; --save-every "
          "saves more often, and --save with a file saves the last parameters that gave a finite loss");
    }
  } else if (!options_.save.empty() && !good_step) {
    progress.warn("nothing was saved, because no step had a finite loss");
  } else if (good_step && !options_.save.empty()) {
    save([&] { save_params(options_.save, trainer.owner_params()); });
    if (report_->saved) {
      progress.line("saved the last parameters that gave a finite loss, those after " +
                    detail::counted(*good_step, "step") + ", to " + options_.save.string());
    }
  }
}

void TrainRun::save(Trainer& trainer, Progress& progress) {
  if (checkpoints_->is_on()) {
    save_checkpoint(trainer);
    if (report_->saved && report_->resumed_step != trainer.step_count()) {  // else nothing is new
      progress.line("saved checkpoints to " + options_.checkpoints.string());
    }
  } else if (!options_.save.empty()) {
    const bool is_best = early_.restore_best(trainer);
    save([&] {
      is_best ? save_params(options_.save, trainer.owner_params()) : trainer.save_params(options_.save);
    });
    if (report_->saved) {
      progress.line((is_best ? "saved the best parameters to " : "saved the parameters to ") +
                    options_.save.string());
    }
  }
}

void TrainRun::save_checkpoint(Trainer& trainer) {
  const Timed timed(&report_->save_seconds);
  save([&] { checkpoints_->save(trainer); });
}

// The failure of the last attempt is reported at the end, after the run's results.
void TrainRun::save(const std::function<void()>& write) {
  try {
    write();
    report_->saved = true;
    report_->save_error.clear();
  } catch (const std::exception& error) {
    report_->saved = false;
    report_->save_error = error.what();
  }
}

}  // namespace yoke::cli
