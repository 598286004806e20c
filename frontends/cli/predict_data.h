// SPDX-License-Identifier: Apache-2.0
// frontends/cli/predict_data.h: data for yoke predict, prepared as that of the training.
#pragma once

#include <yoke/tensor.h>

#include <cstddef>
#include <filesystem>
#include <string>
#include <vector>

#include "trained.h"

namespace yoke::cli {

struct PredictData {
  Tensor inputs;
  // For each prediction, the number of its class, or its value; empty: there are none.
  std::vector<double> labels;
};
// Throws Error: the data does not fit the training's.
PredictData read_predict_data(const std::filesystem::path& file, const Trained& trained);

std::string class_name(const Preparation& data, std::size_t number);

}  // namespace yoke::cli
