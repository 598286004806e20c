// SPDX-License-Identifier: Apache-2.0
// frontends/cli/train_typed.cpp: the list of yoke train's options, with their ranges and help.
#include "train_typed.h"

#include <yoke/data_parallel.h>

namespace yoke::cli {
namespace {

constexpr std::int64_t kMost = 1'000'000'000;
constexpr std::int64_t kMaxSeed = (std::int64_t{1} << 62) - kMaxShards - 1;

void describe_data(CommandLine& line, TrainOptions& options, TypedOptions& typed) {
  line.text("backend", &options.backend,
            "backend to train on, default cc, or several with shard counts: cuda:1,cc:2", "NAME");
  line.integer("shards", &options.shards, {1, kMaxShards},
               "workers that share each batch; by default chosen so that shards times threads use all cores");
  line.text("data", &typed.data,
            "folder with IDX files like MNIST's, plain or .gz; or a table: .csv, or columns separated by "
            "tabs in .tsv, or by blanks in .txt, .dat or .data; or a text, with a --model for characters",
            "DIR_OR_FILE");
  line.integer("classes", &typed.classes, {1, 256},  // a label is one byte
               "number of classes, default one more than the largest training label");
  line.text("label", &options.label, "column of the label in a table, by name or number; default the last",
            "COLUMN");
  line.text(
      "drop", &typed.drop,
      "columns of a table that are not features, separated by commas; put a name that contains a comma in "
      "double quotes",
      "COLUMNS");
  line.text("task", &options.task,
            "regression (default if a table's labels are numbers) or classification (default for words)",
            "NAME");
  line.text(
      "splits", &typed.splits,
      "file whose lines are permutations of a table's rows, the test rows last; by default chosen by --seed",
      "FILE");
  line.integer("split", &typed.split, {0, kMost}, "line of --splits to use, counted from 0; default 0");
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
  line.text(
      "model", &options.model,
      "mlp: followed by the widths of the hidden layers, as in mlp:500 (default for images), mlp:50 (default "
      "for tables) or mlp:16-16 (default for half-moons); for images lenet or resnet18; for the characters "
      "of a text, --data FILE, char-bigram, char-mlp, char-lstm or "
      "gpt:layers=4,heads=4,width=128,context=64");
  line.integer("batch", &typed.batch, {1, kMost},
               "examples per step, over all shards, default 100 (tables and texts 32, half-moons 20)");
  line.integer("epochs", &typed.epochs, {1, kMost},
               "passes over the data, default 5 (tables 40, half-moons 30)");
  line.integer("steps", &typed.steps, {1, kMost}, "number of steps, instead of --epochs");
  constexpr double kTiny = 1e-38;  // smaller numbers are 0 as f32
  line.text("optimizer", &options.optimizer, "sgd (default), adam, adamw, rmsprop, adagrad, lion or lamb",
            "NAME");
  line.number("lr", &typed.learning_rate, {.low = kTiny},
              "learning rate, default 0.1; adam, adamw, lamb 0.001; rmsprop, adagrad 0.01; lion 0.0001");
  line.text(
      "schedule", &options.schedule,
      "learning rate over the steps: constant (default), linear, cosine or one-cycle, with options as in "
      "cosine:warmup=100,end=0.1; step:every=1000 or exponential:gamma=0.999, which need "
      "these options; or reduced when the test loss has not improved for some epochs: "
      "plateau:factor=0.5,patience=3",
      "NAME[:OPTIONS]");
  line.number("momentum", &options.momentum, {.high = 1, .is_open = true},
              "momentum of sgd or rmsprop, less than 1, default 0");
  line.number("weight-decay", &typed.weight_decay, {}, "weight decay, default 0; adamw 0.01");
  line.text(
      "no-decay", &typed.no_decay,
      "no weight decay for parameters whose names match one of these patterns, separated by commas, such as "
      "*bias,*norm*; at least one pattern must match",
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
      "micro-batches into which each shard divides its rows, default 1; saves memory; micro-batches without "
      "rows are idle; with --reduction sum, each micro-batch adds its gradient as a shard does");
  line.integer(
      "reproducible", &typed.reproducible, {1, kMaxShards},
      "micro-batches per step, a power of two: training gives the same bits for every number of shards that "
      "divides it; test results may differ by rounding");
  line.text("row-weights", &typed.row_weights,
            "how to divide the rows of a batch: in proportion to one number per shard, such as 3,3,1; or "
            "measured: faster devices get more rows",
            "LIST");
}

void describe_run(CommandLine& line, TrainOptions& options, TypedOptions& typed) {
  line.integer("seed", &options.seed, {0, kMaxSeed},
               "seed of everything random: weights, half-moons, test rows, --shuffle, --augment and others; "
               "not negative, default 0");
  line.texts(
      "option", &options.device_options,
      "option of every device, or of those of one backend (cc.threads=2), may be repeated; yoke backends "
      "--help-options BACKEND lists them",
      "[BACKEND.]NAME=VALUE");
  line.text(
      "save", &typed.save,
      "write the parameters to this .npz or .safetensors file at the end; any other name is a folder for "
      "checkpoints during the run",
      "FILE_OR_DIR");
  line.integer("save-every", &typed.save_every, {1, kMost}, "steps between checkpoints, default one epoch");
  line.integer("keep", &typed.keep, {1, kMost}, "number of checkpoints to keep, default 3");
  line.flag("resume", &options.resume, "continue from the latest checkpoint in --save DIR, if it has one");
  line.integer("early-stopping", &typed.early_stopping, {1, kMost},
               "end when the test loss has not improved in this many epochs; --save then saves the best "
               "parameters; a folder of checkpoints keeps them in its subfolder 'best'");
  line.text("report", &typed.report,
            "write a page with curves of the losses, metrics, learning rate and throughput to this .html "
            "file; with --resume, only for the steps after the checkpoint",
            "FILE");
  line.text(
      "load", &typed.load,
      "start with the parameters in this .npz or .safetensors file, or in a folder of checkpoints (its best "
      "if it has one, otherwise its latest); not used if --resume finds a checkpoint",
      "FILE_OR_DIR");
  line.text("config", &typed.config, "TOML file with options as key = value; the command line overrides them",
            "FILE");
  line.text("timeline", &typed.timeline,
            "write a timeline of each stream's work to this file, for ui.perfetto.dev or chrome://tracing",
            "FILE");
  line.text("trace", &typed.trace, "another name for --timeline", "FILE");
  line.flag("strict", &options.strict, "fail before training if the backend cannot run every program itself");
  line.flag("force", &options.force, "start even if the run needs more memory than is available");
  line.flag(
      "stop-on-nan", &options.stop_on_nan,
      "end with exit code 1 at the first step whose loss, or after which the test loss, is infinite or "
      "nan; --save with a file then saves the last parameters that gave a finite loss, and a folder keeps "
      "its checkpoints; every step waits for its loss");
  line.number("wait-timeout", &options.wait_timeout_seconds, {.low = 0.001, .high = 1e6},
              "seconds after which unfinished work is an error, default 600");
  line.flag("json", &options.json,
            "print one JSON object to standard output at the end, everything else to standard error");
  line.text("log-level", &typed.log_level,
            "least severe messages to log: trace, debug, info (default with --layers), warn (default), error "
            "or off",
            "NAME");
}

}  // namespace

void describe_options(CommandLine& line, TrainOptions& options, TypedOptions& typed) {
  describe_data(line, options, typed);
  describe_training(line, options, typed);
  describe_shards(line, options, typed);
  describe_run(line, options, typed);
}

}  // namespace yoke::cli
