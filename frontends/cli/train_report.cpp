// SPDX-License-Identifier: Apache-2.0
// frontends/cli/train_report.cpp: formats the results of a training run.
#include "train_report.h"

#include <algorithm>
#include <chrono>
#include <cmath>

#include "json.h"
#include "text.h"

namespace yoke::cli {
namespace {

double seconds_of(const FallbackCount& row) {
  return std::chrono::duration<double>(row.time).count();
}

}  // namespace

std::string epoch_text(std::int64_t epoch, std::int64_t epochs, const EpochReport& report,
                       bool is_regression) {
  return "epoch " + std::to_string(epoch) + "/" + std::to_string(epochs) + ": loss " +
         fixed(report.train_loss, 4) + ", test loss " + fixed(report.test_loss, 4) + ", " +
         (is_regression ? "test rmse " + significant(report.rmse) + ", "
                        : "test accuracy " + fixed(100 * report.test_accuracy, 2) + " %, ") +
         grouped(static_cast<std::uint64_t>(report.examples_per_second)) + " examples/s";
}

std::string row_weights_text(const TrainReport& report) {
  std::string text;
  for (const std::int64_t weight : report.row_weights) {
    text += (text.empty() ? ", row weights " : ",") + std::to_string(weight);
  }
  return text;
}

std::string time_text(const TrainReport& report) {
  const double rest = report.seconds - report.data_seconds - report.compile_seconds - report.setup_seconds -
                      report.step_seconds - report.evaluation_seconds - report.save_seconds;
  const auto part = [&](const char* name, double seconds) {
    return std::string(name) + " " + fixed(seconds, 2) + " s (" + fixed(100 * seconds / report.seconds, 0) +
           " %)";
  };
  return "time: " + fixed(report.seconds, 2) + " s: " + part("data", report.data_seconds) + ", " +
         part("compile", report.compile_seconds) + ", " + part("set-up", report.setup_seconds) + ", " +
         part("steps", report.step_seconds) + ", " + part("evaluation", report.evaluation_seconds) + ", " +
         (report.save_seconds > 0 ? part("saving", report.save_seconds) + ", " : "") +
         part("other", std::max(0.0, rest)) + "; " +
         grouped(static_cast<std::uint64_t>(report.examples_per_second())) + " examples/s in steps";
}

std::string precision_text(const TrainOptions& options) {
  return options.precision == Precision::kF32 ? "" : std::string(" in ") + precision_name(options.precision);
}

std::string scale_text(const TrainOptions& options, const TrainReport& report) {
  if (options.precision != Precision::kF16) {
    return {};
  }
  const auto skipped = static_cast<std::uint64_t>(report.loss_scale.skipped_steps);
  return "loss scale: " + shortest(report.loss_scale.scale) + "; " +
         counted(skipped, "step was", "steps were") + " skipped because gradients were too large for f16\n";
}

std::string fallback_text(const TrainReport& report) {
  if (report.fallbacks.empty()) {
    return {};
  }
  std::vector<std::vector<std::string>> rows;
  for (const FallbackCount& row : report.fallbacks) {
    rows.push_back({row.routine, row.device, row.to, grouped(row.launch_count), byte_text(row.byte_count),
                    fixed(seconds_of(row), 3), row.reason});
  }
  const bool is_short = std::any_of(report.fallbacks.begin(), report.fallbacks.end(), [](const auto& row) {
    return row.reason.find(" more statement") != std::string::npos;
  });
  return "fallbacks: programs that ran on another backend\n" +
         table_text({"routine", "device", "ran on", "launches", "copied", "seconds", "reason"}, rows) +
         (is_short ? "--log-level debug lists every statement\n" : "");
}

std::string timeline_text(const Timeline* timeline) {
  if (timeline == nullptr) {
    return {};
  }
  const double merging = timeline->merge_seconds();
  std::string text =
      "timeline: " + counted(timeline->event_count(), "event") + " in " + timeline->file().string();
  if (timeline->event_count() == 0) {
    text += "; this backend does not report when its streams work (it lacks yoke.profile/1)";
  } else if (merging > 0) {
    text += "; merging and updating took " + fixed(1e3 * merging, 1) + " ms over all shards, " +
            fixed(100 * timeline->hidden_seconds() / merging, 0) + " % of it hidden behind computing";
  }
  return text + "\n";
}

namespace {

Json memory_json(const TrainReport& report) {
  Json rows = Json::array();
  for (const MemoryNeed& need : report.memory) {
    rows.push_back({{"device", need.device},
                    {"parameters", need.parameters},
                    {"gradients", need.gradients},
                    {"state", need.state},
                    {"activations", need.activations},
                    {"data", need.data}});
  }
  return rows;
}

Json history_json(const TrainReport& report) {
  Json rows = Json::array();
  for (const EpochReport& epoch : report.epochs) {
    rows.push_back({{"step", epoch.step},
                    {"train_loss", epoch.train_loss},
                    {"test_loss", epoch.test_loss},
                    {"test_accuracy", epoch.test_accuracy},
                    {"rmse", epoch.rmse},
                    {"examples_per_second", epoch.examples_per_second}});
  }
  return rows;
}

Json timeline_json(const Timeline* timeline) {
  if (timeline == nullptr) {
    return nullptr;
  }
  return {{"file", timeline->file().string()},
          {"events", timeline->event_count()},
          {"merge_seconds", timeline->merge_seconds()},
          {"hidden_seconds", timeline->hidden_seconds()}};
}

Json fallbacks_json(const TrainReport& report) {
  Json rows = Json::array();
  for (const FallbackCount& row : report.fallbacks) {
    rows.push_back({{"routine", row.routine},
                    {"device", row.device},
                    {"to", row.to},
                    {"launches", row.launch_count},
                    {"bytes", row.byte_count},
                    {"seconds", seconds_of(row)},
                    {"reason", row.reason}});
  }
  return rows;
}

Json lost_shards_json(const TrainReport& report) {
  Json rows = Json::array();
  for (const LostShard& lost : report.lost_shards) {
    rows.push_back(
        {{"shard", lost.shard}, {"device", lost.device}, {"step", lost.step}, {"reason", lost.reason}});
  }
  return rows;
}

// What was run.
Json run_json(const TrainOptions& options, const TrainData& data, const TrainReport& report) {
  return {{"backend", options.backend},
          {"version", YOKE_VERSION},
          {"plugins", report.plugins},
          {"devices", report.devices},
          {"shards", report.shards},
          {"data", data.name},
          {"train_examples", data.train_count()},
          {"test_examples", data.test_labels.dims()[0]},
          {"model", options.model},
          {"batch", options.batch},
          {"shuffle", options.shuffle},
          {"lines", options.lines},
          {"optimizer", options.optimizer},
          {"learning_rate", options.learning_rate},
          {"schedule", options.schedule},
          {"augment", options.augment},
          {"sync_batch_norm", options.sync_batch_norm},
          {"momentum", options.momentum},
          {"weight_decay", options.weight_decay},
          {"no_decay", options.no_decay},
          {"clip", options.clip},
          {"nesterov", options.nesterov},
          {"precision", precision_name(options.precision)},
          {"reduction", options.reduction == Reduction::kMean ? "mean" : "sum"},
          {"merge", report.merge},
          {"merge_reason", report.merge_reason},
          {"wire", wire_name(options.wire)},
          {"placement", report.placement},
          {"overlap", report.overlaps},
          {"accumulate", options.accumulate},
          {"reproducible", options.reproducible},
          {"row_weights", report.row_weights}};
}

// What came of it.
Json results_json(const TrainOptions& options, const TrainData& data, const TrainReport& report,
                  const Timeline* timeline) {
  const EpochReport last = report.epochs.empty() ? EpochReport{} : report.epochs.back();
  return {
      {"epochs", report.finished_epochs},
      {"epochs_asked", options.epochs},
      {"steps", report.steps},
      {"lost_shards", lost_shards_json(report)},
      {"stopped", report.stopped},
      {"first_bad_step", report.first_bad_step ? Json(*report.first_bad_step) : Json(nullptr)},
      {"loss_scale", options.precision == Precision::kF16 ? Json(report.loss_scale.scale) : Json(nullptr)},
      {"skipped_steps", report.loss_scale.skipped_steps},
      {"early_stopping", options.early_stopping},
      {"stopped_early", report.stopped_early},
      {"best_step", report.best_step != 0 ? Json(report.best_step) : Json(nullptr)},
      {"best_validation_loss", report.best_step != 0 ? Json(report.best_loss) : Json(nullptr)},
      {"train_loss", last.train_loss},
      {"test_loss", last.test_loss},
      {"test_accuracy", last.test_accuracy},
      {"validation_loss", last.test_loss},
      {"validation_accuracy", last.test_accuracy},
      {"rmse", last.rmse},
      {"perplexity", data.feed.next ? Json(std::exp(last.test_loss)) : Json(nullptr)},
      {"examples_per_second", report.examples_per_second()},
      {"seconds", report.seconds},
      {"seed", options.seed},
      {"device_options", options.device_options},
      {"resumed_step", report.resumed_step ? Json(*report.resumed_step) : Json(nullptr)},
      {"saved", report.saved ? Json((options.save.empty() ? options.checkpoints : options.save).string())
                             : Json(nullptr)},
      {"seconds_in",
       {{"data", report.data_seconds},
        {"compile", report.compile_seconds},
        {"setup", report.setup_seconds},
        {"steps", report.step_seconds},
        {"evaluation", report.evaluation_seconds},
        {"saving", report.save_seconds}}},
      {"memory", memory_json(report)},
      {"fallbacks", fallbacks_json(report)},
      {"timeline", timeline_json(timeline)},
      {"history", history_json(report)}};
}

}  // namespace

std::string json_of(const TrainOptions& options, const TrainData& data, const TrainReport& report,
                    const Timeline* timeline) {
  Json all = run_json(options, data, report);
  all.update(results_json(options, data, report, timeline));
  return json_text(all);
}

}  // namespace yoke::cli
