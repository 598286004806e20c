// SPDX-License-Identifier: Apache-2.0
// frontends/cli/train_setup.cpp: the model, backends and options of data_parallel that a command line asks for.
#include "train_setup.h"

#include <yoke/augmentation.h>
#include <yoke/ext/collectives.h>
#include <yoke/losses.h>
#include <yoke/models.h>
#include <yoke/runtime/closest.h>
#include <yoke/runtime/shell_word.h>
#include <yoke/schedules.h>

#include <algorithm>
#include <charconv>
#include <iostream>
#include <set>
#include <utility>

#include "command_line.h"
#include "text.h"

namespace yoke::cli {

namespace {
constexpr std::uint64_t kMaxLayerWidth = 1'000'000;
}

ModelKind model_kind(const std::string& model) {
  if (model == "lenet" || model == "resnet18") {
    return ModelKind::kImages;
  }
  if (models::is_text_model(model)) {
    try {
      (void)models::text_model(model, 2);
    } catch (const Error& error) {
      throw UsageError(std::string("--model: ") + error.what());
    }
    return ModelKind::kText;
  }
  return ModelKind::kMlp;
}

std::vector<std::uint64_t> parse_model(const std::string& model) {
  constexpr std::string_view kKind = "mlp:";
  const std::vector<std::string> names = {"lenet",     "resnet18", "char-bigram", "char-mlp",
                                          "char-lstm", "gpt",      "mlp"};
  const std::string name = model.substr(0, model.find(':'));
  const UsageError invalid(
      "--model takes lenet, resnet18, char-bigram, char-mlp, char-lstm, gpt, or mlp: and the widths of the "
      "hidden layers, 1 to " +
      grouped(kMaxLayerWidth) + " each (mlp:500, mlp:300-100), not '" + model + "'" +
      did_you_mean(name, names));
  if (model_kind(model) != ModelKind::kMlp) {
    return {};
  }
  if (!model.starts_with(kKind)) {
    throw invalid;
  }
  std::vector<std::uint64_t> widths;
  for (const std::string& part : split(std::string_view(model).substr(kKind.size()), '-')) {
    std::uint64_t width = 0;
    const auto [end, error] = std::from_chars(part.data(), part.data() + part.size(), width);
    if (error != std::errc() || end != part.data() + part.size() || width < 1 || width > kMaxLayerWidth) {
      throw invalid;
    }
    widths.push_back(width);
  }
  return widths;
}

nn::Module make_model(const std::string& model, std::uint64_t output_count, std::uint64_t row_count,
                      std::uint64_t column_count, const nn::BatchNormOptions& norm) {
  if (model_kind(model) == ModelKind::kText) {
    return models::text_model(model, output_count).module;
  }
  if (model_kind(model) == ModelKind::kImages) {
    const nn::Module pixels = nn::function([row_count, column_count](const Tensor& x) {
      return reshape(x, {x.dims()[0], row_count, column_count, 1});
    });
    return nn::sequential(
        pixels, model == "lenet" ? models::lenet(output_count) : models::resnet18(output_count, norm));
  }
  std::vector<nn::Module> layers;
  for (const std::uint64_t width : parse_model(model)) {
    layers.push_back(nn::linear(width));
    layers.push_back(nn::relu());
  }
  layers.push_back(nn::linear(output_count));
  return nn::sequential(std::move(layers));
}

Tensor augmented(const TrainOptions& options, const TrainData& data, const Tensor& inputs) {
  if (options.augment.empty()) {
    return inputs;
  }
  if (data.row_count == 0) {
    throw UsageError("--augment needs images, but " + data.name + " has none");
  }
  if (options.crop_padding >= std::min(data.row_count, data.column_count)) {
    throw UsageError("--augment crop:" + std::to_string(options.crop_padding) +
                     " is too large: for images of " + std::to_string(data.row_count) + " x " +
                     std::to_string(data.column_count) + " pixels, it can be at most " +
                     std::to_string(std::min(data.row_count, data.column_count) - 1));
  }
  Tensor images = reshape(inputs, {inputs.dims()[0], data.row_count, data.column_count, 1});
  images = options.flips ? random_flip(images) : images;
  return reshape(random_crop(images, options.crop_padding), inputs.dims());
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
Tensor rate_of(const TrainOptions& options, const TrainData& data, const Scalar& plateau_rate) {
  if (options.plateau) {
    return plateau_rate.tensor();
  }
  Schedule schedule;
  try {
    schedule = parse_schedule(options.schedule, options.learning_rate, total_steps(options, data));
  } catch (const Error& error) {
    throw UsageError(std::string("--") + error.what());
  }
  return options.schedule == "constant" ? Tensor(static_cast<float>(options.learning_rate))
                                        : learning_rate(schedule);
}

}  // namespace

void warn_of_null(const std::vector<std::shared_ptr<Backend>>& backends) {
  for (const auto& backend : backends) {
    if (backend->name() == "null") {
      std::cerr
          << "yoke: warning: the backend 'null' computes nothing, so no number of this run is a result\n";
      return;
    }
  }
}

std::vector<std::shared_ptr<Backend>> load_backends(const TrainOptions& options, Runtime& runtime) {
  std::vector<std::shared_ptr<Backend>> backends;
  for (const std::string& part : split(options.backend, ',')) {
    backends.push_back(runtime.backend(part.substr(0, part.find(':'))));
    if (options.merge == MergeStrategy::kNative &&
        backends.back()->extension<yoke_collectives_api>(YOKE_COLLECTIVES_TABLE) == nullptr) {
      throw UsageError("--merge native: the backend '" + backends.back()->name() +
                       "' does not add up gradients itself; use owner, tree, direct or ring");
    }
  }
  return backends;
}

namespace {

// "cc" of "cc.threads=1"; empty: without a prefix.
std::string prefix_of(const std::string& text) {
  const std::string name = text.substr(0, text.find('='));
  const std::size_t dot = name.find('.');
  return dot == std::string::npos ? std::string() : name.substr(0, dot);
}

bool has_option(const Backend& backend, const std::string& name) {
  const auto specs = backend.option_specs();
  return std::any_of(specs.begin(), specs.end(), [&](const OptionSpec& spec) {
    return spec.name == name && spec.scope == YOKE_OPTION_SCOPE_DEVICE;
  });
}

void check_prefixes(const std::vector<std::string>& texts, const std::set<std::string>& names) {
  const std::vector<std::string> all(names.begin(), names.end());
  for (const std::string& text : texts) {
    const std::string prefix = prefix_of(text);
    if (!prefix.empty() && !names.contains(prefix)) {
      throw UsageError(std::string("--option ")
                           .append(text)
                           .append(": '")
                           .append(prefix)
                           .append("' is not a backend of this run; its backends: ")
                           .append(join(all, ", "))
                           .append(did_you_mean(prefix, all)));
    }
  }
}

// `only` has the option, and `backend` does not.
[[noreturn]] void refuse_option(const std::string& text, const std::string& backend, const std::string& name,
                                const std::string& only) {
  throw UsageError("--option " + text + ": " + backend + " has no option '" + name + "'; use --option " +
                   detail::shell_word(only + "." + text) + " for " + only + " only");
}

// The texts for one of `backends`, without prefixes. One with a prefix replaces those without.
std::vector<std::string> texts_for(const Backend& backend, const std::vector<std::string>& texts,
                                   const std::vector<std::shared_ptr<Backend>>& backends) {
  const std::string own_prefix = backend.name() + ".";
  std::vector<std::string> own;
  for (const std::string& text : texts) {
    const std::string prefix = prefix_of(text);
    if (prefix == backend.name()) {
      own.push_back(text.substr(prefix.size() + 1));
    }
    const std::string name = text.substr(0, text.find('='));
    const bool is_replaced = std::any_of(texts.begin(), texts.end(), [&](const std::string& other) {
      return other.substr(0, other.find('=')) == own_prefix + name;
    });
    if (!prefix.empty() || is_replaced) {
      continue;
    }
    own.push_back(text);
    const auto knows = [&](const auto& each) { return has_option(*each, name); };
    const auto other = std::find_if(backends.begin(), backends.end(), knows);
    if (other != backends.end() && !has_option(backend, name)) {
      refuse_option(text, backend.name(), name, (*other)->name());
    }
  }
  return own;
}

}  // namespace

std::vector<Option> device_options(const std::vector<std::string>& texts,
                                   const std::vector<std::shared_ptr<Backend>>& backends) {
  std::set<std::string> names;
  for (const auto& backend : backends) {
    names.insert(backend->name());
  }
  check_prefixes(texts, names);
  std::vector<Option> all;
  for (const auto& backend : backends) {
    if (names.erase(backend->name()) == 0) {
      continue;  // named again
    }
    const std::vector<std::string> own = texts_for(*backend, texts, backends);
    try {
      for (Option& option : backend->parse_options(own)) {
        option.name = (backends.size() > 1 ? backend->name() + "." : std::string()) + option.name;
        all.push_back(std::move(option));
      }
    } catch (const Error& error) {
      throw UsageError(std::string("--option: ") + error.what());
    }
  }
  return all;
}

DataParallelOptions parallel_options(const TrainOptions& options, const TrainData& data, const Scalar& rate,
                                     std::shared_ptr<Runtime> runtime, std::vector<Option> device_options) {
  DataParallelOptions parallel;
  parallel.backend_name = options.backend;
  parallel.shards = options.shards;
  parallel.reduction = options.reduction;
  parallel.optimizer = optimizer_of(options);
  parallel.learning_rate = rate_of(options, data, rate);
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
  parallel.precision = options.precision;
  parallel.device_options = std::move(device_options);
  parallel.runtime = std::move(runtime);
  return parallel;
}

}  // namespace yoke::cli
