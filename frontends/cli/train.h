// SPDX-License-Identifier: Apache-2.0
// frontends/cli/train.h: the options of yoke train and the data it trains on.
#pragma once

#include <yoke/data_parallel.h>
#include <yoke/runtime/log.h>
#include <yoke/runtime/parallel.h>
#include <yoke/schedules.h>
#include <yoke/tensor.h>

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "preparation.h"
#include "subcommands.h"

namespace yoke::cli {

struct TrainOptions {
  std::string backend = "cc";  // or "cuda:1,cc:2"
  std::optional<std::int64_t>
      shards;                  // default: choose_shards() for one backend, the sum of the counts for several
  std::filesystem::path data;  // empty: half-moons
  std::string label;           // of a table: the name or number of a column; empty: the last
  std::vector<std::string> drop;  // columns of a table that are not used
  std::string task;               // of a table: "regression", "classification"; empty: by the label
  std::filesystem::path splits;   // file of permutations of a table's rows; empty: by the seed
  std::int64_t split = 0;         // line of `splits`
  double test_share = 0.1;        // of a table's rows
  bool test_share_is_given = false;
  bool shuffle = false;
  bool lines = false;                 // of a text: in an order by the seed
  std::int64_t class_count = 0;       // 0: one more than the largest label
  std::vector<std::uint64_t> hidden;  // widths of the hidden layers
  std::string model;                  // as typed; empty: a default for the data
  std::int64_t batch = 0;             // 0: a default for the data
  bool batch_is_given = false;
  std::int64_t epochs = 0;  // 0: a default for the data
  std::int64_t steps = 0;   // instead of epochs; 0: not given
  bool sync_batch_norm = false;
  std::string augment;  // as typed; empty: off
  bool flips = false;
  std::uint64_t crop_padding = 0;  // 0: no crops
  std::string schedule = "constant";
  std::optional<PlateauOptions> plateau;  // if that is the schedule
  bool schedule_needs_steps = false;      // see needs_steps()
  std::string optimizer = "sgd";
  double learning_rate = 0;  // as given, or the optimizer's default
  double momentum = 0;
  double weight_decay = 0;  // as given, or the optimizer's default
  bool nesterov = false;
  std::string clip;      // as typed; empty: off
  double clip_norm = 0;  // 0: off
  double clip_value = 0;
  std::vector<std::string> no_decay;  // patterns of parameters' names
  Reduction reduction = Reduction::kMean;
  MergeStrategy merge = MergeStrategy::kAuto;
  Placement placement = Placement::kAuto;
  Overlap overlap = Overlap::kAuto;
  OnDeviceLost on_device_lost = OnDeviceLost::kFail;
  Wire wire = Wire::kFull;
  Precision precision = Precision::kF32;
  std::int64_t accumulate = 1;    // micro-batches per shard and step
  std::int64_t reproducible = 0;  // micro-batches per step, for bits that do not depend on the shards; 0: off
  std::vector<std::int64_t> row_weights;  // per shard; empty: equal, unless they are measured
  bool measure_row_weights = false;
  std::int64_t seed = 0;
  std::vector<std::string> device_options;  // "threads=2", "cc.threads=2"
  std::filesystem::path save;               // file for the parameters at the end; empty: none
  std::filesystem::path checkpoints;        // folder; empty: none
  std::int64_t save_every = 0;              // steps between checkpoints; 0: an epoch
  std::int64_t keep = 3;                    // checkpoints
  bool resume = false;
  std::int64_t early_stopping = 0;  // evaluations without a lower loss; 0: off
  std::filesystem::path report;     // a page with the results; empty: none
  std::filesystem::path load;       // file or folder of checkpoints with the first parameters; empty: none
  bool strict = false;
  bool force = false;              // start although the memory does not suffice
  bool stop_on_nan = false;        // end at the first loss that is not finite
  std::filesystem::path timeline;  // empty: none
  double wait_timeout_seconds = 600;
  bool json = false;
  LogLevel log_level = LogLevel::kWarn;
};

// Returns nothing if --help was printed. Throws UsageError for options that are invalid for any data.
std::optional<TrainOptions> parse_train_options(Arguments arguments);

enum class ModelKind { kMlp, kImages, kText };
// Throws UsageError for wrong options of a model of models.h.
ModelKind model_kind(const std::string& model);
// Parses "mlp:300-100" to {300, 100}; empty for models of other kinds. Throws UsageError.
std::vector<std::uint64_t> parse_model(const std::string& model);

struct TrainData {
  std::string name;      // "half-moons", or the file or folder
  std::string sentence;  // a description to print
  Tensor train_inputs;   // f32 [n, features]
  Tensor train_labels;   // u8 [n], or for a regression f32 [n]
  Tensor test_inputs;
  Tensor test_labels;
  std::uint64_t class_count = 0;  // outputs of the model
  bool is_regression = false;
  double target_deviation = 1;  // of a regression: the unit of the labels
  std::uint64_t row_count = 0;  // of an image, in pixels; 0: not images
  std::uint64_t column_count = 0;
  Preparation preparation = {};
  Feed feed = {};    // of a text: instead of train_inputs and train_labels
  Tensor text = {};  // what the feed draws from

  std::uint64_t train_count() const {  // examples per epoch
    return feed.next ? feed.fields[0].spec.dims[0] : train_labels.dims()[0];
  }
};

// A text for a model of characters: windows at random positions for training, and all of the last tenth for testing.
// Throws Error.
TrainData text_file(TrainOptions& options);

// The steps of an epoch, and of the whole run.
std::int64_t steps_per_epoch(const TrainOptions& options, const TrainData& data);
std::int64_t total_steps(const TrainOptions& options, const TrainData& data);

// Reads or generates the data, and sets the options that default to values for the
// data: model, batch, epochs. Throws Error.
TrainData load_train_data(TrainOptions& options);

}  // namespace yoke::cli
