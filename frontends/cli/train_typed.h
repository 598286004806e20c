// SPDX-License-Identifier: Apache-2.0
// frontends/cli/train_typed.h: the options of yoke train as they are typed.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "command_line.h"
#include "train.h"

namespace yoke::cli {

// Options that are converted, or receive their defaults, after parsing.
struct TypedOptions {
  std::string data;
  std::string save;
  std::string timeline;
  std::string reduction = "mean";
  std::string merge = "auto";
  std::string placement = "auto";
  std::string overlap = "auto";
  std::string row_weights;
  std::string on_device_lost = "fail";
  std::string wire = "full";
  std::string precision = "f32";
  std::string log_level;
  std::optional<std::int64_t> batch;
  std::optional<std::int64_t> epochs;
  std::optional<std::int64_t> classes;
  std::optional<std::int64_t> reproducible;
  std::optional<std::int64_t> steps;
  std::optional<std::int64_t> save_every;
  std::optional<std::int64_t> keep;
  std::optional<std::int64_t> early_stopping;
  std::string report;
  std::optional<std::int64_t> split;
  std::string drop;
  std::string no_decay;
  std::string splits;
  std::string load;
  std::string trace;         // another name for `timeline`
  std::string config;        // with_config() has read it
  double test_share = 0;     // 0: the default
  double learning_rate = 0;  // 0 and -1: the optimizer's default
  double weight_decay = -1;
};

// Declares all options.
void describe_options(CommandLine& line, TrainOptions& options, TypedOptions& typed);

}  // namespace yoke::cli
