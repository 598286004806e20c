// SPDX-License-Identifier: Apache-2.0
// frontends/cli/train_options.cpp: parses and checks the options of yoke train.
#include <yoke/data_parallel.h>

#include <algorithm>

#include "command_line.h"
#include "global_options.h"
#include "text.h"
#include "train.h"
#include "train_setup.h"

namespace yoke::cli {
namespace {

constexpr std::int64_t kMost = 1'000'000'000;
constexpr std::int64_t kMaxSeed = (std::int64_t{1} << 62) - kMaxShards - 1;

void check(bool valid, const std::string& message) {
  if (!valid) {
    throw UsageError(message);
  }
}

Reduction reduction_by_name(const std::string& name) {
  check(name == "mean" || name == "sum", "--reduction takes mean or sum, not '" + name + "'");
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

// Checks "cc" or "cuda:1,cc:2", and --shards. The runtime checks later whether the backends exist.
void check_backend(const TrainOptions& options) {
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
  check(weights == 0 || shards == 0 || weights == shards, "--row-weights has " + std::to_string(weights) +
                                                              " numbers for " + std::to_string(shards) +
                                                              " shards; give one per shard");
  const std::string counted =
      "the counts add up to " + std::to_string(sum) + (sum == 1 ? " shard" : " shards");
  check(sum <= kMaxShards, in_list + counted + "; the maximum is " + std::to_string(kMaxShards));
  check(sum == 0 || !options.shards || *options.shards == sum,
        in_list + counted + ", but --shards is " + std::to_string(options.shards.value_or(0)) +
            "; leave one of them out");
}

// "3,3,1" or "measured".
void parse_row_weights(const std::string& text, TrainOptions& options) {
  if (text.empty()) {
    return;
  }
  options.measure_row_weights = text == "measured";
  for (const std::string& number : split(text, ',')) {
    if (!options.measure_row_weights) {
      options.row_weights.push_back(parse_integer("--row-weights", number, {1, 1'000'000}));
    }
  }
  check(options.reproducible == 0,
        "--row-weights cannot be used with --reproducible, which needs equal parts of a batch");
}

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
  std::string trace;         // another name of `timeline`
  std::string config;        // only for --help: with_config() replaces it
  double test_share = 0;     // 0: the default
  double learning_rate = 0;  // 0 and -1: the optimizer's default
  double weight_decay = -1;
};

void describe_data(CommandLine& line, TrainOptions& options, TypedOptions& typed) {
  line.text("backend", &options.backend,
            "backend to train on, default cc, or several with shard counts: cuda:1,cc:2", "NAME");
  line.integer("shards", &options.shards, {1, kMaxShards},
               "workers that share each batch; by default chosen so that shards times threads use all cores");
  line.text("data", &typed.data,
            "folder with IDX files like MNIST's, plain or .gz; or the file of a table: .csv, or columns "
            "separated by blanks in .txt, .tsv, .dat or .data",
            "DIR_OR_FILE");
  line.integer("classes", &typed.classes, {1, 256},  // a label is one byte
               "number of classes, default one more than the largest training label");
  line.text("label", &options.label, "column of the label in a table, by name or number; default the last",
            "COLUMN");
  line.text("drop", &typed.drop, "columns of a table that are not features, separated by commas", "COLUMNS");
  line.text("task", &options.task,
            "regression (default if a table's labels are numbers) or classification (default for words)",
            "NAME");
  line.text("splits", &typed.splits,
            "file whose lines are permutations of a table's rows, the test rows last; default by --seed",
            "FILE");
  line.integer("split", &typed.split, {0, kMost}, "line of --splits, from 0, the default");
  line.number("test-share", &typed.test_share, {.low = 1e-6, .high = 1, .is_open = true},
              "part of a table's rows that is kept for testing, default 0.1");
  line.flag("lines", &options.lines,
            "the lines of a text are independent: shuffle them by --seed before the last tenth is kept for "
            "testing");
  line.flag("shuffle", &options.shuffle, "train on the rows in a new order in each epoch, by --seed");
  line.text("augment", &options.augment,
            "change images at random in training: flip (left to right), crop:4 (move by up to 4 pixels), or "
            "flip,crop:4",
            "LIST");
}

void describe_training(CommandLine& line, TrainOptions& options, TypedOptions& typed) {
  line.text("model", &options.model,
            "mlp: and the widths of the hidden layers: mlp:500 (default with --data), mlp:300-100, ...; for "
            "images lenet or resnet18; for the characters of a text, --data FILE, char-bigram, char-mlp, "
            "char-lstm or gpt:layers=4,heads=4,width=128,context=64");
  line.integer("batch", &typed.batch, {1, kMost},
               "examples per step, over all shards, default 100 (half-moons 20)");
  line.integer("epochs", &typed.epochs, {1, kMost}, "passes over the data, default 5 (half-moons 30)");
  line.integer("steps", &typed.steps, {1, kMost}, "number of steps, instead of --epochs");
  constexpr double kTiny = 1e-38;  // smaller numbers are 0 as f32
  line.text("optimizer", &options.optimizer, "sgd (default), adam, adamw, rmsprop, adagrad, lion or lamb",
            "NAME");
  line.number("lr", &typed.learning_rate, {.low = kTiny},
              "learning rate, default 0.1; adam, adamw, lamb 0.001; rmsprop, adagrad 0.01; lion 0.0001");
  line.text("schedule", &options.schedule,
            "learning rate over the steps: constant (default), linear, cosine, step, exponential or "
            "one-cycle, with options as in cosine:warmup=100,end=0.1; or reduced when the test loss has not "
            "improved for some epochs: plateau:factor=0.5,patience=3",
            "NAME[:OPTIONS]");
  line.number("momentum", &options.momentum, {.high = 1, .is_open = true},
              "momentum of sgd or rmsprop, less than 1, default 0");
  line.number("weight-decay", &typed.weight_decay, {}, "weight decay, default 0; adamw 0.01");
  line.text(
      "no-decay", &typed.no_decay,
      "no weight decay for parameters whose names match one of these patterns, separated by commas, such as "
      "*bias,*norm*",
      "PATTERNS");
  line.text("clip", &options.clip,
            "clip the merged gradient: its norm over all parameters (1.0 or norm:1.0), or each element "
            "(value:0.5)",
            "LIMIT");
  line.flag("sync-batch-norm", &options.sync_batch_norm,
            "normalize with the statistics of the whole batch, not of each shard, with --model resnet18");
  line.flag("nesterov", &options.nesterov, "use Nesterov momentum, with sgd");
}

void describe_shards(CommandLine& line, TrainOptions& options, TypedOptions& typed) {
  line.text("reduction", &typed.reduction, "how to combine the shards' gradients: mean (default) or sum",
            "NAME");
  line.text(
      "merge", &typed.merge,
      "how to merge gradients: auto (default: the strategy with the lowest estimated time), owner, tree, "
      "direct, ring or native",
      "NAME");
  line.text("placement", &typed.placement,
            "which shards run the optimizer: auto (default), owner, everywhere or sharded", "NAME");
  line.text("overlap", &typed.overlap,
            "merge gradients while others are computed: auto (default: not on CPUs), on or off", "NAME");
  line.text(
      "on-device-lost", &typed.on_device_lost,
      "when a shard fails: fail (default), or redistribute its rows to the other shards and repeat the step",
      "NAME");
  line.text(
      "wire", &typed.wire,
      "how gradients are sent between shards: full (default), or bf16, half the bytes, with error feedback",
      "NAME");
  line.text("precision", &typed.precision,
            "type of products and convolutions: f32 (default), bf16, or f16 with dynamic loss scaling; "
            "parameters and everything else stay f32",
            "TYPE");
  line.integer(
      "accumulate", &options.accumulate, {1, kMaxShards},
      "micro-batches into which each shard divides its rows, default 1; saves memory; those for which a "
      "batch has no rows are idle; with --reduction sum, each adds its gradient as a shard does");
  line.integer(
      "reproducible", &typed.reproducible, {1, kMaxShards},
      "micro-batches per step, a power of two: the same bits for every number of shards that divides it");
  line.text("row-weights", &typed.row_weights,
            "how to divide the rows of a batch: in proportion to one number per shard, such as 3,3,1; or "
            "measured: faster devices get more rows",
            "LIST");
}

void describe_run(CommandLine& line, TrainOptions& options, TypedOptions& typed) {
  line.integer("seed", &options.seed, {0, kMaxSeed},
               "seed of the weights and the half-moons, not negative, default 0");
  line.texts("option", &options.device_options,
             "option of every device, may be repeated; yoke backends --help-options BACKEND lists them",
             "NAME=VALUE");
  line.text(
      "save", &typed.save,
      "write the parameters to this .npz or .safetensors file at the end; another name is a folder, for "
      "checkpoints during the run",
      "FILE_OR_DIR");
  line.integer("save-every", &typed.save_every, {1, kMost}, "steps between checkpoints, default one epoch");
  line.integer("keep", &typed.keep, {1, kMost}, "number of checkpoints to keep, default 3");
  line.flag("resume", &options.resume, "continue from the latest checkpoint in --save DIR, if it has one");
  line.integer("early-stopping", &typed.early_stopping, {1, kMost},
               "end when the test loss has not improved in this many epochs; --save then saves the best "
               "parameters; a folder of checkpoints keeps them in its subfolder 'best'");
  line.text(
      "report", &typed.report,
      "write a page with curves of the losses, metrics, learning rate and throughput to this .html file",
      "FILE");
  line.text("load", &typed.load,
            "start with the parameters in this .npz or .safetensors file, or folder of checkpoints",
            "FILE_OR_DIR");
  line.text("config", &typed.config,
            "TOML file with options: key = value; those of the command line override them", "FILE");
  line.text("timeline", &typed.timeline,
            "write a timeline of each stream's work to this file, for ui.perfetto.dev or chrome://tracing",
            "FILE");
  line.text("trace", &typed.trace, "another name of --timeline", "FILE");
  line.flag("strict", &options.strict, "fail before training if the backend cannot run every program itself");
  line.flag("force", &options.force, "start even if the run needs more memory than is available");
  line.flag(
      "stop-on-nan", &options.stop_on_nan,
      "end with exit code 1 at the first step whose loss is infinite or nan, and save the parameters from "
      "before it; every step waits for its loss");
  line.number("wait-timeout", &options.wait_timeout_seconds, {.low = 0.001, .high = 1e6},
              "seconds after which work that does not finish is an error, default 600");
  line.flag("json", &options.json,
            "print one JSON object to standard output at the end, everything else to standard error");
  line.text("log-level", &typed.log_level,
            "trace, debug, info (default with --layers), warn (default), error or off", "NAME");
}

}  // namespace

namespace {

void parse_augmentation(TrainOptions& options) {
  constexpr std::string_view kCrop = "crop:";
  for (const std::string& part :
       options.augment.empty() ? std::vector<std::string>() : split(options.augment, ',')) {
    const bool is_crop = part.starts_with(kCrop);
    check((is_crop && options.crop_padding == 0) || (part == "flip" && !options.flips),
          "--augment takes flip, crop:PIXELS, or both, separated by a comma, not '" + options.augment + "'");
    options.flips = options.flips || !is_crop;
    if (is_crop) {
      options.crop_padding =
          static_cast<std::uint64_t>(parse_integer("--augment crop:", part.substr(kCrop.size()), {1, 1000}));
    }
  }
}

// The other schedules depend on the length of the run, which is not known yet.
void parse_plateau_schedule(TrainOptions& options) {
  try {
    options.plateau = parse_plateau(options.schedule);
  } catch (const Error& error) {
    throw UsageError(std::string("--") + error.what());
  }
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
        "--no-decay needs --weight-decay greater than 0; " + name + " has none by default");
}

void check_micro_batches(TrainOptions& options, const TypedOptions& typed) {
  options.reproducible = typed.reproducible.value_or(0);
  const std::int64_t count = options.reproducible;
  const std::string given = "--reproducible " + std::to_string(count);
  const std::int64_t shards = options.shards.value_or(1);
  check((count & (count - 1)) == 0, "--reproducible takes a power of two from 1 to " +
                                        std::to_string(kMaxShards) + ", not '" + std::to_string(count) + "'");
  check(count == 0 || count % shards == 0,
        given + " needs a number of shards that divides it; --shards is " + std::to_string(shards));
  check(count == 0 || options.accumulate == 1,
        given + " does not work with --accumulate; leave one of them out");
  check(count == 0 || typed.merge == "auto" || typed.merge == "tree",
        given + " needs --merge tree, its default; --merge is " + typed.merge);
  check(shards * options.accumulate <= kMaxShards, "--shards times --accumulate is " +
                                                       std::to_string(shards * options.accumulate) +
                                                       "; the maximum is " + std::to_string(kMaxShards));
}

}  // namespace

namespace {

void choose_files(TrainOptions& options, const TypedOptions& typed) {
  const std::filesystem::path save = typed.save;
  const bool is_file = save.extension() == ".npz" || save.extension() == ".safetensors";
  (is_file ? options.save : options.checkpoints) = save;
  check(!options.checkpoints.empty() || (!typed.save_every && !typed.keep && !options.resume),
        "--save-every, --keep and --resume need --save with a folder for checkpoints");
  check(typed.load.empty() || !options.resume,
        "--load and --resume both give the first parameters; leave one of them out");
  check(!typed.steps || !typed.epochs,
        "--steps and --epochs both give the length of the run; leave one of them out");
  check(!typed.split || !typed.splits.empty(), "--split needs --splits");
  check(options.task.empty() || options.task == "regression" || options.task == "classification",
        "--task takes regression or classification, not '" + options.task + "'");
  options.save_every = typed.save_every.value_or(0);
  options.keep = typed.keep.value_or(options.keep);
  options.early_stopping = typed.early_stopping.value_or(0);
  options.report = typed.report;
  const std::string ending = options.report.extension().string();
  check(options.report.empty() || ending == ".html" || ending == ".htm",
        "--report takes a file that ends in .html, not '" + typed.report + "'");
  options.steps = typed.steps.value_or(0);
  options.split = typed.split.value_or(0);
  options.splits = typed.splits;
  options.load = typed.load;
  options.test_share = typed.test_share > 0 ? typed.test_share : options.test_share;
  if (!typed.drop.empty()) {
    options.drop = split(typed.drop, ',');
  }
}

}  // namespace

std::optional<TrainOptions> parse_train_options(Arguments arguments) {
  TrainOptions options;
  TypedOptions typed;
  CommandLine line(
      "yoke train [OPTION...]",
      "Trains a model data-parallel, by default one of fully connected layers with ReLU between them. "
      "Without --data, it\n"
      "trains on generated half-moons. Ctrl-C ends training after the current step and saves if --save "
      "was given; a second\n"
      "Ctrl-C ends it at once. SIGTERM, SIGHUP and a closed output pipe have the effect of Ctrl-C.");
  describe_data(line, options, typed);
  describe_training(line, options, typed);
  describe_shards(line, options, typed);
  describe_run(line, options, typed);
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
  check_micro_batches(options, typed);
  check(typed.timeline.empty() || typed.trace.empty(),
        "--timeline and --trace are the same option; leave one of them out");
  options.data = typed.data;
  choose_files(options, typed);
  options.timeline = typed.timeline.empty() ? typed.trace : typed.timeline;
  check_files({{"--data", typed.data}, {"--load", typed.load}, {"--splits", typed.splits}},
              {{"--timeline", options.timeline.string()}, {"--report", typed.report}});
  check_files({{"--data", typed.data}, {"--splits", typed.splits}}, {{"--save", typed.save}});
  check_files(
      {}, {{"--timeline", options.timeline.string()}, {"--save", typed.save}, {"--report", typed.report}});
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
  options.log_level =
      typed.log_level.empty() ? runtime_options().log_level : log_level_by_name(typed.log_level);
  if (!options.model.empty()) {
    options.hidden = parse_model(options.model);
  }
  parse_row_weights(typed.row_weights, options);
  check_backend(options);
  if (!options.shards && options.backend.find(':') == std::string::npos && !options.row_weights.empty()) {
    options.shards = static_cast<std::int64_t>(options.row_weights.size());
  }
  return options;
}

}  // namespace yoke::cli
