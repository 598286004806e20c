// SPDX-License-Identifier: Apache-2.0
// frontends/tensor/include/yoke/train_helpers.h: building blocks for hand-written training loops.
//
// Invalid arguments are an Error kInvalidArgument unless stated otherwise. None of the functions may run
// concurrently on the same context or the same parameters.
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

// The sizes of n contiguous parts of `size`; the first size % n parts are larger by one. n must be at least 1.
std::vector<std::uint64_t> split_sizes(std::uint64_t size, std::uint32_t n);
// Splits a literal along an axis into n parts, by split_sizes. n must be between 1 and the size of the axis.
std::vector<Tensor> shard_along(std::size_t axis, std::int64_t n, const Tensor& t);
// The inverse of shard_along: joins literals along an axis. Their types and other dims must be equal.
Tensor gather(std::size_t axis, const std::vector<Tensor>& shards);
// The data of a literal, or of a parameter that has values, as double. Integers beyond 2^53 are rounded.
std::vector<double> host_values(const Tensor& t);

// ---- loops over symbols ----

// A symbol and its current value. Loops do not change the value if `iterate` is false.
struct Binding {
  Symbol symbol;
  std::int64_t value = 0;
  bool iterate = true;
};

// Calls f for every combination of values of the iterated bindings, the last binding fastest. Afterwards, and
// if f throws, the bindings have their original values.
void sequential_loop(std::vector<Binding>& bindings, const std::function<void()>& f);

// Runs the loop of sequential_loop on N workers in turn: worker j mod N runs iteration j. Before it runs,
// worker_bindings[j mod N] and `bindings` have the iteration's values. Only that worker's fastest symbol is
// set; the slower symbols are set for all workers. sync(N) is called after every full round, and sync(rest)
// at the end if the last round is incomplete. Each worker needs a vector with the same symbols as `bindings`.
void round_robin(std::span<const std::function<void()>> workers,
                 std::span<std::vector<Binding>> worker_bindings, std::vector<Binding>& bindings,
                 const std::function<void(std::uint32_t)>& sync);
// Makes only the sync calls of round_robin, to find out which merges are needed.
void round_robin_dry_run(std::uint32_t worker_count, const std::vector<Binding>& bindings,
                         const std::function<void(std::uint32_t)>& dry_sync);

// ---- streams and contexts ----

// Opens every device and creates the number of streams that it suggests: at most `most` in total, but at
// least one per device if `most` allows it.
std::vector<std::shared_ptr<Stream>> get_all_suggested_streams(const std::shared_ptr<Backend>& backend,
                                                               std::uint32_t most = 1U << 20);

// The name of an argument's tensor in a context: for a
// parameter, its own name; otherwise the argument's name.
std::string context_name(const LoweredArgument& argument);
// Maps argument names to names in a context, for Context::link.
std::map<std::string, std::string> context_names(const Lowered& lowered);

// Queues copies of the host data of the program's literals, parameters and scalars into the context's
// tensors. Skips tensors that the context lacks. Returns the number of copies.
std::size_t all_host_to_device(const Context& context, const Lowered& lowered);
// Copies the program's parameters from the context into Parameter::values, and waits. Returns their number.
std::size_t all_device_to_host(const Context& context, const Lowered& lowered);
// The names of the program's parameters and placeholders. The context must have them before linking.
std::vector<std::string> needs_prior_context(const Lowered& lowered);
// Allocates the arguments of the program that the context lacks.
void allocate_missing(Context& context, const Lowered& lowered);

// Copies host data in, runs the routine, copies the parameters out, and waits. The first overload runs once,
// with values for the symbols in the program's order. The second runs for every combination of the bindings
// in `loop`, which must include every symbol of the routine, and calls `after_each` after each run.
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

// The program that computes t as the output "value".
Lowered forward(const Tensor& t);

// The program that computes a scalar loss as the output "loss" and
// its gradients by params[i] as the outputs "gradient_<i>".
struct GradUpdate {
  Tensor loss;
  std::vector<Parameter> params;
  Lowered lowered;
};
GradUpdate grad_update(const Tensor& loss);
// The program that updates the parameters from the placeholders
// "gradient_<i>" and, with momentum, "momentum_<i>".
Lowered sgd_update(const GradUpdate& update, const Tensor& learning_rate, const Sgd& options = {});

// Computes t on the stream's device, waits, and returns its values. Frees all device memory that it used.
// Every leaf needs host data.
std::vector<double> forward_and_forget(const std::shared_ptr<Stream>& stream, const Tensor& t,
                                       std::span<const std::int64_t> symbol_values = {});

// ---- parameters in files ----

// Saves the parameters by name. The write is atomic (see save_npz). Error
// kFailedPrecondition: a parameter has no values.
void save_params(const std::filesystem::path& npz, std::span<const Parameter> parameters);
// Loads the parameters by name. If one is missing or has another type or shape, the Error lists all such
// parameters and none is changed.
void restore_params(const std::filesystem::path& npz, std::span<const Parameter> parameters);

// ---- an example of a whole loop ----

struct ExampleLoop {
  DataParallelOptions options;  // default learning rate: init_lr * (2 * steps - step) / steps
  double init_lr = 0.1;
  std::int64_t epochs = 1;
  // Called after every step, once its loss is available. Setting it makes the host wait for every step.
  std::function<void(Trainer&, std::int64_t step, double batch_loss)> per_batch = {};
  // Called after every epoch with the sum of the batch losses.
  std::function<void(Trainer&, std::int64_t epoch, double epoch_loss)> per_epoch = {};
};
struct ExampleResult {
  std::vector<double> epoch_losses;
};
ExampleResult example_train_loop(const ExampleLoop& loop, const Tensor& inputs, const Tensor& targets,
                                 const std::function<Tensor(const Tensor&, const Tensor&)>& loss_of);

}  // namespace yoke
