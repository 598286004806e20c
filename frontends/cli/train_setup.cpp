// SPDX-License-Identifier: Apache-2.0
// frontends/cli/train_setup.cpp: the model, backends and options of data_parallel that a command line asks for.
#include "train_setup.h"

#include <yoke/losses.h>
#include <yoke/models.h>
#include <yoke/schedules.h>

#include <utility>

#include "command_line.h"
#include "text.h"

namespace yoke::cli {

nn::Module make_model(const TrainOptions& options, const TrainData& data) {
  if (model_kind(options.model) == ModelKind::kText) {
    return models::text_model(options.model, data.class_count).module;
  }
  if (model_kind(options.model) == ModelKind::kImages) {
    const nn::Module pixels =
        nn::function([rows = data.row_count, columns = data.column_count](const Tensor& x) {
          return reshape(x, {x.dims()[0], rows, columns, 1});
        });
    return nn::sequential(pixels, options.model == "lenet" ? models::lenet(data.class_count)
                                                           : models::resnet18(data.class_count));
  }
  std::vector<nn::Module> layers;
  for (const std::uint64_t width : options.hidden) {
    layers.push_back(nn::linear(width));
    layers.push_back(nn::relu());
  }
  layers.push_back(nn::linear(data.class_count));
  return nn::sequential(std::move(layers));
}

Tensor loss_of(const TrainData& data, const Tensor& output, const Tensor& labels) {
  return data.is_regression ? mse(output, labels) : cross_entropy(output, models::targets_of(output, labels));
}

std::vector<Tensor> metrics_of(const TrainData& data, const Tensor& output, const Tensor& labels) {
  std::vector<Tensor> metrics = {loss_of(data, output, labels)};
  if (!data.is_regression) {
    metrics.push_back(accuracy(output, models::targets_of(output, labels)));
  }
  return metrics;
}

namespace {

// A constant rate is a number, so that it can be changed during the run.
Tensor rate_of(const TrainOptions& options, const TrainData& data) {
  Schedule schedule;
  try {
    schedule = parse_schedule(options.schedule, options.learning_rate, total_steps(options, data));
  } catch (const Error& error) {
    throw UsageError(std::string("--") + error.what());
  }
  return options.schedule == "constant" ? Tensor(static_cast<float>(options.learning_rate))
                                        : learning_rate(schedule);
}

std::vector<Option> parse_options(const Backend& backend, const std::vector<std::string>& texts) {
  try {
    return backend.parse_options(texts);
  } catch (const Error& error) {
    throw UsageError(std::string("--option: ") + error.what());
  }
}

}  // namespace

std::vector<std::shared_ptr<Backend>> load_backends(const TrainOptions& options, Runtime& runtime) {
  std::vector<std::shared_ptr<Backend>> backends;
  for (const std::string& part : split(options.backend, ',')) {
    backends.push_back(runtime.backend(part.substr(0, part.find(':'))));
  }
  return backends;
}

std::vector<Option> device_options(const TrainOptions& options,
                                   const std::vector<std::shared_ptr<Backend>>& backends) {
  std::optional<std::vector<Option>> all;
  for (const auto& backend : backends) {
    if (options.device_options.empty()) {
      continue;
    }
    std::vector<Option> parsed = parse_options(*backend, options.device_options);
    for (std::size_t i = 0; all && i < parsed.size(); ++i) {
      if (parsed[i].value != all->at(i).value) {
        throw UsageError("--option " + options.device_options[i] + " has a different type in " +
                         backend->name() + " than in the backends before it in --backend " + options.backend +
                         "; use one backend, or leave the option out");
      }
    }
    all = std::move(parsed);
  }
  return all.value_or(std::vector<Option>());
}

DataParallelOptions parallel_options(const TrainOptions& options, const TrainData& data,
                                     std::shared_ptr<Runtime> runtime, std::vector<Option> device_options) {
  DataParallelOptions parallel;
  parallel.backend_name = options.backend;
  parallel.shards = options.shards;
  parallel.reduction = options.reduction;
  parallel.optimizer = optimizer_of(options);
  parallel.learning_rate = rate_of(options, data);
  parallel.batch_size = options.batch;
  parallel.accumulate = options.accumulate;
  parallel.reproducible = options.reproducible;
  parallel.row_weights = options.row_weights;
  parallel.measure_row_weights = options.measure_row_weights;
  parallel.base_seed = options.seed;
  parallel.merge = options.merge;
  parallel.placement = options.placement;
  parallel.overlap = options.overlap;
  parallel.on_device_lost = options.on_device_lost;
  parallel.wire = options.wire;
  parallel.device_options = std::move(device_options);
  parallel.runtime = std::move(runtime);
  return parallel;
}

}  // namespace yoke::cli
