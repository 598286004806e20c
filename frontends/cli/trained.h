// SPDX-License-Identifier: Apache-2.0
// frontends/cli/trained.h: what yoke predict and yoke generate use: the model of a checkpoint, on a device.
#pragma once

#include <yoke/nn.h>
#include <yoke/npz.h>
#include <yoke/predictor.h>

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "command_line.h"
#include "preparation.h"

namespace yoke::cli {

struct TrainedOptions {
  std::string from;  // a checkpoint, or a folder of checkpoints
  std::string backend = "cc";
  std::vector<std::string> device_options;
  std::string log_level;
};
void describe_trained(CommandLine& line, TrainedOptions& options);

struct Trained {
  std::filesystem::path checkpoint;
  std::int64_t step = 0;
  std::string model;
  Preparation data;
  nn::Module module;
  std::vector<NamedArray> parameters;
};
// Reads the best checkpoint of a run with --early-stopping, else the latest. Throws UsageError without --from, and
// Error.
Trained load_trained(const TrainedOptions& options);
// Moves the parameters to the device.
Predictor make_predictor(const TrainedOptions& options, Trained& trained);

}  // namespace yoke::cli
