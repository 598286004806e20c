// SPDX-License-Identifier: Apache-2.0
// frontends/cli/train_setup.h: turns the options of yoke train into a model, backends and options of data_parallel.
#pragma once

#include <yoke/data_parallel.h>
#include <yoke/nn.h>

#include <cstdint>
#include <memory>
#include <vector>

#include "train.h"

namespace yoke::cli {

// The model by its name; `row_count` and `column_count` are those of images. Throws UsageError for an unknown name.
nn::Module make_model(const std::string& model, std::uint64_t output_count, std::uint64_t row_count,
                      std::uint64_t column_count, const nn::BatchNormOptions& norm = {});

// The inputs; in training with --augment, randomly changed images. Throws UsageError if they are not images.
Tensor augmented(const TrainOptions& options, const TrainData& data, const Tensor& inputs);
// The loss of one batch; always a mean.
Tensor loss_of(const TrainData& data, const Tensor& output, const Tensor& labels);
// The loss and, unless the data is a regression, the accuracy.
std::vector<Tensor> metrics_of(const TrainData& data, const Tensor& output, const Tensor& labels);

// Loads the backends. Throws UsageError if one cannot run --merge native, and Error.
std::vector<std::shared_ptr<Backend>> load_backends(const TrainOptions& options, Runtime& runtime);

// Prints a warning if the backend 'null' is among them.
void warn_of_null(const std::vector<std::shared_ptr<Backend>>& backends);

// Parses the texts of --option, "threads=1" for all backends and "cc.threads=1" for one, with the backends' schemas.
// With several backends, all names in the result have the prefix. Throws UsageError.
std::vector<Option> device_options(const std::vector<std::string>& texts,
                                   const std::vector<std::shared_ptr<Backend>>& backends);

// In train_optimizer.cpp. Parses --clip. Throws UsageError.
void parse_clipping(TrainOptions& options);
// Removes the patterns of --no-decay that exempt no parameter beyond those of earlier patterns. Returns a warning if
// some match no parameter, and throws UsageError if none matches.
std::string keep_matching_patterns(TrainOptions& options, const nn::Module& model);
Optimizer optimizer_of(const TrainOptions& options);

// `rate` is the learning rate of --schedule plateau.
DataParallelOptions parallel_options(const TrainOptions& options, const TrainData& data, const Scalar& rate,
                                     std::shared_ptr<Runtime> runtime, std::vector<Option> device_options);

}  // namespace yoke::cli
