// SPDX-License-Identifier: Apache-2.0
// frontends/tensor/src/trainer_types.h: what the state of a Trainer consists of: programs, micro-batches, routines.
#pragma once

#include <yoke/data_parallel.h>
#include <yoke/lower.h>
#include <yoke/runtime/gradient_parts.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace yoke::detail {

// The text of a program, and the names of its arguments' tensors in a shard's context.
struct NamedProgram {
  std::string name;
  std::string text;
  std::map<std::string, std::string> rename;
  std::vector<std::pair<std::string, Tensor>> literals;  // name in the context, host data
  std::vector<Tensor> scalars;
};

inline constexpr std::size_t kWholeStep = static_cast<std::size_t>(-1);  // instead of a micro-batch

struct LossGraph {
  Tensor loss;
  std::vector<Field> metrics;  // f64
  // Per parameter, of the weighted loss. Of running state: its change times the rows' share of the batch.
  std::vector<Tensor> gradients;
  std::vector<Update> state_updates;  // what a step with these rows only does to running states
};

// The rows of each batch that one launch of a gradient program uses.
struct MicroBatch {
  std::uint32_t shard = 0;
  // With its own data, losses and gradients: the shard's for the shard's first micro-batch, else a child of it.
  Context context;
  std::vector<Context> slots;  // `context`, and with a feed children of it with data of their own
};

// A part of a gradient program. Without a text, there is nothing to run.
struct GradientPart {
  NamedProgram program;
  std::vector<passes::Cut::Carried> carried;  // that it uses
};
struct PartLaunch {
  std::uint32_t shard = 0;
  StepRoutine routine;
};

// The routines for one size of batch: variant 0 for full batches, variant 1 for the smaller last batch. With
// varying rows there is only variant 0; its routines are in `pieces`.
struct Variant {
  std::vector<std::uint64_t> rows;            // per micro-batch; if they vary, of the latest step
  std::vector<std::uint64_t> first_in_batch;  // rows of the batch before those of the micro-batch; as above
  std::vector<double> weights;                // of the micro-batches' losses in the reduced loss; as above
  std::uint32_t active = 0;                   // number of micro-batches with rows; they come first
  const char* loss_total = "";                // name of the tensor that sums up a micro-batch's losses
  const char* loss_weight = "";               // name of the scalar with a micro-batch's weight
  LossGraph graph;                            // of the last active micro-batch
  std::vector<NamedProgram> programs;         // per active micro-batch; if `is_single`, gradients and update
  NamedProgram single_gradient;               // if `is_single`
  // Per active micro-batch, or for the only one.
  const NamedProgram& gradient_program(std::size_t s) const {
    return single_gradient.text.empty() ? programs[s] : single_gradient;
  }
  std::vector<StepRoutine> gradients;  // per slot and active micro-batch
  std::vector<StepRoutine> steps;      // if `is_single`, per slot
  // If `is_cut`, instead of those of the last micro-batch of each shard:
  std::vector<std::vector<GradientPart>> parts;   // per active shard and part
  std::vector<std::vector<PartLaunch>> launches;  // per slot and part
  // If the loss uses all_reduce: per active shard and reduction, what is reduced after the part of the same number.
  struct Reduced {
    TensorSpec spec;
    std::string argument;      // the name of an argument in the shard's context; empty: carried
    std::uint64_t offset = 0;  // in kCarried
  };
  std::vector<std::vector<Reduced>> reduced;
  std::vector<LinkedCollective> reductions;
};

// With varying rows, a micro-batch's rows are computed in pieces of these sizes.
struct PieceSize {
  std::uint64_t rows = 0;
  NamedProgram program;
};
// The routines of one micro-batch in one slot: per size, for the first piece and for later ones.
struct PieceRoutines {
  std::vector<StepRoutine> first, later;
};

// Batches that each shard has memory for with a feed: the one in use, and two on their way.
inline constexpr std::uint32_t kFeedSlots = 3;

// The weight of the loss and gradient of each part of a batch in the reduction; 0 for parts without rows.
std::vector<double> loss_weights(std::span<const std::uint64_t> rows, Reduction reduction);

// Tensors of a micro-batch: the sum of its losses, and its weight in the reduced loss. With varying rows, the losses
// are weighted by `kLossWeight`, the share of the batch that a piece has; `kShardShare` is its share of the rows of
// the micro-batch, and `kLossTotalOfShards` the sum of the micro-batch's losses.
inline constexpr const char* kLossTotal = "loss_total";
inline constexpr const char* kLossWeight = "loss_weight";
inline constexpr const char* kLossTotalOfShards = "loss_total_of_shards";
inline constexpr const char* kShardShare = "shard_share";
// Before the names of metrics: a micro-batch's, the mean over its rows; with varying rows, the sum of the metrics of
// its pieces, weighted by `kLossWeight`.
inline constexpr const char* kMetric = "metric/";
inline constexpr double kLargestLoss = 1e308;  // training cannot recover from larger losses
// With varying rows, the symbol for the number of the step.
inline constexpr const char* kStepNumber = "yoke_step";

// The tensor that counts a micro-batch's steps with finite losses. After a loss that was not finite, it keeps
// -1 - the number of such steps. With varying rows, it is 0 and then -1 - the number of the step.
inline constexpr const char* kFiniteSteps = "finite_steps";
// A shard's tensor with what parts of its gradient program leave for later ones.
inline constexpr const char* kCarried = "carried";

// For each part, the sum of the rows of the parts before it.
std::vector<std::uint64_t> rows_before(std::span<const std::uint64_t> rows);

// For each field, a view of a placeholder with its name and this number of rows.
Batch each_field(const Batch& data, std::uint64_t rows, const std::function<Tensor(const Tensor& all)>& view);
// Error kInvalidArgument: the names of the fields differ from those of `like`.
void check_fields(const Batch& given, const Batch& like, const char* what);

struct BackendCount {
  std::string backend_name;
  std::int64_t shard_count = -1;  // -1: not given
};
// Error kInvalidArgument: it is not a finite number that is at least 0.
void check_rate(double rate, const char* call);

// Parses "cuda:1,cc:2", or a single name. Error kInvalidArgument: the text is malformed.
std::vector<BackendCount> parse_backends(const std::string& text);

// Error kInvalidArgument: an option has the prefix of a backend that is not among `named`.
void check_prefixes(const char* call, const std::vector<Option>& device_options,
                    const std::vector<BackendCount>& named);

// Those of `all` for this backend: the ones without a prefix, and, if the backend is cc, "cc.threads" as "threads",
// which replaces the option without a prefix.
std::vector<Option> options_for(const std::string& backend_name, const std::vector<Option>& all);

// Names the tensors of the program's arguments. Placeholders and outputs have the name that `names` has for
// theirs, or their own; parameters and scalars their own; literals the prefix and the argument's name.
NamedProgram name_program(const Lowered& lowered, const std::map<std::string, std::string>& names,
                          const std::string& literal_prefix);

// Parameters and optimizer states, by their names in set 0, while shards are replaced.
using Snapshot = std::map<std::string, std::vector<std::byte>>;

// Losses of complete steps, on the host, because values on a lost device are gone.
struct HostLosses {
  bool has_any = false;
  double latest = 0;                                    // over all shards
  std::optional<double> latest_of_owner;                // empty: it had no rows
  std::vector<std::byte> owner_tensor;                  // "loss"
  std::vector<std::pair<std::string, double>> metrics;  // name and value over all shards
  double mean_total = 0;                                // since the previous mean_loss(), per reduction
  double sum_total = 0;
  std::uint64_t steps = 0;  // in the totals
  std::optional<std::int64_t> first_bad_step;
};

class Stopwatch {
 public:
  double seconds() const {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count();
  }

 private:
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

}  // namespace yoke::detail
