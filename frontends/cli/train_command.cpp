// SPDX-License-Identifier: Apache-2.0
// frontends/cli/train_command.cpp: yoke train: one call of data_parallel, with progress and reports.
#include <yoke/data_parallel.h>
#include <yoke/npz.h>
#include <yoke/output_file.h>
#include <yoke/shuffle.h>

#include <algorithm>
#include <cmath>
#include <iostream>
#include <new>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "config_file.h"
#include "global_options.h"
#include "host_memory.h"
#include "stop_request.h"
#include "stopwatch.h"
#include "text.h"
#include "timeline.h"
#include "train.h"
#include "train_checkpoints.h"
#include "train_memory.h"
#include "train_page.h"
#include "train_report.h"
#include "train_run.h"
#include "train_setup.h"
#include "train_shards.h"

namespace yoke::cli {
namespace {

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

// Whether the run trained nothing because it had ended before, so that a file of its results stays as it is.
bool keeps(const std::filesystem::path& file, const TrainReport& report) {
  std::error_code ignored;
  return report.resumed_step && report.examples == 0 && std::filesystem::exists(file, ignored);
}

// Prints and writes what the run has reached, and then reports what could not be written.
void print_results(const TrainOptions& options, const TrainData& data, const Runtime& runtime,
                   std::ostream& out, Timeline* timeline, TimelineEnd& timeline_end, TrainReport& report) {
  report.fallbacks = runtime.fallbacks();
  std::erase_if(report.fallbacks, [](const FallbackCount& row) { return row.launch_count == 0; });
  std::optional<Error> timeline_error;
  for (const std::filesystem::path& file : {options.report, options.timeline}) {
    if (keeps(file, report)) {
      out << file.string() << " stays as it is, because nothing was trained" << std::endl;
    }
  }
  if (keeps(options.timeline, report)) {
    timeline_end.discard();
    timeline = nullptr;
  }
  try {
    timeline_end.finish();
  } catch (const Error& error) {
    timeline_error = error;  // reported after the results
  }
  out << time_text(report) << std::endl
      << scale_text(options, report) << fallback_text(report)
      << (timeline_error ? std::string() : timeline_text(timeline)) << std::flush;
  const std::string json = json_of(options, data, report, timeline);
  if (options.json) {
    std::cout << json << std::endl;
  }
  if (!options.report.empty() && !keeps(options.report, report)) {
    OutputFile page(options.report);
    page.stream() << train_page(data, report, json);
    page.commit();
    out << "report: " << options.report.string() << std::endl;
  }
  if (timeline_error) {
    throw *timeline_error;
  }
  if (!report.save_error.empty()) {
    throw Error(ErrorCode::kResourceExhausted,
                report.save_error == report.save_warning
                    ? "the last attempt to save failed; the warning above says why"
                    : report.save_error);
  }
}

void train_on(const TrainOptions& options, const TrainData& data, const DataParallelOptions& parallel,
              const std::function<Tensor(const Tensor&, const Tensor&)>& loss,
              const std::function<void(Trainer&)>& body) {
  if (data.feed.next) {
    data_parallel(parallel, data.feed, loss, body);
  } else if (options.shuffle) {
    data_parallel(parallel, shuffled(data.train_inputs, data.train_labels, options.batch, options.seed), loss,
                  body);
  } else {
    data_parallel(parallel, data.train_inputs, data.train_labels, loss, body);
  }
}

// The text of the file in the folder of checkpoints; empty: no folder.
std::string config_of(const TrainOptions& options, Arguments words) {
  return options.checkpoints.empty()
             ? std::string()
             : config_text(options.checkpoints / kConfigFile, words, {"config", "save", "resume", "json"},
                           options.checkpoints.string());
}

int train(TrainOptions* options, Arguments words) {
  const Stopwatch whole;
  TrainReport report;
  // Fail before reading the data if saving or a device option cannot work.
  std::string config = config_of(*options, words);
  for (const std::filesystem::path& file : {options->save, options->report}) {
    if (!file.empty()) {
      check_can_save(file);
    }
  }
  TrainCheckpoints checkpoints(*options, std::move(config));
  const auto timeline = options->timeline.empty() ? nullptr : std::make_shared<Timeline>(options->timeline);
  TimelineEnd timeline_end(timeline.get());
  const auto runtime = std::make_shared<Runtime>(make_runtime(run_options(*options, timeline)));
  const auto backends = load_backends(*options, *runtime);
  std::vector<Option> for_devices = device_options(options->device_options, backends);
  warn_of_null(backends);
  for (const auto& backend : backends) {
    report.plugins.push_back(backend->name() + " " + backend->version());
  }
  std::ostream& out = options->json ? std::cerr : std::cout;
  TrainData data;
  {
    const Timed timed(&report.data_seconds);
    data = load_train_data(*options);
  }
  StopRequest stop;  // until here, a signal ends the process
  out << data.sentence << std::endl;

  // The costs of other models are not known.
  if (!options->shards && model_kind(options->model) == ModelKind::kMlp &&
      options->backend.find_first_of(":,") == std::string::npos) {
    choose_shards(*options, data, *runtime, *backends.front(), for_devices);
  }
  const nn::Module model = make_model(options->model, data.class_count, data.row_count, data.column_count,
                                      {.synchronized = options->sync_batch_norm});
  if (const std::string text = keep_matching_patterns(*options, model); !text.empty()) {
    std::cerr << "yoke: warning: " << text << std::endl;
  }
  checkpoints.read(data);
  TrainRun run(*options, data, model, out, &report, timeline.get(), &checkpoints, &stop);
  MemoryCheck memory(available_host_memory(), options->force);
  DataParallelOptions parallel = parallel_options(*options, data, run.rate(), runtime, for_devices);
  parallel.check_memory = [&](std::span<const MemoryNeed> needs) {
    run.check_set_up();
    memory(needs);
  };
  const auto loss = [&](const Tensor& x, const Tensor& y) {
    run.check_set_up();
    return loss_of(data, model(augmented(*options, data, x)), y);
  };
  const auto body = [&](Trainer& trainer) { run.train(trainer, memory); };
  train_on(*options, data, parallel, loss, body);
  report.seconds = whole.seconds();
  print_results(*options, data, *runtime, out, timeline.get(), timeline_end, report);
  return options->stop_on_nan && report.first_bad_step ? kFailed : kDone;
}

}  // namespace

int train_command(Arguments arguments) {
  const ConfiguredArguments given = with_config(arguments);
  for (const std::string& warning : given.warnings) {
    std::cerr << "yoke: warning: " << warning << '\n';
  }
  std::optional<TrainOptions> options;
  try {
    options = parse_train_options(given.words);
    return options ? train(&*options, given.words) : kDone;
  } catch (const UsageError& error) {
    throw UsageError(given.with_place(error.what()));
  } catch (const std::bad_alloc&) {
    throw Error(ErrorCode::kResourceExhausted, "out of memory; use a smaller model, batch or data set");
  } catch (const Error& error) {
    if (error.code() == ErrorCode::kInvalidArgument) {
      throw Error(error.code(), given.with_place(error.what()));
    }
    if (!options) {
      throw;
    }
    std::string text = error.what();
    if (const auto advice = text.find("; wait longer, or abort the stream"); advice != std::string::npos) {
      text.resize(advice);  // it is for programs that use the library
    }
    // A stream is aborted if the work that it awaits is late; the sentence then has the limit.
    const auto limit = std::llround(options->wait_timeout_seconds * 1e9) / 1'000'000;
    const bool is_late = error.code() == ErrorCode::kAborted &&
                         text.find("within " + std::to_string(limit) + " ms") != std::string::npos;
    if (error.code() != ErrorCode::kDeadlineExceeded && !is_late) {
      throw;
    }
    throw Error(error.code(), text + "; --wait-timeout sets a limit other than " +
                                  shortest(options->wait_timeout_seconds) + " s");
  }
}

}  // namespace yoke::cli
