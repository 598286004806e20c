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

std::string epoch_text(std::int64_t epoch, std::int64_t epochs, const EpochReport& report) {
  return "epoch " + std::to_string(epoch) + "/" + std::to_string(epochs) + ": loss " +
         fixed(report.train_loss, 4) + ", test loss " + fixed(report.test_loss, 4) + ", test accuracy " +
         fixed(100 * report.test_accuracy, 2) + " %, " +
         grouped(static_cast<std::uint64_t>(report.examples_per_second)) + " examples/s";
}

std::string time_text(const TrainReport& report) {
  const double rest = report.seconds - report.data_seconds - report.compile_seconds - report.setup_seconds -
                      report.step_seconds - report.evaluation_seconds;
  const auto part = [&](const char* name, double seconds) {
    return std::string(name) + " " + fixed(seconds, 2) + " s (" + fixed(100 * seconds / report.seconds, 0) +
           " %)";
  };
  return "time: " + fixed(report.seconds, 2) + " s: " + part("data", report.data_seconds) + ", " +
         part("compile", report.compile_seconds) + ", " + part("set-up", report.setup_seconds) + ", " +
         part("steps", report.step_seconds) + ", " + part("evaluation", report.evaluation_seconds) + ", " +
         part("other", std::max(0.0, rest)) + "; " +
         grouped(static_cast<std::uint64_t>(report.examples_per_second())) + " examples/s in steps";
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
      "timeline: " + grouped(timeline->event_count()) + " events in " + timeline->file().string();
  if (timeline->event_count() == 0) {
    text += "; this backend does not report when its streams work (it lacks yoke.profile/1)";
  } else if (merging > 0) {
    text += "; merging and updating took " + fixed(1e3 * merging, 1) + " ms over all shards, " +
            fixed(100 * timeline->hidden_seconds() / merging, 0) + " % of it hidden behind computing";
  }
  return text + "\n";
}

namespace {

void write_memory(JsonWriter& json, const TrainReport& report) {
  json.key("memory").begin_array();
  for (const MemoryNeed& need : report.memory) {
    json.begin_object()
        .field("device", need.device)
        .field("parameters", need.parameters)
        .field("gradients", need.gradients)
        .field("state", need.state)
        .field("activations", need.activations)
        .field("data", need.data)
        .end_object();
  }
  json.end_array();
}

void write_history(JsonWriter& json, const TrainReport& report) {
  json.key("history").begin_array();
  for (const EpochReport& epoch : report.epochs) {
    json.begin_object()
        .field("train_loss", epoch.train_loss)
        .field("test_loss", epoch.test_loss)
        .field("test_accuracy", epoch.test_accuracy)
        .field("examples_per_second", epoch.examples_per_second)
        .end_object();
  }
  json.end_array();
}

void write_timeline(JsonWriter& json, const Timeline* timeline) {
  json.key("timeline");
  if (timeline == nullptr) {
    json.null();
    return;
  }
  json.begin_object()
      .field("file", timeline->file().string())
      .field("events", timeline->event_count())
      .field("merge_seconds", timeline->merge_seconds())
      .field("hidden_seconds", timeline->hidden_seconds())
      .end_object();
}

void write_fallbacks(JsonWriter& json, const TrainReport& report) {
  json.key("fallbacks").begin_array();
  for (const FallbackCount& row : report.fallbacks) {
    json.begin_object()
        .field("routine", row.routine)
        .field("device", row.device)
        .field("to", row.to)
        .field("launches", row.launch_count)
        .field("bytes", row.byte_count)
        .field("seconds", seconds_of(row))
        .field("reason", row.reason)
        .end_object();
  }
  json.end_array();
}

}  // namespace

std::string json_text(const TrainOptions& options, const TrainData& data, const TrainReport& report,
                      const Timeline* timeline) {
  const EpochReport last = report.epochs.empty() ? EpochReport{} : report.epochs.back();
  JsonWriter json;
  json.begin_object()
      .field("backend", options.backend)
      .field("devices", report.devices)
      .field("shards", report.shards)
      .field("data", data.name)
      .field("train_examples", data.train_labels.element_count())
      .field("test_examples", data.test_labels.element_count())
      .field("model", options.model)
      .field("batch", options.batch)
      .field("learning_rate", options.learning_rate)
      .field("momentum", options.momentum)
      .field("weight_decay", options.weight_decay)
      .field("nesterov", options.nesterov)
      .field("reduction", options.reduction == Reduction::kMean ? "mean" : "sum")
      .field("merge", report.merge)
      .field("placement", report.placement)
      .field("overlap", report.overlaps)
      .field("accumulate", options.accumulate)
      .field("reproducible", options.reproducible)
      .field("epochs", report.finished_epochs)
      .field("epochs_asked", options.epochs)
      .field("steps", report.steps)
      .field("stopped", report.stopped)
      .key("first_bad_step");
  report.first_bad_step ? json.value(*report.first_bad_step) : json.null();
  json.field("train_loss", last.train_loss)
      .field("test_loss", last.test_loss)
      .field("test_accuracy", last.test_accuracy)
      .field("examples_per_second", report.examples_per_second())
      .field("seconds", report.seconds)
      .field("seed", options.seed);
  json.key("device_options").begin_array();
  for (const std::string& option : options.device_options) {
    json.value(option);
  }
  json.end_array().key("saved");
  report.saved ? json.value(options.save.string()) : json.null();
  json.key("seconds_in")
      .begin_object()
      .field("data", report.data_seconds)
      .field("compile", report.compile_seconds)
      .field("setup", report.setup_seconds)
      .field("steps", report.step_seconds)
      .field("evaluation", report.evaluation_seconds)
      .end_object();
  write_memory(json, report);
  write_fallbacks(json, report);
  write_timeline(json, timeline);
  write_history(json, report);
  return json.end_object().text();
}

}  // namespace yoke::cli
