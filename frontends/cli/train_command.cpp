// SPDX-License-Identifier: Apache-2.0
// frontends/cli/train_command.cpp: yoke train: one call of data_parallel, with progress and reports.
#include <yoke/data_parallel.h>
#include <yoke/losses.h>
#include <yoke/nn.h>
#include <yoke/npz.h>
#include <yoke/train_helpers.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <exception>
#include <functional>
#include <iostream>
#include <new>

#include "global_options.h"
#include "host_memory.h"
#include "stop_request.h"
#include "text.h"
#include "timeline.h"
#include "train.h"
#include "train_memory.h"
#include "train_progress.h"
#include "train_report.h"
#include "train_shards.h"
#include "train_watch.h"

namespace yoke::cli {
namespace {

class Stopwatch {
 public:
  double seconds() const {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count();
  }

 private:
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

// Adds the time between its construction and destruction to a sum.
class Timed {
 public:
  explicit Timed(double* sum) : sum_(sum) {}
  ~Timed() { *sum_ += watch_.seconds(); }
  Timed(const Timed&) = delete;
  Timed& operator=(const Timed&) = delete;

 private:
  double* sum_;
  Stopwatch watch_;
};

nn::Module make_model(const TrainOptions& options, std::uint64_t class_count) {
  std::vector<nn::Module> layers;
  for (const std::uint64_t width : options.hidden) {
    layers.push_back(nn::linear(width));
    layers.push_back(nn::relu());
  }
  layers.push_back(nn::linear(class_count));
  return nn::sequential(std::move(layers));
}

// The body of data_parallel: the loop over epochs.
class Run {
 public:
  // `timeline` may be null.
  Run(const TrainOptions& options, const TrainData& data, const nn::Module& model, std::ostream& out,
      TrainReport* report, Timeline* timeline)
      : options_(options),
        data_(data),
        model_(model),
        out_(out),
        report_(report),
        timeline_(timeline),
        watch_(options) {}

  void train(Trainer& trainer, const MemoryCheck& memory) {
    report_->devices = trainer.device_names();
    report_->merge = merge_strategy_name(trainer.merge_strategy());
    report_->placement = placement_name(trainer.placement());
    report_->merge_reason = trainer.merge_reason();
    report_->overlaps = trainer.overlaps();
    report_->row_weights = trainer.row_weights();
    report_->shards = trainer.shards();
    Evaluation evaluation = make_evaluation(trainer);
    report_->memory = memory.needs();
    report_->compile_seconds = trainer.compile_seconds();
    report_->setup_seconds += trainer.setup_seconds() - trainer.compile_seconds();
    out_ << options_.model << " on " << report_->devices << ", " << report_->shards
         << (report_->shards == 1 ? " shard, " : " shards, ") << trainer.steps_per_epoch()
         << (trainer.steps_per_epoch() == 1 ? " step of " : " steps of ") << options_.batch
         << " examples per epoch, gradient merge " << report_->merge << row_weights_text(*report_) << ", "
         << byte_text(memory.total()) << " of memory" << std::endl;
    if (options_.merge == MergeStrategy::kAuto && report_->shards > 1) {
      out_ << "merge: " << report_->merge_reason << std::endl;
    }
    Progress progress(out_, can_redraw(), options_.epochs, trainer.steps_per_epoch(), options_.batch,
                      [&] { return loss_so_far(trainer, progress); });
    if (const std::int64_t idle = report_->shards - options_.batch; idle > 0) {
      progress.warn(std::to_string(idle) + " of " + std::to_string(report_->shards) +
                    (idle == 1 ? " shards is idle" : " shards are idle") + ", because a batch has " +
                    std::to_string(options_.batch) + (options_.batch == 1 ? " example" : " examples") +
                    "; use a larger --batch, or fewer shards");
    }
    if (options_.stop_on_nan) {
      watch_.before_training(trainer);
    }
    for (std::int64_t epoch = 1; epoch <= options_.epochs && !report_->stopped; ++epoch) {
      run_epoch(trainer, evaluation, progress, epoch);
    }
    if (!report_->stopped) {
      save(trainer, progress);
    }
    report_->steps = trainer.step_count();
    report_->lost_shards = trainer.lost_shards();
    report_->first_bad_step = watch_.bad_step();
  }

 private:
  Evaluation make_evaluation(Trainer& trainer) {
    const Timed timed(&report_->setup_seconds);
    return trainer.evaluation(data_.test_inputs, data_.test_labels, [this](const Tensor& x, const Tensor& y) {
      const Tensor logits = model_(x);
      return std::vector<Tensor>{cross_entropy(logits, y), accuracy(logits, y)};
    });
  }

  // The mean over the epoch's steps so far. Trainer::mean_loss covers only the steps since its last call.
  double loss_so_far(Trainer& trainer, Progress& progress) {
    const std::int64_t fresh = epoch_steps_ - loss_steps_;
    if (fresh > 0) {
      // Always the mean over the rows, so that the number is comparable for every reduction of the gradients.
      loss_sum_ += trainer.mean_loss(Reduction::kMean) * static_cast<double>(fresh);
      loss_steps_ = epoch_steps_;
    }
    watch_.look(trainer, loss_sum_, progress);
    return loss_sum_ / static_cast<double>(loss_steps_);
  }

  void run_epoch(Trainer& trainer, Evaluation& evaluation, Progress& progress, std::int64_t epoch) {
    EpochReport report;
    loss_sum_ = 0;
    loss_steps_ = epoch_steps_ = 0;
    progress.begin_epoch(epoch);
    double seconds = 0;
    {
      const Timed timed(&seconds);
      const bool whole = trainer.run_epoch([&](std::int64_t step) {
        ++epoch_steps_;
        if (options_.stop_on_nan && !watch_.after_step(trainer)) {
          return false;
        }
        watch_.look_sometimes(trainer, progress);
        progress.step_done(step);
        return !stop_.made();
      });
      report_->stopped = !whole || stop_.made();
      report.train_loss = loss_so_far(trainer, progress);
      trainer.wait();
    }
    if (timeline_ != nullptr) {
      timeline_->settle();
    }
    const std::int64_t rows = std::min(epoch_steps_ * options_.batch,
                                       static_cast<std::int64_t>(data_.train_labels.element_count()));
    const bool finished = epoch_steps_ == trainer.steps_per_epoch();
    report_->examples += rows;
    report_->step_seconds += seconds;
    report_->finished_epochs += finished ? 1 : 0;
    report.examples_per_second = static_cast<double>(rows) / seconds;
    if (options_.stop_on_nan && watch_.bad_step()) {
      report_->epochs.push_back(report);
      stop_at_bad_step(trainer, progress);
      return;
    }
    if (report_->stopped) {  // save first: the evaluation may take long
      progress.line("stopped after step " + std::to_string(trainer.step_count()) + ", in epoch " +
                    std::to_string(epoch) + " of " + std::to_string(options_.epochs));
      save(trainer, progress);
    }
    {
      const Timed timed(&report_->evaluation_seconds);
      const std::vector<double> metrics = evaluation.run();
      report.test_loss = metrics.at(0);
      // The accuracy is a fraction of the rows in f32; recover the exact number of rows.
      const auto count = static_cast<double>(data_.test_labels.element_count());
      report.test_accuracy = std::round(metrics.at(1) * count) / count;
      watch_.look(trainer, report.test_loss, progress);
    }
    report_->epochs.push_back(report);
    progress.line(epoch_text(epoch, options_.epochs, report));
  }

  // Computes no metrics, because those of nan parameters would be nan.
  void stop_at_bad_step(Trainer& trainer, Progress& progress) {
    const bool has_good = watch_.restore_good(trainer);
    progress.error("the loss became infinite or nan at " + watch_.bad_step_text(trainer) +
                   "; stopped; try a smaller --lr");
    if (!options_.save.empty() && !has_good) {
      progress.warn("nothing was saved, because no step had a finite loss");
    } else if (has_good) {
      save(progress, [&] { save_params(options_.save, trainer.owner_params()); });
    }
  }

  void save(Trainer& trainer, Progress& progress) {
    save(progress, [&] { trainer.save_params(options_.save); });
  }

  // A failure to save is reported at the end, after the run's results.
  void save(Progress& progress, const std::function<void()>& write) {
    if (options_.save.empty()) {
      return;
    }
    try {
      write();
      report_->saved = true;
      progress.line("saved the parameters to " + options_.save.string());
    } catch (const std::exception& error) {
      report_->save_error = error.what();
    }
  }

  const TrainOptions& options_;
  const TrainData& data_;
  const nn::Module& model_;
  std::ostream& out_;
  TrainReport* report_;
  Timeline* timeline_;
  StopRequest stop_;
  LossWatch watch_;
  double loss_sum_ = 0;
  std::int64_t loss_steps_ = 0;   // in loss_sum_
  std::int64_t epoch_steps_ = 0;  // done in this epoch
};

std::vector<Option> parse_options(const Backend& backend, const std::vector<std::string>& texts) {
  try {
    return backend.parse_options(texts);
  } catch (const Error& error) {
    throw UsageError(std::string("--option: ") + error.what());
  }
}

// Loads the backends. Throws Error.
std::vector<std::shared_ptr<Backend>> load_backends(const TrainOptions& options, Runtime& runtime) {
  std::vector<std::shared_ptr<Backend>> backends;
  for (const std::string& part : split(options.backend, ',')) {
    backends.push_back(runtime.backend(part.substr(0, part.find(':'))));
  }
  return backends;
}

// Parses the device options with the backends' schemas. Throws UsageError.
std::vector<Option> device_options(const TrainOptions& options,
                                   const std::vector<std::shared_ptr<Backend>>& backends) {
  std::optional<std::vector<Option>> all;
  for (const auto& backend : backends) {
    if (options.device_options.empty()) {
      continue;
    }
    std::vector<Option> parsed = parse_options(*backend, options.device_options);
    for (std::size_t i = 0; all && i < parsed.size(); ++i) {
      if (parsed[i].value != all->at(i).value) {
        throw UsageError("--option " + options.device_options[i] + " has a different type in " +
                         backend->name() + " than in the backends before it in --backend " + options.backend +
                         "; use one backend, or leave the option out");
      }
    }
    all = std::move(parsed);
  }
  return all.value_or(std::vector<Option>());
}

Optimizer optimizer_of(const TrainOptions& options) {
  const std::string& name = options.optimizer;
  const double decay = options.weight_decay;
  return name == "adam"      ? Optimizer(Adam{.weight_decay = decay})
         : name == "adamw"   ? Optimizer(AdamW{.weight_decay = decay})
         : name == "rmsprop" ? Optimizer(RmsProp{.momentum = options.momentum, .weight_decay = decay})
         : name == "adagrad" ? Optimizer(Adagrad{.weight_decay = decay})
         : name == "lion"    ? Optimizer(Lion{.weight_decay = decay})
                             : Optimizer(Sgd{options.momentum, decay, options.nesterov});
}

DataParallelOptions parallel_options(const TrainOptions& options, std::shared_ptr<Runtime> runtime,
                                     std::vector<Option> device_options) {
  DataParallelOptions parallel;
  parallel.backend_name = options.backend;
  parallel.shards = options.shards;
  parallel.reduction = options.reduction;
  parallel.optimizer = optimizer_of(options);
  parallel.learning_rate = Tensor(static_cast<float>(options.learning_rate));
  parallel.batch_size = options.batch;
  parallel.accumulate = options.accumulate;
  parallel.reproducible = options.reproducible;
  parallel.row_weights = options.row_weights;
  parallel.measure_row_weights = options.measure_row_weights;
  parallel.base_seed = options.seed;
  parallel.merge = options.merge;
  parallel.placement = options.placement;
  parallel.overlap = options.overlap;
  parallel.on_device_lost = options.on_device_lost;
  parallel.wire = options.wire;
  parallel.device_options = std::move(device_options);
  parallel.runtime = std::move(runtime);
  return parallel;
}

void warn_of_null(const std::vector<std::shared_ptr<Backend>>& backends) {
  for (const auto& backend : backends) {
    if (backend->name() == "null") {
      std::cerr
          << "yoke: warning: the backend 'null' computes nothing, so no number of this run is a result\n";
      return;
    }
  }
}

RuntimeOptions run_options(const TrainOptions& options, const std::shared_ptr<Timeline>& timeline) {
  RuntimeOptions given = runtime_options();
  given.log_level = options.log_level;
  given.strict = options.strict;
  given.wait_timeout = std::chrono::nanoseconds(std::llround(options.wait_timeout_seconds * 1e9));
  if (timeline != nullptr) {
    given.on_work = [timeline](const WorkRecord& work) { timeline->add(work); };
  }
  return given;
}

int train(TrainOptions* options) {
  const Stopwatch whole;
  TrainReport report;
  // Fail before reading the data if saving or a device option cannot work.
  if (!options->save.empty()) {
    check_can_save(options->save);
  }
  const auto timeline = options->timeline.empty() ? nullptr : std::make_shared<Timeline>(options->timeline);
  TimelineEnd timeline_end(timeline.get());
  const auto runtime = std::make_shared<Runtime>(run_options(*options, timeline));
  const auto backends = load_backends(*options, *runtime);
  std::vector<Option> for_devices = device_options(*options, backends);
  warn_of_null(backends);
  std::ostream& out = options->json ? std::cerr : std::cout;
  TrainData data;
  {
    const Timed timed(&report.data_seconds);
    data = load_train_data(*options);
  }
  out << data.sentence << std::endl;

  if (!options->shards && options->backend.find_first_of(":,") == std::string::npos) {
    choose_shards(*options, data, *runtime, *backends.front(), for_devices);
  }
  const nn::Module model = make_model(*options, data.class_count);
  Run run(*options, data, model, out, &report, timeline.get());
  MemoryCheck memory(available_host_memory(), options->force);
  DataParallelOptions parallel = parallel_options(*options, runtime, for_devices);
  parallel.check_memory = std::ref(memory);
  data_parallel(
      parallel, data.train_inputs, data.train_labels,
      [&](const Tensor& x, const Tensor& y) { return cross_entropy(model(x), y); },
      [&](Trainer& trainer) { run.train(trainer, memory); });
  report.seconds = whole.seconds();
  report.fallbacks = runtime->fallbacks();
  std::erase_if(report.fallbacks, [](const FallbackCount& row) { return row.launch_count == 0; });
  std::optional<Error> timeline_error;
  try {
    timeline_end.finish();
  } catch (const Error& error) {
    timeline_error = error;  // reported after the results
  }
  out << time_text(report) << std::endl
      << fallback_text(report) << (timeline_error ? std::string() : timeline_text(timeline.get()))
      << std::flush;
  if (options->json) {
    std::cout << json_of(*options, data, report, timeline.get()) << std::endl;
  }
  if (timeline_error) {
    throw *timeline_error;
  }
  if (!report.save_error.empty()) {
    throw Error(ErrorCode::kResourceExhausted, report.save_error);
  }
  return options->stop_on_nan && report.first_bad_step ? kFailed : kDone;
}

}  // namespace

int train_command(Arguments arguments) {
  std::optional<TrainOptions> options = parse_train_options(arguments);
  if (!options) {
    return kDone;
  }
  try {
    return train(&*options);
  } catch (const std::bad_alloc&) {
    throw Error(ErrorCode::kResourceExhausted, "out of memory; use a smaller model, batch or data set");
  } catch (const Error& error) {
    const std::string text = error.what();
    // A stream is aborted if the work that it awaits is late; the sentence then has the limit.
    const auto limit = std::llround(options->wait_timeout_seconds * 1e9) / 1'000'000;
    const bool is_late = error.code() == ErrorCode::kAborted &&
                         text.find("within " + std::to_string(limit) + " ms") != std::string::npos;
    if (error.code() != ErrorCode::kDeadlineExceeded && !is_late) {
      throw;
    }
    throw Error(error.code(), text + "; --wait-timeout sets another limit than " +
                                  shortest(options->wait_timeout_seconds) + " s");
  }
}

}  // namespace yoke::cli
