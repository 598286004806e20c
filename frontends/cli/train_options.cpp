// SPDX-License-Identifier: Apache-2.0
// frontends/cli/train_options.cpp: parses and checks the options of yoke train.
#include <yoke/data_parallel.h>
#include <yoke/runtime/closest.h>
#include <yoke/runtime/counted.h>
#include <yoke/runtime/ending.h>
#include <yoke/runtime/shell_word.h>

#include <algorithm>
#include <limits>

#include "config_file.h"
#include "global_options.h"
#include "text.h"
#include "train_setup.h"
#include "train_typed.h"

namespace yoke::cli {
namespace {

void check(bool valid, const std::string& message) {
  if (!valid) {
    throw UsageError(message);
  }
}

Reduction reduction_by_name(const std::string& name) {
  check(name == "mean" || name == "sum",
        "--reduction takes mean or sum, not '" + name + "'" + did_you_mean(name, {"mean", "sum"}));
  return name == "mean" ? Reduction::kMean : Reduction::kSum;
}

// The value that `find` returns for an option's text.
template <class Find>
auto by_name(const char* option, const std::string& name, const Find& find) {
  try {
    return find(name);
  } catch (const Error& error) {
    throw UsageError(std::string(option) + ": " + error.what());
  }
}

// Checks "cc" or "cuda:1,cc:2", and --shards, which becomes the sum of the counts. The runtime checks later whether the
// backends exist.
void check_backend(TrainOptions& options) {
  const std::vector<std::string> parts = split(options.backend, ',');
  const std::string in_list = "--backend " + options.backend + ": ";
  std::int64_t sum = 0;
  check(
      std::none_of(parts.begin(), parts.end(),
                   [](const std::string& part) { return part.empty() || part.front() == ':'; }),
      "--backend takes a name (cc) or names with shard counts (cuda:1,cc:2), not '" + options.backend + "'");
  for (const std::string& part : parts) {
    const std::size_t colon = part.find(':');
    if (colon == std::string::npos) {
      check(parts.size() == 1, std::string(in_list).append("'").append(part).append(
                                   "' needs a number of shards, as in cuda:1,cc:2"));
      continue;
    }
    sum +=
        parse_integer("--backend " + part.substr(0, colon) + ":N", part.substr(colon + 1), {1, kMaxShards});
  }
  const auto weights = static_cast<std::int64_t>(options.row_weights.size());
  const std::int64_t shards = options.shards.value_or(sum);
  check(weights == 0 || shards == 0 || weights == shards,
        "--row-weights has " + detail::counted(weights, "number") + " for " +
            detail::counted(shards, "shard") + "; give one per shard");
  const std::string counted = "the counts add up to " + detail::counted(sum, "shard");
  check(sum <= kMaxShards, in_list + counted + "; the maximum is " + std::to_string(kMaxShards));
  check(sum == 0 || !options.shards || *options.shards == sum,
        in_list + counted + ", but --shards is " + std::to_string(options.shards.value_or(0)) +
            "; leave one of them out");
  if (sum > 0) {
    options.shards = sum;
  }
}

// Checks how gradients are merged, as far as the options show. The runtime checks the rest.
void check_merging(const TrainOptions& options) {
  const std::string merge = std::string("--merge ") + merge_strategy_name(options.merge);
  const std::string name = options.backend.substr(0, options.backend.find(':'));
  for (const std::string& part : split(options.backend, ',')) {
    check(options.merge != MergeStrategy::kNative || part.substr(0, part.find(':')) == name,
          merge + " needs devices of one backend; --backend is " + options.backend);
  }
  const bool sends_sums = options.merge != MergeStrategy::kNative && options.merge != MergeStrategy::kDirect;
  check(options.wire == Wire::kFull || sends_sums,
        "--wire bf16 does not work with " + merge + "; use owner, tree or ring");
  check(options.wire == Wire::kFull || options.precision != Precision::kF16,
        "--wire bf16 does not work with --precision f16, which scales gradients; use --precision bf16");
  check(options.placement != Placement::kSharded || options.optimizer != "lamb",
        "--placement sharded does not work with --optimizer lamb, which needs whole parameters; use owner or "
        "everywhere");
}

// "3,3,1" or "measured".
void parse_row_weights(const std::string& text, TrainOptions& options) {
  if (text.empty()) {
    return;
  }
  options.measure_row_weights = text == "measured";
  const std::string similar = did_you_mean(text, {"measured"});
  check(options.measure_row_weights || similar.empty(),
        "--row-weights takes numbers or measured, not '" + text + "'" + similar);
  for (const std::string& number : split(text, ',')) {
    if (!options.measure_row_weights) {
      options.row_weights.push_back(parse_integer("--row-weights", number, {1, 1'000'000}));
    }
  }
  check(options.reproducible == 0,
        "--row-weights does not work with --reproducible, which needs equal parts of a batch");
}

void parse_augmentation(TrainOptions& options) {
  constexpr std::string_view kCrop = "crop:";
  for (const std::string& part :
       options.augment.empty() ? std::vector<std::string>() : split(options.augment, ',')) {
    const bool is_crop = part.starts_with(kCrop);
    check((is_crop && options.crop_padding == 0) || (part == "flip" && !options.flips),
          "--augment takes flip, crop:PIXELS, or both, separated by a comma, not '" + options.augment + "'" +
              did_you_mean(part.substr(0, part.find(':')), {"flip", "crop"}));
    options.flips = options.flips || !is_crop;
    if (is_crop) {
      options.crop_padding =
          static_cast<std::uint64_t>(parse_integer("--augment crop:", part.substr(kCrop.size()), {1, 1000}));
    }
  }
}

// With the library's defaults, the rate would fall to a tenth in each step, so a run would train for only a few steps.
void check_decay(const std::string& schedule) {
  const auto has = [&](const std::string& key) {
    return schedule.find(":" + key + "=") != schedule.npos || schedule.find("," + key + "=") != schedule.npos;
  };
  const std::string name = schedule.substr(0, schedule.find(':'));
  check(name != "step" || has("every"),
        "--schedule step needs every, the number of steps after which the rate is multiplied by gamma (0.1), "
        "as in step:every=1000,gamma=0.1");
  check(name != "exponential" || has("gamma"),
        "--schedule exponential needs gamma, the factor after each step, as in exponential:gamma=0.999");
}

// The other schedules are only checked: they depend on the length of the run, which is not known yet.
void parse_plateau_schedule(TrainOptions& options) {
  try {
    options.plateau = parse_plateau(options.schedule);
    if (!options.plateau) {
      options.schedule_needs_steps = needs_steps(
          parse_schedule(options.schedule, options.learning_rate, std::numeric_limits<std::int64_t>::max())
              .kind);
    }
  } catch (const Error& error) {
    throw UsageError(std::string("--") + error.what());
  }
  check_decay(options.schedule);
}

// Checks the options that only some optimizers have, and sets the defaults that depend on the optimizer.
void choose_optimizer(TrainOptions& options, const TypedOptions& typed) {
  const std::string& name = options.optimizer;
  by_name("--optimizer", name, optimizer_by_name);
  check(options.momentum == 0 || name == "sgd" || name == "rmsprop",
        "--momentum works with --optimizer sgd and rmsprop, not with " + name);
  check(!options.nesterov || name == "sgd", "--nesterov works with --optimizer sgd, not with " + name);
  check(!options.nesterov || options.momentum > 0, "--nesterov needs --momentum greater than 0");
  parse_clipping(options);
  if (!typed.no_decay.empty()) {
    options.no_decay = split(typed.no_decay, ',');
    check(std::find(options.no_decay.begin(), options.no_decay.end(), "") == options.no_decay.end(),
          "--no-decay " + typed.no_decay + " has an empty pattern; separate patterns by single commas");
  }
  const double rate = name == "sgd"                            ? 0.1
                      : name == "rmsprop" || name == "adagrad" ? 0.01
                      : name == "lion"                         ? 1e-4
                                                               : 1e-3;
  options.learning_rate = typed.learning_rate > 0 ? typed.learning_rate : rate;
  options.weight_decay = typed.weight_decay >= 0 ? typed.weight_decay
                         : name == "adamw"       ? AdamW{}.weight_decay
                                                 : 0;
  check(typed.no_decay.empty() || options.weight_decay > 0,
        "--no-decay has no effect without weight decay; give --weight-decay greater than 0");
}

void check_micro_batches(const TrainOptions& options, const TypedOptions& typed) {
  const std::int64_t count = options.reproducible;
  const std::string given = "--reproducible " + std::to_string(count);
  const std::int64_t shards = options.shards.value_or(1);
  check((count & (count - 1)) == 0, "--reproducible takes a power of two from 1 to " +
                                        std::to_string(kMaxShards) + ", not '" + std::to_string(count) + "'");
  check(count == 0 || count % shards == 0,
        given + " needs a number of shards that divides it, not " + std::to_string(shards));
  check(count == 0 || options.accumulate == 1,
        given + " does not work with --accumulate; leave one of them out");
  check(count == 0 || typed.wire == "full",
        given + " does not work with --wire " + typed.wire +
            ", whose rounding errors depend on the number of shards; leave one of them out");
  check(count == 0 || typed.merge == "auto" || typed.merge == "tree",
        given + " needs --merge tree or auto; --merge is " + typed.merge);
  check(shards * options.accumulate <= kMaxShards, "--shards times --accumulate is " +
                                                       std::to_string(shards * options.accumulate) +
                                                       "; the maximum is " + std::to_string(kMaxShards));
}

}  // namespace

namespace {

void check_folder_is_given(const TrainOptions& options, const TypedOptions& typed) {
  std::vector<std::string> given;
  for (const auto& [name, is_given] :
       {std::pair("--save-every", typed.save_every.has_value()), std::pair("--keep", typed.keep.has_value()),
        std::pair("--resume", options.resume)}) {
    if (is_given) {
      given.emplace_back(name);
    }
  }
  const std::filesystem::path config = typed.config;
  const bool is_of_a_run = config.filename() == kConfigFile;
  const std::string folder = config.has_parent_path() ? config.parent_path().string() : ".";
  check(given.empty() || !options.checkpoints.empty(),
        join(given, " and ") + (given.size() == 1 ? " needs" : " need") +
            " --save with a folder for checkpoints" +
            (is_of_a_run ? "; to continue the run of " + typed.config + ", add --save " +
                               detail::shell_word(folder) + (options.resume ? "" : " and --resume")
                         : ""));
}

void choose_files(TrainOptions& options, const TypedOptions& typed) {
  const std::filesystem::path save = typed.save;
  const std::string format = detail::ending_of(save);
  const bool is_file = format == ".npz" || format == ".safetensors";
  (is_file ? options.save : options.checkpoints) = save;
  check_folder_is_given(options, typed);
  check(!typed.steps || !typed.epochs,
        "--steps and --epochs both give the length of the run; leave one of them out");
  check(!typed.split || !typed.splits.empty(), "--split needs --splits");
  check(options.task.empty() || options.task == "regression" || options.task == "classification",
        "--task takes regression or classification, not '" + options.task + "'" +
            did_you_mean(options.task, {"regression", "classification"}));
  options.save_every = typed.save_every.value_or(0);
  options.keep = typed.keep.value_or(options.keep);
  options.early_stopping = typed.early_stopping.value_or(0);
  options.report = typed.report;
  const std::string ending = detail::ending_of(options.report);
  check(options.report.empty() || ending == ".html" || ending == ".htm",
        "--report takes a file that ends in .html, not '" + typed.report + "'");
  options.steps = typed.steps.value_or(0);
  options.split = typed.split.value_or(0);
  options.splits = typed.splits;
  options.load = typed.load;
  options.test_share_is_given = typed.test_share > 0;
  options.test_share = options.test_share_is_given ? typed.test_share : options.test_share;
  if (!typed.drop.empty()) {
    options.drop = csv_fields(typed.drop, "--drop");
  }
}

}  // namespace

std::optional<TrainOptions> parse_train_options(Arguments arguments) {
  TrainOptions options;
  TypedOptions typed;
  CommandLine line(
      "yoke train [OPTION...]",
      "Trains a model with data parallelism, by default a fully connected one with ReLU activations. Without "
      "--data, it\n"
      "trains on generated half-moons. Ctrl-C ends training after the current step, saves if --save was "
      "given, and then\n"
      "evaluates (exit code 0). So do SIGTERM, SIGHUP and, with exit code 1, a closed output pipe. A second "
      "signal, or one\n"
      "while the data is read, ends the process at once.");
  describe_options(line, options, typed);
  if (!line.parse(arguments)) {
    return std::nullopt;
  }
  check(!typed.classes || !typed.data.empty(), "--classes needs --data: half-moons have two classes");
  choose_optimizer(options, typed);
  check(!options.sync_batch_norm || options.model == "resnet18",
        "--sync-batch-norm needs --model resnet18; no other model has batch norm");
  check(!options.sync_batch_norm || (options.accumulate == 1 && !typed.reproducible),
        "--sync-batch-norm does not work with --accumulate or --reproducible: it needs all rows of a batch "
        "at once");
  parse_plateau_schedule(options);
  parse_augmentation(options);
  options.reproducible = typed.reproducible.value_or(0);
  check(typed.timeline.empty() || typed.trace.empty(),
        "--timeline and --trace are the same option; leave one of them out");
  options.data = typed.data;
  choose_files(options, typed);
  options.timeline = typed.timeline.empty() ? typed.trace : typed.timeline;
  const std::vector<NamedFile> outputs = {
      {"--timeline", options.timeline.string()}, {"--save", typed.save}, {"--report", typed.report}};
  check_files({{"--data", typed.data}, {"--splits", typed.splits}, {"--config", typed.config}}, outputs);
  check_files({{"--load", typed.load}}, {outputs[0], outputs[2]});  // --save may replace it
  options.batch = typed.batch.value_or(0);
  options.batch_is_given = typed.batch.has_value();
  options.epochs = typed.epochs.value_or(0);
  options.class_count = typed.classes.value_or(0);
  options.reduction = reduction_by_name(typed.reduction);
  options.merge = by_name("--merge", typed.merge, merge_strategy_by_name);
  options.placement = by_name("--placement", typed.placement, placement_by_name);
  options.overlap = by_name("--overlap", typed.overlap, overlap_by_name);
  options.on_device_lost = by_name("--on-device-lost", typed.on_device_lost, on_device_lost_by_name);
  options.wire = by_name("--wire", typed.wire, wire_by_name);
  options.precision = by_name("--precision", typed.precision, precision_by_name);
  check_merging(options);
  options.log_level =
      typed.log_level.empty() ? runtime_options().log_level : log_level_by_name(typed.log_level);
  if (!options.model.empty()) {
    options.hidden = parse_model(options.model);
  }
  parse_row_weights(typed.row_weights, options);
  check_backend(options);
  check_micro_batches(options, typed);
  if (!options.shards && options.backend.find(':') == std::string::npos && !options.row_weights.empty()) {
    options.shards = static_cast<std::int64_t>(options.row_weights.size());
  }
  return options;
}

}  // namespace yoke::cli
