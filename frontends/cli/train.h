// SPDX-License-Identifier: Apache-2.0
// frontends/cli/train.h: what yoke train was asked for, and the data it trains on.
#pragma once

#include <yoke/runtime/collective.h>
#include <yoke/runtime/log.h>
#include <yoke/tensor.h>

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "subcommands.h"

namespace yoke::cli {

struct TrainOptions {
  std::string backend = "cc";          // or "cuda:1,cc:2"
  std::optional<std::int64_t> shards;  // 2 for one backend; what `backend` counts for several
  std::filesystem::path data;          // empty: half-moons
  std::int64_t class_count = 0;        // 0: from the labels
  std::vector<std::uint64_t> hidden;   // widths of the hidden layers
  std::string model;                   // as typed; empty: fits the data
  std::int64_t batch = 0;              // 0: fits the data, as epochs
  std::int64_t epochs = 0;
  double learning_rate = 0.1;
  double momentum = 0;
  double weight_decay = 0;
  bool nesterov = false;
  Reduction reduction = Reduction::kMean;
  MergeStrategy merge = MergeStrategy::kAuto;
  std::int64_t seed = 0;
  std::vector<std::string> device_options;  // "threads=2", for every device
  std::filesystem::path save;               // empty: nothing is saved
  bool strict = false;
  bool json = false;
  LogLevel log_level = LogLevel::kWarn;
};

// Nothing: --help was printed. Throws UsageError for what makes no sense whatever the data.
std::optional<TrainOptions> parse_train_options(Arguments arguments);

// "mlp:300-100" to {300, 100}; UsageError otherwise.
std::vector<std::uint64_t> parse_model(const std::string& model);

struct TrainData {
  std::string name;      // "half-moons", "MNIST files in mnist/"
  std::string sentence;  // says what it is, for people
  Tensor train_inputs;   // f32 [n, features]
  Tensor train_labels;   // u8 [n]
  Tensor test_inputs;
  Tensor test_labels;
  std::uint64_t class_count = 0;
};

// Reads or makes the data, and fills in what the options leave to it: model, batch, epochs. Throws Error.
TrainData load_train_data(TrainOptions& options);

}  // namespace yoke::cli
