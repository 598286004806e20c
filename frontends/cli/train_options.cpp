// SPDX-License-Identifier: Apache-2.0
// frontends/cli/train_options.cpp: parses and checks the options of yoke train.
#include <algorithm>
#include <charconv>

#include "command_line.h"
#include "global_options.h"
#include "text.h"
#include "train.h"

namespace yoke::cli {
namespace {

constexpr std::int64_t kMaxShards = 1024;
constexpr std::uint64_t kMaxLayerWidth = 1'000'000;

void check(bool valid, const std::string& message) {
  if (!valid) {
    throw UsageError(message);
  }
}

// "--batch is 0; it must be at least 1"
std::string wrong_value(const char* name, const std::string& value, const std::string& rule) {
  return std::string(name) + " is " + value + "; it must be " + rule;
}

void check_at_least_one(const char* name, const std::optional<std::int64_t>& value) {
  check(!value || *value >= 1, wrong_value(name, std::to_string(value.value_or(0)), "at least 1"));
}

void check_ranges(const TrainOptions& options) {
  const std::int64_t shards = options.shards.value_or(1);
  check_at_least_one("--shards", shards);
  check(shards <= kMaxShards,
        wrong_value("--shards", std::to_string(shards), "at most " + std::to_string(kMaxShards)));
  check(options.learning_rate > 0, wrong_value("--lr", shortest(options.learning_rate), "greater than 0"));
  check(options.momentum >= 0 && options.momentum < 1,
        wrong_value("--momentum", shortest(options.momentum), "at least 0 and less than 1"));
  check(options.weight_decay >= 0,
        wrong_value("--weight-decay", shortest(options.weight_decay), "at least 0"));
  check(!options.nesterov || options.momentum > 0, "--nesterov needs --momentum greater than 0");
  check(options.seed >= 0, wrong_value("--seed", std::to_string(options.seed), "at least 0"));
}

Reduction reduction_by_name(const std::string& name) {
  check(name == "mean" || name == "sum", "--reduction takes mean or sum, not '" + name + "'");
  return name == "mean" ? Reduction::kMean : Reduction::kSum;
}

MergeStrategy merge_by_name(const std::string& name) {
  try {
    return merge_strategy_by_name(name);
  } catch (const Error& error) {
    throw UsageError(std::string("--merge: ") + error.what());
  }
}

// Checks the syntax of "cc" or "cuda:1,cc:2". The runtime checks later whether the backends exist.
void check_backend(const TrainOptions& options) {
  for (const std::string& part : split(options.backend, ',')) {
    const std::size_t colon = part.find(':');
    const std::string count = colon == std::string::npos ? "1" : part.substr(colon + 1);
    const bool is_number = !count.empty() && std::all_of(count.begin(), count.end(),
                                                         [](char c) { return c >= '0' && c <= '9'; });
    check(colon != 0 && !part.empty() && is_number,
          "--backend takes a name (cc) or names with shard counts (cuda:1,cc:2), not '" + options.backend +
              "'");
  }
}

}  // namespace

std::vector<std::uint64_t> parse_model(const std::string& model) {
  constexpr std::string_view kKind = "mlp:";
  const UsageError invalid("--model takes mlp: and the widths of the hidden layers, 1 to " +
                           grouped(kMaxLayerWidth) + " each (mlp:500, mlp:300-100), not '" + model + "'");
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

namespace {

// Options that are converted, or receive their defaults, after parsing.
struct TypedOptions {
  std::string data;
  std::string save;
  std::string reduction = "mean";
  std::string merge = "auto";
  std::string log_level;
  std::optional<std::int64_t> batch;
  std::optional<std::int64_t> epochs;
  std::optional<std::int64_t> classes;
};

void describe(CommandLine& line, TrainOptions& options, TypedOptions& typed) {
  line.text("backend", &options.backend,
            "backend to train on, default cc, or several with shard counts: cuda:1,cc:2", "NAME");
  line.integer("shards", &options.shards, "workers that divide each batch, default 2");
  line.text("data", &typed.data,
            "folder with IDX files like MNIST's, plain or .gz; they set the image size and the classes",
            "DIR");
  line.integer("classes", &typed.classes,
               "number of classes, default one more than the largest training label");
  line.text("model", &options.model,
            "widths of the hidden layers: mlp:500 (default with --data), mlp:300-100, ...");
  line.integer("batch", &typed.batch, "examples per step, over all shards, default 100 (half-moons 20)");
  line.integer("epochs", &typed.epochs, "passes over the data, default 5 (half-moons 30)");
  line.number("lr", &options.learning_rate, "learning rate, default 0.1");
  line.number("momentum", &options.momentum, "momentum, default 0");
  line.number("weight-decay", &options.weight_decay, "weight decay, default 0");
  line.flag("nesterov", &options.nesterov, "use Nesterov momentum");
  line.text("reduction", &typed.reduction, "how to combine the shards' gradients: mean (default) or sum",
            "NAME");
  line.text("merge", &typed.merge, "how to merge gradients: auto (default), owner, tree or direct", "NAME");
  line.integer("seed", &options.seed, "seed of the weights and the half-moons, default 0");
  line.texts("option", &options.device_options,
             "option of every device, may be repeated; yoke backends --help-options BACKEND lists them",
             "NAME=VALUE");
  line.text("save", &typed.save, "write the parameters to this .npz file at the end", "FILE");
  line.flag("strict", &options.strict, "fail before training if the backend cannot run every program itself");
  line.flag("json", &options.json,
            "print one JSON object to standard output at the end, everything else to standard error");
  line.text("log-level", &typed.log_level,
            "trace, debug, info (default with --layers), warn (default), error or off", "NAME");
}

void check_counts(const TypedOptions& typed) {
  check_at_least_one("--batch", typed.batch);
  check_at_least_one("--epochs", typed.epochs);
  const std::int64_t classes = typed.classes.value_or(1);
  check(classes >= 1 && classes <= 256,
        wrong_value("--classes", std::to_string(classes), "1 to 256, because labels are bytes"));
  check(!typed.classes || !typed.data.empty(), "--classes needs --data: half-moons have two classes");
}

}  // namespace

std::optional<TrainOptions> parse_train_options(Arguments arguments) {
  TrainOptions options;
  TypedOptions typed;
  CommandLine line("yoke train [OPTION...]",
                   "Trains a classifier of fully connected layers with ReLU between them, data-parallel. "
                   "Without --data it trains\n"
                   "on generated half-moons. Ctrl-C ends training after the current step and saves if --save "
                   "was given; a second\n"
                   "one ends it at once.");
  describe(line, options, typed);
  if (!line.parse(arguments)) {
    return std::nullopt;
  }
  check_counts(typed);
  options.data = typed.data;
  options.save = typed.save;
  options.batch = typed.batch.value_or(0);
  options.epochs = typed.epochs.value_or(0);
  options.class_count = typed.classes.value_or(0);
  options.reduction = reduction_by_name(typed.reduction);
  options.merge = merge_by_name(typed.merge);
  options.log_level =
      typed.log_level.empty() ? runtime_options().log_level : log_level_by_name(typed.log_level);
  if (!options.model.empty()) {
    options.hidden = parse_model(options.model);
  }
  check_ranges(options);
  check_backend(options);
  if (!options.shards && options.backend.find_first_of(":,") == std::string::npos) {
    options.shards = 2;
  }
  return options;
}

}  // namespace yoke::cli
