// SPDX-License-Identifier: Apache-2.0
// frontends/tensor/include/yoke/data_parallel.h: trains one model on N shards of any backend.
#pragma once

#include <yoke/batch.h>
#include <yoke/data_parallel_options.h>
#include <yoke/npz.h>
#include <yoke/parameter.h>
#include <yoke/runtime/context.h>
#include <yoke/runtime/parallel.h>
#include <yoke/tensor.h>

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

namespace yoke {

// The state of dynamic loss scaling; see Precision::kF16. With other precisions, it has the default values.
struct LossScale {
  double scale = 1;                // of the next step's loss
  std::int64_t clean_steps = 0;    // since the scale changed
  std::int64_t skipped_steps = 0;  // in all
};

// All that a run needs to go on later with the same bits, whatever its number of shards; checkpoint.h keeps it in
// files.
// Random numbers are functions of the base seed and the step, so these are their state. Not included: the values of
// the caller's Scalars, row weights, and what wire = bf16 has rounded away, which starts at 0 again.
struct TrainerState {
  std::vector<NamedArray> parameters;   // by name
  std::vector<NamedArray> optimizer;    // its states: "momentum/0.weight"
  std::int64_t step = 0;                // completed steps
  std::uint64_t batch = 0;              // of the epoch, for the next step
  std::vector<std::int64_t> bindings;   // the odometer's values
  std::optional<double> learning_rate;  // if options.learning_rate is a number
  std::string optimizer_name;
  std::int64_t base_seed = 0;
  std::uint64_t row_count = 0;  // of an epoch
  std::uint64_t batch_rows = 0;
  std::string precision = "f32";
  LossScale loss_scale = {};
  // What computed it: for information only.
  std::uint32_t shards = 0;
  std::string devices;                // "cc x2"
  std::vector<std::string> backends;  // with the versions of their plugins
};

// The state of one shard, for hand-written loops. Valid as long as the trainer. With several micro-batches per shard,
// "loss", the fields of the batch, `seed` and `gradient` are those of its first one.
struct Shard {
  std::uint32_t number = 0;
  std::shared_ptr<Stream> stream;
  // Holds the parameters, "loss", "metric/<name>" and, if the shard ever gets rows, "gradient/<parameter>" and the
  // fields of the batch, such as "inputs" and "targets". Shards may share parameters, which are then on the device of
  // one of them: read them with Trainer::replica().
  Context context;
  std::int64_t seed = 0;
  std::int64_t rows = 0;  // of all micro-batches of the current batch; 0: the shard is idle in this step
  // For a full batch. Empty with varying_rows, if the loss uses all_reduce on several shards, and with a Feed, whose
  // batches use several tensors in turn.
  LinkedRoutine gradient;
};

// Computes metrics over a whole data set with the trainer's current parameters. Create it with
// Trainer::evaluation() and run it any number of times. It may outlive the trainer. Not thread-safe.
class Evaluation {
 public:
  // Returns, for each scalar that `metrics_of` returned, its mean over all rows. Blocks until all shards have
  // finished. Symbols have the values of the trainer's latest step, or of its first step if none has run.
  // Error kFailedPrecondition: the Evaluation is empty, or its trainer lost shards and could not go on.
  std::vector<double> run();

 private:
  friend class Trainer;
  struct Impl;
  std::shared_ptr<Impl> impl_;
};

// A training run in progress. Not thread-safe: use it from one thread at a time.
//
// step() and the functions that make it up only queue work on the shards' streams. They do not wait for the
// devices, except for the work of `steps_ahead` steps before and the check that `check_replicas_every`
// requests. They compile and allocate nothing, with one exception: a single shard runs step() as one program
// that stores no gradients, so its first call of launch_gradients() or shard_list() allocates the gradients
// and compiles the other functions. With overlap, the first call of shard_list() compiles Shard::gradient and
// allocates its workspace. With a Feed, step() also waits for the caller's function, and for the copies of the batch
// three batches earlier.
//
// Functions that read a value block until it is available. If work on a device has failed, they throw an
// Error that names the shard, the device, the step and the call.
class Trainer {
 public:
  using MetricsOf = yoke::MetricsOf;

  std::uint32_t shards() const;                       // without lost shards
  const std::vector<LostShard>& lost_shards() const;  // in the order in which they were lost
  std::int64_t steps_per_epoch() const;
  std::int64_t step_count() const;  // completed steps
  MergeStrategy merge_strategy() const;
  Placement placement() const;
  const std::string& merge_reason() const;  // why these were chosen, with figures
  bool overlaps() const;                    // whether buckets are merged on separate streams
  const std::string& device_names() const;  // "cc x2"

  // Queues one optimizer step on the current batch and advances to the next batch.
  void step();
  // Steps from the current batch to the end of the data. Stops early and returns false if `after_step`
  // returns false.
  bool run_epoch(const std::function<bool(std::int64_t step_in_epoch)>& after_step = {});

  // The functions that make up step(), for hand-written loops. Call them in this order. With Precision::kF16, gradients
  // are multiplied by the loss scale until update(). Error kFailedPrecondition: grad_sync() or update()
  // without launch_gradients() after the latest step() or update(); options.on_device_lost is kRedistribute.
  void launch_gradients();  // loss and gradients on every shard
  void grad_sync();         // merges the gradients on the owner; optional, update() merges if needed
  void update();            // updates the parameters on all shards
  void advance();           // moves to the next batch and step

  // Takes effect at the next update; compiles nothing. Errors: kInvalidArgument: the rate is negative or not finite;
  // kFailedPrecondition: options.learning_rate was not a number.
  void set_learning_rate(double rate);

  // Divides the rows of later batches in proportion to these numbers, 0 to 10^6, one per shard. A shard with 0 gets no
  // rows: it takes part in each step and contributes nothing. Takes effect at the next step, also for batches that a
  // Feed has already supplied. Compiles nothing. Errors: kInvalidArgument: there are not as many numbers as shards, one
  // is out of range, or all are 0; kFailedPrecondition: options.varying_rows is off, or options.reproducible is on.
  void set_row_weights(std::span<const std::int64_t> weights);
  const std::vector<std::int64_t>& row_weights() const;  // in use; empty: equal

  // Replaces the training data, or the fields "inputs" and "targets". Only queues the copies to the shards, and keeps
  // the data until they have finished. With options.varying_rows, the number of rows may differ, up to that of the
  // original data or options.max_rows: this changes steps_per_epoch(), and the next step uses the first batch. Errors:
  // kInvalidArgument: a type or another dimension differs from the original data, or the number of rows is not allowed;
  // kFailedPrecondition: the data comes from a Feed.
  void set_batch(const Batch& data);
  void set_batch(const Tensor& inputs, const Tensor& targets) { set_batch(Batch(inputs, targets)); }

  // The loss of the latest step, computed with the parameters from before the update: on shard 0, and
  // combined over all shards. Error kFailedPrecondition: no step has run, or shard 0 had no rows in it.
  float owner_loss_value();
  double loss_value();
  // The mean of loss_value() over the steps since the previous call, or since the start of training. The
  // overload combines the shards' losses with `reduction` instead of the option's reduction.
  // Error kFailedPrecondition: no step has run since the previous call.
  double mean_loss();
  double mean_loss(Reduction reduction);

  // Waits for the latest step.
  LossScale loss_scale();

  // A metric that loss_of returned in the latest step: its mean over the rows of all shards, with any reduction.
  // Errors: kNotFound: the metric does not exist; the message lists the metrics; kFailedPrecondition: no step has run.
  double metric_value(std::string_view name);

  // The first step, counted from 0, whose loss was infinite or NaN on any shard. Empty: every loss was
  // finite. Precondition: each step had one launch_gradients().
  std::optional<std::int64_t> first_bad_step();

  void wait();  // blocks until all shards have finished the queued work
  // Copies the owner's parameters into the model (Parameter::values). data_parallel() calls it at the end.
  void sync_params_to_host();
  // Values of a parameter, or of any expression of parameters, host data and the arguments of `loss_of`, converted to
  // float. An expression is compiled when it is first read. It is computed from the owner's current parameters and its
  // rows of the latest batch. Error kFailedPrecondition: it needs a Feed's batch, and no step has run.
  std::vector<float> read_values(const Tensor& t);
  std::vector<float> read_values(const Parameter& parameter) { return read_values(parameter.tensor()); }
  // Values of a tensor in the owner's context, such as "loss" or "gradient/0.weight". Errors: kNotFound: the tensor
  // does not exist; kFailedPrecondition: a gradient, except between launch_gradients() and update().
  std::vector<float> read_values(std::string_view name);
  // The results of a step's collectives: the gradient of a parameter that grad_sync() merges on the owner, and a
  // shard's replica of a parameter after the latest update. They order work on the caller's streams, such as a norm of
  // the gradient, after the collective without blocking the host. Errors: kNotFound: the model has no such parameter;
  // kFailedPrecondition: merged_gradient() is called other than between grad_sync() and update(); kOutOfRange: there is
  // no such shard.
  CollectiveTensor merged_gradient(const Parameter& parameter);
  CollectiveTensor replica(std::uint32_t shard, const Parameter& parameter);
  double learning_rate_value();                        // of the latest step
  const std::vector<Parameter>& owner_params() const;  // in order of creation
  const std::vector<std::int64_t>& shard_seeds() const;
  std::span<const Shard> shard_list() const;  // Error kFailedPrecondition: on_device_lost is kRedistribute

  // Saves all parameters and running states with save_arrays, or loads them by name with load_arrays and copies them
  // to every shard. Errors: those of these functions. If the file does not match the model, Error kInvalidArgument
  // lists the differences and no parameter changes.
  void save_params(const std::filesystem::path& file);
  void restore_params(const std::filesystem::path& file);
  // The same with arrays such as those of load_checkpoint_weights(). `source` names their origin in messages.
  void restore_params(std::span<const NamedArray> arrays, const std::string& source);

  // Copies all that the run needs to go on later, and waits for it; the run itself does not change.
  TrainerState state();
  // Goes on from `state`, before the first step. The number of shards, the backend and the placement may differ; with
  // options.reproducible the bits then stay the same. Errors: kFailedPrecondition: a step has run; kInvalidArgument:
  // the model, the optimizer, the precision, the seed, the bindings, or the rows of an epoch or a batch differ, or the
  // loss scale is out of range: the message lists the differences, and nothing is changed.
  void set_state(const TrainerState& state);

  // Exchanges each parameter with its moving average (moving_average() in optimizer.h) until the next call, and waits.
  // Error kFailedPrecondition: there are no averages, or all steps were skipped; also thrown by step() before the next
  // call.
  void swap_averages();

  // Prepares metrics over another data set: uploads it to all shards and compiles the metrics. Layers run
  // in evaluation mode (no dropout), on `batch_rows` rows at a time. Each tensor that `metrics_of`
  // returns must be a scalar: the mean of the metric over the rows that it is given.
  Evaluation evaluation(const Batch& data, const MetricsOf& metrics_of, std::int64_t batch_rows = 1000);
  Evaluation evaluation(const Tensor& inputs, const Tensor& targets, const MetricsOf& metrics_of,
                        std::int64_t batch_rows = 1000) {
    return evaluation(Batch(inputs, targets), metrics_of, batch_rows);
  }

  // The outputs of a model, such as the one that is trained, for each row of `data` or `inputs`, which are host data
  // with the rows along axis 0. Computed on the owner from the current parameters, in Mode::kEval, on `batch_rows` rows
  // at a time; the model is compiled once for each number of rows. Error kInvalidArgument: the inputs are not host
  // data, or the model returns a tensor with another number of rows.
  Tensor predict(const std::function<Tensor(const Batch& batch)>& model, const Batch& data,
                 std::int64_t batch_rows = 1000);
  Tensor predict(const std::function<Tensor(const Tensor& inputs)>& model, const Tensor& inputs,
                 std::int64_t batch_rows = 1000);

  // Wall-clock seconds spent on compiling, and on the whole setup before the first step.
  double compile_seconds() const;
  double setup_seconds() const;

  ~Trainer();
  Trainer(const Trainer&) = delete;
  Trainer& operator=(const Trainer&) = delete;

 private:
  friend class Evaluation;
  friend void data_parallel(const DataParallelOptions&, const Batch&, const LossOf&,
                            const std::function<void(Trainer&)>&);
  friend void data_parallel(const DataParallelOptions&, const Feed&, const LossOf&,
                            const std::function<void(Trainer&)>&);
  struct Impl;
  explicit Trainer(std::unique_ptr<Impl> impl);
  static void run(std::unique_ptr<Impl> impl, const std::function<void(Trainer&)>& body);
  void check_replicas();
  std::unique_ptr<Impl> impl_;
};

// Sets up a training run, calls `body` with it, and copies the trained parameters back into the model.
//
// The fields of `data` are literals with the same number of rows along axis 0; no parameter may have their names.
// `loss_of` builds the loss of one batch, a floating-point scalar, and any metrics. It is called several times, because
// shards may get different numbers of rows; layers must therefore be created outside of it, and new ones in each call
// are an Error. `body` runs on the calling thread, after everything has been compiled, linked and uploaded.
//
// Errors: an invalid argument is reported before anything is allocated
// on a device. An exception thrown by `body` propagates.
void data_parallel(const DataParallelOptions& options, const Batch& data, const LossOf& loss_of,
                   const std::function<void(Trainer&)>& body);
// The same with data that the caller supplies. Each shard has memory for its rows of three batches on its device, and
// as much on the host. The first batches are requested by the first step().
void data_parallel(const DataParallelOptions& options, const Feed& feed, const LossOf& loss_of,
                   const std::function<void(Trainer&)>& body);

// The same functions for a `body` that returns a value: they return that value.
template <class Data>
inline constexpr bool kIsTrainingData = std::is_same_v<Data, Batch> || std::is_same_v<Data, Feed>;
template <class Data = Batch, class Body, class Result = std::invoke_result_t<Body&, Trainer&>>
requires(!std::is_void_v<Result> && kIsTrainingData<Data>) Result
    data_parallel(const DataParallelOptions& options, const Data& data, const LossOf& loss_of, Body body) {
  std::optional<Result> result;
  const std::function<void(Trainer&)> keep = [&](Trainer& trainer) { result.emplace(body(trainer)); };
  data_parallel(options, data, loss_of, keep);
  return *std::move(result);
}

// The same for a Batch of the fields "inputs" and "targets".
template <class Body = std::function<void(Trainer&)>>
auto data_parallel(const DataParallelOptions& options, const Tensor& inputs, const Tensor& targets,
                   const LossOf& loss_of, Body body) {
  if constexpr (std::is_invocable_v<Body&, Trainer&>) {
    return data_parallel(options, Batch(inputs, targets), loss_of, std::move(body));
  } else {  // such as nullptr
    data_parallel(options, Batch(inputs, targets), loss_of, std::function<void(Trainer&)>(std::move(body)));
  }
}

}  // namespace yoke
