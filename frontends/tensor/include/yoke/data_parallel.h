// SPDX-License-Identifier: Apache-2.0
// frontends/tensor/include/yoke/data_parallel.h: one model trained on N shards of any backend, as if it were
// one.
#pragma once

#include <yoke/optimizer.h>
#include <yoke/parameter.h>
#include <yoke/runtime/collective.h>
#include <yoke/runtime/runtime.h>
#include <yoke/tensor.h>

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace yoke {

struct DataParallelOptions {
  // Name of a backend, or names with counts for mixed shards: "cuda:1,cc:2" (then `shards` is empty or
  // their sum).
  std::string backend_name = "cc";
  // Shard i runs on device i mod (number of devices), on a stream of its own. Empty: as many as the
  // devices suggest.
  std::optional<std::int64_t> shards = std::nullopt;
  Reduction reduction = Reduction::kMean;
  Sgd optimizer = {};  // weight decay is added once, after the reduction
  // Required. May depend on the step: symbol_value(step_symbol()), and on symbols of `bindings`.
  Tensor learning_rate = {};
  // Symbols of the caller's own, which loss_of or learning_rate use. They advance by one position per step,
  // the last one fastest, and start over after the last; a binding named "step" counts steps.
  std::vector<Symbol> bindings = {};
  // Rows of one global batch, along axis 0 of inputs and targets; 0: all rows at once. Rows that do not
  // divide are a smaller last batch, which weighs by its rows.
  std::int64_t batch_size = 0;
  std::int64_t base_seed = 0;  // shard i draws from base_seed + i
  MergeStrategy merge = MergeStrategy::kAuto;
  MergeUse merge_use = MergeUse::kStreaming;  // how gradients arrive with owner and tree
  // After every this many steps replicas are compared bit for bit; Error kDataLoss names the first
  // difference. 0: never.
  std::uint64_t check_replicas_every = 0;
  std::vector<Option> device_options = {};     // passed to every device; see `yoke backends --help-options`
  std::shared_ptr<Runtime> runtime = nullptr;  // empty: one of its own
};

// What one shard is made of, for hand-written loops. Borrowed from the trainer.
struct Shard {
  std::uint32_t number = 0;
  std::shared_ptr<Stream> stream;
  Context context;  // parameters, "gradient/<name>", "loss", "inputs", "targets"
  std::int64_t seed = 0;
  std::int64_t rows = 0;   // of the current batch; 0: takes part and contributes nothing
  LinkedRoutine gradient;  // of the full batch
};

// Sums and means over a data set with the present parameters: made once, run as often as wanted.
class Evaluation {
 public:
  // The mean over all rows of each scalar that `metrics_of` gave. Symbols in them (the step, bindings) have
  // the values of the trainer's latest step; before the first one, of the first.
  std::vector<double> run();

 private:
  friend class Trainer;
  struct Impl;
  std::shared_ptr<Impl> impl_;
};

// A live run. Used by one thread. A step only launches: it compiles nothing, allocates nothing, and the host
// waits only where a value is read. Methods that wait name in their Error the shard, the device, the step and
// the call.
class Trainer {
 public:
  using MetricsOf = std::function<std::vector<Tensor>(const Tensor& inputs, const Tensor& targets)>;

  std::uint32_t shards() const;
  std::int64_t steps_per_epoch() const;
  std::int64_t step_count() const;  // steps done so far
  MergeStrategy merge_strategy() const;
  const std::string& device_names() const;  // "cc x2"

  // One optimizer step on the next batch, on every shard.
  void step();
  // steps_per_epoch() steps, from the current batch to the end of the data; `after_step` may end it by
  // answering false. Answers false then.
  bool run_epoch(const std::function<bool(std::int64_t step_in_epoch)>& after_step = {});

  // The pieces of step(), for hand-written loops: gradients on every shard; merged (Sum or Mean) onto the
  // owner; update and broadcast.
  void launch_gradients();
  void grad_sync();
  void update();
  void advance();  // to the next batch and step

  // New values for inputs and targets, of the same types and shapes.
  void set_batch(const Tensor& inputs, const Tensor& targets);

  float owner_loss_value();  // shard 0's, from before the update
  double loss_value();       // reduced over the whole batch, from before the update
  double mean_loss();        // mean of loss_value() over the steps since the last call (or the start)
  // The same with the shards' losses reduced in another way than their gradients: kMean weighs by rows.
  double mean_loss(Reduction reduction);

  void wait();                 // for all shards
  void sync_params_to_host();  // Parameter::values of the model hold what was learned; data_parallel does it
                               // at the end too
  std::vector<float> read_values(const Tensor& parameter);  // from the owner
  std::vector<float> read_values(
      std::string_view name);  // a tensor of the owner's context: "loss", "gradient/0.weight"
  const std::vector<Parameter>& owner_params() const;  // in order of creation
  const std::vector<std::int64_t>& shard_seeds() const;
  std::span<const Shard> shard_list() const;

  void save_params(const std::filesystem::path& npz);
  void restore_params(const std::filesystem::path& npz);  // all parameters, by name; Error lists what differs

  // In evaluation mode (dropout off), `batch_rows` rows at a time, over all shards.
  Evaluation evaluation(const Tensor& inputs, const Tensor& targets, const MetricsOf& metrics_of,
                        std::int64_t batch_rows = 1000);

  // Seconds of set-up so far: compiling, and everything else before the first step.
  double compile_seconds() const;
  double setup_seconds() const;

  ~Trainer();
  Trainer(const Trainer&) = delete;
  Trainer& operator=(const Trainer&) = delete;

 private:
  friend void data_parallel(const DataParallelOptions&, const Tensor&, const Tensor&,
                            const std::function<Tensor(const Tensor&, const Tensor&)>&,
                            const std::function<void(Trainer&)>&);
  struct Impl;
  explicit Trainer(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

// Builds the loss once per shape of batch, links everything, and hands a live trainer to `body`. `inputs` and
// `targets` are host data (literals) with the same number of rows. Every bad argument is an Error before
// anything is allocated on a device.
void data_parallel(const DataParallelOptions& options, const Tensor& inputs, const Tensor& targets,
                   const std::function<Tensor(const Tensor& inputs, const Tensor& targets)>& loss_of,
                   const std::function<void(Trainer&)>& body);

}  // namespace yoke
