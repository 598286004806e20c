// SPDX-License-Identifier: Apache-2.0
// frontends/tensor/include/yoke/train_helpers.h: the pieces of training loops written by hand.
#pragma once

#include <yoke/data_parallel.h>
#include <yoke/lower.h>
#include <yoke/parameter.h>
#include <yoke/runtime/context.h>

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace yoke {

// ---- host data ----

// Sizes of `size` cut in n parts: contiguous, and the first size % n parts are one larger.
std::vector<std::uint64_t> split_sizes(std::uint64_t size, std::uint32_t n);
// A literal cut along an axis, by split_sizes. Error: not a literal, no such axis, n < 1, or n above the
// axis' size.
std::vector<Tensor> shard_along(std::size_t axis, std::int64_t n, const Tensor& t);
// The inverse: literals joined along an axis; all other dims and the type must agree.
Tensor gather(std::size_t axis, const std::vector<Tensor>& shards);
// The values of a literal, or of a parameter that has values, as numbers (i64 beyond 2^53 is rounded).
std::vector<double> host_values(const Tensor& t);

// ---- loops over symbols ----

// A symbol and its present value. Those with `iterate` off keep their value.
struct Binding {
  Symbol symbol;
  std::int64_t value = 0;
  bool iterate = true;
};

// Calls f for every combination of the iterated bindings, the last one fastest; their first values come back
// at the end.
void sequential_loop(std::vector<Binding>& bindings, const std::function<void()>& f);

// Deals that loop to workers: item j goes to worker j mod N. The fastest symbol is set for the worker about
// to run only, the others for all; `bindings` follows along. sync(N) runs after every full round, sync(rest)
// once at the end where a round is not full. Error kInvalidArgument unless there is one vector of the same
// symbols per worker.
void round_robin(std::span<const std::function<void()>> workers,
                 std::span<std::vector<Binding>> worker_bindings, std::vector<Binding>& bindings,
                 const std::function<void(std::uint32_t)>& sync);
// Only the syncs of round_robin, to learn which merges will be needed.
void round_robin_dry_run(std::uint32_t worker_count, const std::vector<Binding>& bindings,
                         const std::function<void(std::uint32_t)>& dry_sync);

// ---- streams and contexts ----

// One stream per suggestion of each device, at most `most` in all, but at least one per device while there is
// room.
std::vector<std::shared_ptr<Stream>> get_all_suggested_streams(const std::shared_ptr<Backend>& backend,
                                                               std::uint32_t most = 1U << 20);

// What an argument of a lowered program is called in a context: a parameter by its name, the rest as in the
// program.
std::string context_name(const LoweredArgument& argument);
// Argument -> name in a context, for Context::link.
std::map<std::string, std::string> context_names(const Lowered& lowered);

// Copies host data of t's literals and parameters that the context has; answers how many.
std::size_t all_host_to_device(const Context& context, const Lowered& lowered);
// Copies the context's parameters of the program back into Parameter::values, and waits; answers how many.
std::size_t all_device_to_host(const Context& context, const Lowered& lowered);
// Names that a context must have before the program is linked: parameters and placeholders.
std::vector<std::string> needs_prior_context(const Lowered& lowered);
// Allocates whatever of the program's arguments the context lacks.
void allocate_missing(Context& context, const Lowered& lowered);

// Copies in, runs once (with values of the symbols, in the program's order) or, given `loop`, for every
// combination of its bindings with `after_each` behind every run, copies parameters out, and waits.
void sync_run(const Context& context, const LinkedRoutine& routine, const Lowered& lowered,
              std::span<const std::int64_t> symbol_values = {});
void sync_run(const Context& context, const LinkedRoutine& routine, const Lowered& lowered,
              std::vector<Binding>& loop, const std::function<void()>& after_each);

// ---- programs ----

inline bool is_param(const Tensor& t) {
  return t && t.source() == Source::kParameter;
}
inline std::vector<Parameter> get_params(const Tensor& t) {
  return parameters_of(t);
}

Lowered forward(const Tensor& t);  // output "value"

// Forward and backward of a scalar loss: outputs "loss" and "gradient_<i>" for params[i].
struct GradUpdate {
  Tensor loss;
  std::vector<Parameter> params;
  Lowered lowered;
};
GradUpdate grad_update(const Tensor& loss);
// Updates the parameters from placeholders "gradient_<i>" (and "momentum_<i>").
Lowered sgd_update(const GradUpdate& update, const Tensor& learning_rate, const Sgd& options = {});

// Computes t on the stream's device and gives its values; nothing stays on the device. Parameters need
// values.
std::vector<double> forward_and_forget(const std::shared_ptr<Stream>& stream, const Tensor& t,
                                       std::span<const std::int64_t> symbol_values = {});

// ---- parameters in files ----

// npz by parameter name. Written beside the target first: a full disk leaves the old file as it was.
void save_params(const std::filesystem::path& npz, std::span<const Parameter> parameters);
// Every parameter must be there with its type and shape; Error lists what differs, and nothing is changed
// then.
void restore_params(const std::filesystem::path& npz, std::span<const Parameter> parameters);

// ---- a whole loop, as an example ----

struct ExampleLoop {
  DataParallelOptions options;  // learning_rate empty: init_lr * (2 * steps - step) / steps
  double init_lr = 0.1;
  std::int64_t epochs = 1;
  std::function<void(Trainer&, std::int64_t step, double batch_loss)>
      per_batch;  // reading the loss waits for the step
  std::function<void(Trainer&, std::int64_t epoch, double epoch_loss)> per_epoch;  // sum of the batch losses
};
struct ExampleResult {
  std::vector<double> epoch_losses;
};
ExampleResult example_train_loop(const ExampleLoop& loop, const Tensor& inputs, const Tensor& targets,
                                 const std::function<Tensor(const Tensor&, const Tensor&)>& loss_of);

}  // namespace yoke
