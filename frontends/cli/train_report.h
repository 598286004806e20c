// SPDX-License-Identifier: Apache-2.0
// frontends/cli/train_report.h: the results of a training run, as text and as JSON.
#pragma once

#include <yoke/data_parallel.h>
#include <yoke/runtime/runtime.h>

#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "timeline.h"
#include "train.h"

namespace yoke::cli {

// The mean since the point before, for --report.
struct CurvePoint {
  std::int64_t step = 0;
  double loss = 0;
  double learning_rate = 0;
  double examples_per_second = 0;
};

struct EpochReport {
  std::int64_t step = 0;  // at its end
  double train_loss = std::numeric_limits<double>::quiet_NaN();
  double test_loss = std::numeric_limits<double>::quiet_NaN();
  double test_accuracy = std::numeric_limits<double>::quiet_NaN();
  double rmse =
      std::numeric_limits<double>::quiet_NaN();  // of a regression's test rows, in the unit of the labels
  double examples_per_second = std::numeric_limits<double>::quiet_NaN();
};

struct TrainReport {
  std::string devices;
  std::string merge;
  std::string merge_reason;
  std::string placement;
  bool overlaps = false;
  std::uint32_t shards = 0;                 // at the start
  std::vector<LostShard> lost_shards = {};  // with on_device_lost = redistribute
  std::vector<std::int64_t> row_weights;    // in use; empty: equal
  std::int64_t steps = 0;
  std::int64_t examples = 0;        // trained on, counted once per use
  std::vector<EpochReport> epochs;  // the last one may be unfinished
  std::int64_t finished_epochs = 0;
  bool stopped = false;                        // by a signal, a closed pipe or --stop-on-nan
  std::optional<std::int64_t> first_bad_step;  // from 1, with an infinite or nan loss
  LossScale loss_scale = {};                   // at the end
  std::vector<MemoryNeed> memory;              // per device
  std::optional<std::int64_t> resumed_step;    // steps that an earlier run had done
  bool stopped_early = false;                  // by --early-stopping
  std::int64_t best_step = 0;                  // with the lowest validation loss; 0: not known
  double best_loss = 0;
  std::vector<CurvePoint> curve;     // with --report
  std::vector<std::string> plugins;  // "cc 0.1.0"
  bool saved = false;
  std::string save_error;                // why saving failed
  std::string save_warning;              // the first such text, which was printed during the run
  std::vector<FallbackCount> fallbacks;  // programs that ran on another backend
  double data_seconds = 0;
  double compile_seconds = 0;
  double setup_seconds = 0;
  double step_seconds = 0;
  double evaluation_seconds = 0;
  double save_seconds = 0;  // of checkpoints
  double seconds = 0;       // of the whole run

  double examples_per_second() const {
    return step_seconds > 0 ? static_cast<double>(examples) / step_seconds : 0;
  }
};

// "epoch 1/5: loss 0.2931, test loss 0.1602, test accuracy 95.21 %, 51,234 examples/s"
std::string epoch_text(std::int64_t epoch, std::int64_t epochs, const EpochReport& report,
                       bool is_regression);
std::string row_weights_text(const TrainReport& report);  // ", row weights 3,3,1"; empty if they are equal
std::string time_text(const TrainReport& report);         // how the time was spent
std::string precision_text(const TrainOptions& options);  // " in bf16"; empty for f32
std::string scale_text(const TrainOptions& options, const TrainReport& report);  // empty without a loss scale
std::string fallback_text(const TrainReport& report);  // a table; empty if there were no fallbacks
std::string timeline_text(const Timeline* timeline);   // empty if it is null
std::string json_of(const TrainOptions& options, const TrainData& data, const TrainReport& report,
                    const Timeline* timeline);

}  // namespace yoke::cli
