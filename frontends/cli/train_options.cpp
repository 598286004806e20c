// SPDX-License-Identifier: Apache-2.0
// frontends/cli/train_options.cpp: the options of yoke train, and what can be said against them before
// anything is done.
#include <algorithm>
#include <charconv>

#include "command_line.h"
#include "global_options.h"
#include "text.h"
#include "train.h"

namespace yoke::cli {
namespace {

constexpr std::int64_t kMostShards = 1024;
constexpr std::uint64_t kWidestLayer = 1'000'000;

void check(bool holds, const std::string& sentence) {
  if (!holds) {
    throw UsageError(sentence);
  }
}

void check_ranges(const TrainOptions& options) {
  const auto at_least_one = [](const char* name, std::int64_t value) {
    check(value >= 1, std::string(name) + " is " + std::to_string(value) + "; give at least 1");
  };
  if (options.shards) {
    at_least_one("--shards", *options.shards);
    check(*options.shards <= kMostShards,
          "--shards is " + std::to_string(*options.shards) + "; give at most " + std::to_string(kMostShards));
  }
  check(options.class_count >= 0 && options.class_count <= 256,
        "--classes is " + std::to_string(options.class_count) + "; labels are bytes: give 1 to 256");
  check(options.learning_rate > 0, "--lr is " + shortest(options.learning_rate) + "; give a number above 0");
  check(options.momentum >= 0 && options.momentum < 1,
        "--momentum is " + shortest(options.momentum) + "; give a number from 0 to below 1");
  check(options.weight_decay >= 0,
        "--weight-decay is " + shortest(options.weight_decay) + "; give 0 or more");
  check(!options.nesterov || options.momentum > 0, "--nesterov needs a --momentum above 0");
  check(options.seed >= 0, "--seed is " + std::to_string(options.seed) + "; give 0 or more");
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

// Names with counts, "cuda:1,cc:2": whether each part makes sense; which backends there are is the runtime's
// business.
void check_backend(const TrainOptions& options) {
  for (const std::string& part : split(options.backend, ',')) {
    const std::size_t colon = part.find(':');
    const std::string count = colon == std::string::npos ? "1" : part.substr(colon + 1);
    const bool is_number = !count.empty() && std::all_of(count.begin(), count.end(),
                                                         [](char c) { return c >= '0' && c <= '9'; });
    check(colon != 0 && !part.empty() && is_number,
          "--backend takes a name (cc) or names with counts (cuda:1,cc:2), not '" + options.backend + "'");
  }
}

}  // namespace

std::vector<std::uint64_t> parse_model(const std::string& model) {
  constexpr std::string_view kKind = "mlp:";
  const UsageError nonsense("--model '" + model +
                            "' makes no sense; write mlp: and the widths of the hidden layers, 1 to " +
                            grouped(kWidestLayer) + " each: mlp:500 or mlp:300-100");
  if (!model.starts_with(kKind)) {
    throw nonsense;
  }
  std::vector<std::uint64_t> widths;
  for (const std::string& part : split(std::string_view(model).substr(kKind.size()), '-')) {
    std::uint64_t width = 0;
    const auto [end, error] = std::from_chars(part.data(), part.data() + part.size(), width);
    if (error != std::errc() || end != part.data() + part.size() || width < 1 || width > kWidestLayer) {
      throw nonsense;
    }
    widths.push_back(width);
  }
  return widths;
}

namespace {

// What is typed as text or left out, before it becomes an option.
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
  line.text("backend", &options.backend, "a backend's name, default cc, or several with counts: cuda:1,cc:2",
            "NAME");
  line.integer("shards", &options.shards, "workers that share each batch, default 2");
  line.text("data", &typed.data,
            "folder with MNIST-like IDX files, plain or .gz; image size and classes come from them", "DIR");
  line.integer("classes", &typed.classes,
               "number of classes; default: one more than the largest training label");
  line.text("model", &options.model,
            "mlp:500 (default with --data), mlp:300-100, ...: widths of the hidden layers");
  line.integer("batch", &typed.batch, "examples per step, over all shards; default 100, half-moons 20");
  line.integer("epochs", &typed.epochs, "times through the data, default 5, half-moons 30");
  line.number("lr", &options.learning_rate, "learning rate, default 0.1");
  line.number("momentum", &options.momentum, "default 0");
  line.number("weight-decay", &options.weight_decay, "default 0");
  line.flag("nesterov", &options.nesterov, "Nesterov's momentum");
  line.text("reduction", &typed.reduction, "of the shards' gradients: mean (default) or sum", "NAME");
  line.text("merge", &typed.merge, "how gradients come together: auto (default), owner, tree, direct",
            "NAME");
  line.integer("seed", &options.seed, "of weights and half-moons, default 0");
  line.texts("option", &options.device_options,
             "for every device; may be typed several times; yoke backends --help-options BACKEND lists them",
             "NAME=VALUE");
  line.text("save", &typed.save, "write the parameters to this .npz file at the end", "FILE");
  line.flag("strict", &options.strict,
            "an error, before training begins, where the backend leaves a program to another one (cc)");
  line.flag("json", &options.json,
            "end with one JSON object on standard output; everything else goes to standard error");
  line.text("log-level", &typed.log_level,
            "trace, debug, info (default with --layers), warn (default), error or off", "NAME");
}

void check_counts(const TypedOptions& typed) {
  check(!typed.batch || *typed.batch >= 1,
        "--batch is " + std::to_string(typed.batch.value_or(0)) + "; give at least 1");
  check(!typed.epochs || *typed.epochs >= 1,
        "--epochs is " + std::to_string(typed.epochs.value_or(0)) + "; give at least 1");
  check(!typed.classes || *typed.classes >= 1,
        "--classes is " + std::to_string(typed.classes.value_or(0)) + "; labels are bytes: give 1 to 256");
  check(!typed.classes || !typed.data.empty(), "--classes needs --data: half-moons have two");
}

}  // namespace

std::optional<TrainOptions> parse_train_options(Arguments arguments) {
  TrainOptions options;
  TypedOptions typed;
  CommandLine line("yoke train [OPTION...]",
                   "Trains a network of fully connected layers with ReLU between them to tell classes apart, "
                   "data-parallel. Without --data it\n"
                   "trains on generated half-moons. Ctrl-C ends it after the step, saved where --save asked; "
                   "a second one ends it at once.");
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
