// SPDX-License-Identifier: Apache-2.0
// frontends/tensor/include/yoke/data_parallel_options.h: the options of data_parallel().
#pragma once

#include <yoke/optimizer.h>
#include <yoke/runtime/context.h>
#include <yoke/runtime/parallel.h>
#include <yoke/runtime/runtime.h>
#include <yoke/tensor.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace yoke {

// A run has at most this many shards.
inline constexpr std::int64_t kMaxShards = 4096;

// The bytes that a run needs on one device.
struct MemoryNeed {
  std::string device;             // "cc:0"; "host": memory of the process that belongs to no device
  bool in_host_memory = false;    // the device's memory is the host's
  std::uint64_t available = 0;    // as the device reports it; 0: unknown, or limited only by host memory
  std::uint64_t parameters = 0;   // all replicas
  std::uint64_t gradients = 0;    // with merge buffers and Wire buffers
  std::uint64_t state = 0;        // of the optimizer
  std::uint64_t activations = 0;  // workspaces of the compiled programs
  std::uint64_t data = 0;         // inputs and targets, for training and for evaluations
  std::uint64_t total() const { return parameters + gradients + state + activations + data; }
};

// What happens when the device of a shard is lost, or work of a shard fails.
enum class OnDeviceLost {
  kFail,  // the call throws an Error that names the shard, the device, the step and, as far as known, the failed work
  // The other shards take over the rows of the lost shard, or of all shards of a lost device, and repeat the step from
  // the parameters and optimizer states before it. The log has shard.lost. If no shard is left, throws as kFail does.
  // Rows, micro-batches and shards are renumbered as in a run with fewer shards; with `reproducible`, the bits stay
  // the same. Every step() waits until all shards have finished the step. Parameters and optimizer states need twice
  // the memory, on every shard. Only step() and run_epoch() can queue steps.
  kRedistribute
};
// "fail", "redistribute"; "unknown" for another number.
const char* on_device_lost_name(OnDeviceLost on_device_lost);
// Throws Error kInvalidArgument, which lists the names.
OnDeviceLost on_device_lost_by_name(std::string_view name);

// The types that contractions and convolutions of f32 tensors use, as with torch.amp.autocast.
enum class Precision {
  kF32,
  kBF16,  // bf16 operands and results, sums in f32
  // f16 operands and results, sums in f32, and dynamic loss scaling, as in torch.amp.GradScaler: the loss is multiplied
  // by a scale, at first 65536, and merged gradients are divided by it before they are clipped. If the merged gradients
  // or the norm for clipping are not finite, all shards skip the step and halve the scale: running states change, but
  // parameters and optimizer states do not. After 2000 steps without a skipped one, the scale is doubled. Optimizers do
  // not count skipped steps. The host does not wait.
  kF16
};
// "f32", "bf16", "f16"; "unknown" for another number.
const char* precision_name(Precision precision);
// Throws Error kInvalidArgument, which lists the names.
Precision precision_by_name(std::string_view name);

// A lost shard whose rows the other shards have taken over.
struct LostShard {
  std::uint32_t shard = 0;  // its number when training began
  std::string device;
  std::int64_t step = 0;  // the first one that the others computed without it
  std::string reason;
};

struct DataParallelOptions {
  // The name of a backend, or a comma-separated list of names with shard counts, such as "cuda:1,cc:2".
  // With a list, `shards` must be empty or equal to the sum of the counts.
  std::string backend_name = "cc";
  // Number of shards, 1 to kMaxShards. They are distributed over the backend's devices in turn, each with its own
  // stream. Empty: the sum of the stream counts that the devices suggest for `stream_use`.
  std::optional<std::int64_t> shards = std::nullopt;
  StreamUse stream_use = StreamUse::kMostParallelStreams;
  // How the shards' losses and gradients are combined. kMean weights each shard by its number of rows.
  Reduction reduction = Reduction::kMean;
  // Sgd{.momentum = 0.9}, AdamW{}, ... Updates and weight decay are applied once per step, after the reduction.
  Optimizer optimizer = {};
  // Required: a scalar. It may use symbol_value(step_symbol()), the symbols of `bindings`, host data such as a table of
  // rates, and Scalars (yoke::scalar), whose new values apply from the next launch on. It may not use parameters.
  Tensor learning_rate = {};
  // For training. Parameters, their gradients, optimizer states, elementwise operations, norms, softmax and losses are
  // f32 with every precision; so are evaluations and predictions. Tensors of other types than f32 keep
  // their types.
  Precision precision = Precision::kF32;
  // Symbols that loss_of or learning_rate use. They form an odometer that advances once per step, the last
  // binding fastest, and wraps around at the end. A binding named "step" counts steps instead.
  std::vector<Symbol> bindings = {};
  // Rows of a global batch along axis 0 of the inputs and targets; 0 means all rows. If the batch size does
  // not divide the number of rows, the last batch of an epoch is smaller.
  std::int64_t batch_size = 0;
  // How the rows of a batch are divided between the shards: in proportion to these numbers, 1 to 10^6, one per shard.
  // Every shard gets at least one row if there are enough. Empty: evenly. Not with `reproducible`.
  std::vector<std::int64_t> row_weights = {};
  // Measures at setup, in a few steps that change no parameters, how fast each kind of device computes gradients, and
  // sets the row weights in proportion. The log (train.row_weights) and Trainer::row_weights() report them. Every run
  // measures again; to get the same bits again, set row_weights instead. Does nothing if all devices are of one kind.
  bool measure_row_weights = false;
  // Lets the number of rows of each shard change in any step, without compiling: by Trainer::set_row_weights(), by
  // Trainer::set_batch(), or by a Feed with batches of different sizes. A shard computes its rows in pieces. The
  // possible sizes of pieces are compiled at setup: the sizes that a run without this option has, and the powers of
  // two below them. Rows that form one piece give the same bits as without the option. Several pieces differ from
  // one piece only by rounding, under the same condition as for `accumulate`. On each shard, this needs memory for
  // one more copy of the gradients and for all rows of the data; with a Feed, of three batches. Merging starts after
  // the last gradient.
  bool varying_rows = false;
  // With varying_rows: each shard has memory for at least this many rows, which Trainer::set_batch() may then supply.
  // 0: for those of the data. Not with a Feed.
  std::int64_t max_rows = 0;
  // Each shard computes the gradients of its rows of a batch in this many micro-batches, one after the other, and
  // adds them up in order. Activations then need the memory of one micro-batch, and gradients that of one more
  // copy. Only rounding makes the result differ from that of 1 if a mean loss is reduced by kMean, or a sum by
  // kSum: a micro-batch is weighted as a shard is. shards * accumulate: at most kMaxShards.
  std::int64_t accumulate = 1;
  // K > 0, a power of two that the number of shards divides: every batch is cut into K micro-batches, whose gradients
  // are computed alone and added up in one tree, (0 + 1) + (2 + 3). Parameters then have the same bits for each
  // such number of shards, on devices of one kind with the same options. Needs the merge strategy kTree, which
  // kAuto then selects, and `accumulate` 1. 0: off.
  std::int64_t reproducible = 0;
  // Micro-batch i of a batch, and so shard i if each computes one, draws random numbers with the seed
  // base_seed + i. With varying_rows, its piece j uses the seed base_seed + i + 4096 * j. Range: [0, 2^62 - 4097]; with
  // varying_rows, [0, 2^62 - 2^25].
  std::int64_t base_seed = 0;
  MergeStrategy merge = MergeStrategy::kAuto;
  // Where the optimizer runs.
  Placement placement = Placement::kAuto;
  // How gradients reach the shard that adds them up; not used by the strategy kDirect.
  MergeUse merge_use = MergeUse::kStreaming;
  // Gradients are merged in pieces, buckets, of about this many bytes, at least 256. Without overlap, kDirect
  // merges all at once.
  std::uint64_t bucket_byte_count = 4U << 20U;
  // Whether buckets are merged on separate streams. Gradient programs then run in up to 8 parts, and each bucket is
  // merged, and its parameters are updated, while later parts run. Of a shard's micro-batches, only the last one runs
  // in parts. Reproducible runs merge after the last micro-batch. Does not change the bits. Off by default on CPUs,
  // where merging takes cores from computing.
  Overlap overlap = Overlap::kAuto;
  // How f32 gradients are sent between shards. kFull with `reproducible`, because the rounding error of a sum depends
  // on the number of shards, and with kF16.
  Wire wire = Wire::kFull;
  // Compares all replicas bit for bit after every this many steps; 0 disables the check. A difference is an
  // Error kDataLoss that names the shard, the parameter and the first differing element.
  std::uint64_t check_replicas_every = 0;
  // After a loss, loss_of, the functions of evaluations, and check_memory are called again.
  OnDeviceLost on_device_lost = OnDeviceLost::kFail;
  // How many steps may be queued and not finished, 1 to 64; step() waits before it queues more.
  std::uint32_t steps_ahead = 2;
  // Contexts to go on from, one per shard; `shards` may be empty. Shard i runs on the device of context i, on its own
  // stream, and backend_name and device_options are not used. A parameter of which context 0 has a tensor starts with
  // its values. When `body` has returned, the contexts' tensors of parameters get the trained values.
  // `runtime` must be that of the contexts, for its log and its fallback.
  std::vector<Context> prior_contexts = {};
  // Passed to every device that is opened: "threads" to all, "cc.threads" only to those of the backend cc, where it
  // replaces "threads"; cc must be in backend_name. An option whose own name has a period needs the backend's name.
  // `yoke backends --help-options` lists a backend's options.
  std::vector<Option> device_options = {};
  // Empty: data_parallel creates a Runtime with default options.
  std::shared_ptr<Runtime> runtime = nullptr;
  // Called with the needs of all devices when everything is compiled and nothing is allocated yet. Called
  // again by every Trainer::evaluation(), with the evaluation's needs included. Throw to refuse the run.
  std::function<void(std::span<const MemoryNeed>)> check_memory = {};
};

}  // namespace yoke
