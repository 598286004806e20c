// SPDX-License-Identifier: Apache-2.0
// frontends/tensor/include/yoke/train_helpers.h: building blocks for hand-written training loops.
//
// Invalid arguments are an Error kInvalidArgument unless stated otherwise. None of the functions may run
// concurrently on the same context or the same parameters.
#pragma once

#include <yoke/data_parallel.h>
#include <yoke/lower.h>
#include <yoke/module.h>
#include <yoke/parameter.h>
#include <yoke/runtime/context.h>

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <optional>
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
// One element of host_values(t). `index` has one number per axis. Error kOutOfRange: a number exceeds its axis.
double host_get(const Tensor& t, const Dims& index);

// ---- loops over symbols ----

// A symbol and its current value. Loops do not change the value if `iterate` is false.
struct Binding {
  Symbol symbol;
  std::int64_t value = 0;
  bool iterate = true;
};

// The binding of the symbol. Error kNotFound: it has no binding; the message lists the bindings.
Binding& find_exn(std::vector<Binding>& bindings, const Symbol& symbol);

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

// Opens every device and creates the number of streams that it suggests for `use`: at most `most` in total, but at
// least one per device if `most` allows it.
std::vector<std::shared_ptr<Stream>> get_all_suggested_streams(
    const std::shared_ptr<Backend>& backend, std::uint32_t most = 1U << 20,
    StreamUse use = StreamUse::kMostParallelStreams);

// The name of an argument's tensor in a context: for a
// parameter, its own name; otherwise the argument's name.
std::string context_name(const LoweredArgument& argument);
// Maps argument names to names in a context, for Context::link.
std::map<std::string, std::string> context_names(const Lowered& lowered);

// Queues a copy of the host data of the argument's literal, parameter or scalar into its tensor, and returns true.
// Returns false if the argument has no host data, or the context lacks its tensor. The host data may be replaced or
// freed at once: the queued copy keeps the data that it reads.
bool from_host(const Context& context, const LoweredArgument& argument);
// Copies the tensor of the argument's parameter into Parameter::values, waits, and returns true. Returns false if the
// argument is not a parameter, or the context lacks its tensor.
bool to_host(const Context& context, const LoweredArgument& argument);
// from_host() or to_host() for all arguments of a program. They return the number of copies.
std::size_t all_host_to_device(const Context& context, const Lowered& lowered);
std::size_t all_device_to_host(const Context& context, const Lowered& lowered);
// The names of the program's parameters and placeholders. The context must have them before linking.
std::vector<std::string> needs_prior_context(const Lowered& lowered);
// Allocates the tensors of the program's arguments that the context lacks, those of literals as constants. `names`
// overrides context_names(), as for Context::link.
void allocate_missing(Context& context, const Lowered& lowered,
                      const std::map<std::string, std::string>& names = {});

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

// Computes the initial values of the parameters on the stream's device, and waits. If `parameters` are all parameters
// of a model, in order of creation, the values are those that a Trainer with the same seed starts with.
void init_params(const std::shared_ptr<Stream>& stream, std::span<const Parameter> parameters,
                 std::int64_t seed);

// The program that computes t as the output "value". Its name is "forward" or, if t has a name, "<name>_forward".
Lowered forward(const Tensor& t);

// The program "gradient", or "<label>_gradient". It computes a scalar loss as the output "loss", and the gradient with
// respect to params[i] as the output "gradient_<i>".
struct GradUpdate {
  Tensor loss;             // in Mode::kTrain
  std::string label = {};  // the loss's name as an identifier; empty: the loss has no name
  std::vector<Parameter> params;
  Lowered lowered;
  std::vector<Parameter> states;  // running states, which the program itself updates
};
GradUpdate grad_update(const Tensor& loss);
// The program "sgd_update", or "<label>_sgd_update", that updates the parameters from the placeholders
// "gradient_<i>" and, with momentum, "momentum_<i>".
Lowered sgd_update(const GradUpdate& update, const Tensor& learning_rate, const Sgd& options = {});

// The named, computed tensors that t depends on, as outputs for lower(), so that they stay in memory after a run. A
// tensor that is not an output of its program may have no memory.
std::vector<Output> every_non_literal_on_host(const Tensor& t);

// Makes the named tensors outputs of the program, so that they stay in memory and can be read after a run. Does nothing
// for arguments, which stay in memory anyway. Error kNotFound: the program computes no such tensor.
void set_materialized(Lowered& lowered, std::span<const std::string> names);
// Requests that the named tensors never have memory: each read computes them again. Without the request, the passes
// choose by cost. Errors: kNotFound: the program computes no such tensor; kInvalidArgument: it is an output or a
// reduction, or a statement that reads it cannot compute it.
void set_virtual(Lowered& lowered, std::span<const std::string> names);

// Several programs that are compiled together, as one text.
struct CodeBatch {
  std::vector<Lowered> programs;     // with different names
  std::vector<bool> is_compiled;     // per program
  std::shared_ptr<const Code> code;  // null if no program is compiled
};
// Compiles the programs for which `occupancy` returns true, or all if it is empty.
// Errors: two programs have the same name; those of compile().
CodeBatch compile_batch(
    const std::shared_ptr<Device>& device, std::vector<Lowered> programs,
    const std::function<bool(const std::string& name, std::size_t number)>& occupancy = {});
struct LinkedBatch {
  Context context;  // a child of the given one, with the tensors of all routines
  std::vector<std::optional<LinkedRoutine>> routines;  // per program; empty if it is not compiled
};
// Allocates the tensors that the context lacks and links the compiled programs with them.
LinkedBatch link_batch(const Context& context, const CodeBatch& batch);

// Computes t as the tensor "value" of a child of the context, waits, and returns the child. Leaves that the context
// lacks get their host data. `symbol_values` has one value per symbol of the program, such as the seed of random
// numbers. Error kInvalidArgument: such a leaf has no host data, or a symbol, which the message names, no value.
Context forward_and_ctx(const Context& context, const Tensor& t,
                        std::span<const std::int64_t> symbol_values = {});
// Computes t on the stream's device, waits, and returns its values. Frees all device memory that it used.
// Every leaf needs host data.
std::vector<double> forward_and_forget(const std::shared_ptr<Stream>& stream, const Tensor& t,
                                       std::span<const std::int64_t> symbol_values = {});

// ---- parameters in files ----

// Saves the parameters by name with save_arrays. The write is atomic (see save_npz). Error kFailedPrecondition: a
// parameter has no values.
void save_params(const std::filesystem::path& file, std::span<const Parameter> parameters);
// Loads the parameters by name. If one is missing or has another type or shape, the Error lists all such
// parameters and none is changed.
void restore_params(const std::filesystem::path& file, std::span<const Parameter> parameters);
// The same with arrays such as those of load_checkpoint_weights(). `source` names their origin in messages.
void restore_params(std::span<const NamedArray> arrays, std::span<const Parameter> parameters,
                    const std::string& source);
// The same with all parameters and running states of a model. Error kFailedPrecondition: the model is empty.
template <class M>
requires requires(const M& model) {
  model.layer();
}
void save_params(const std::filesystem::path& file, const M& model) {
  if (!model) {
    nn::fail_empty();
  }
  save_params(file, nn::parameters_and_states(model));
}
template <class M>
requires requires(const M& model) {
  model.layer();
}
void restore_params(const std::filesystem::path& file, const M& model) {
  if (!model) {
    nn::fail_empty();
  }
  restore_params(file, nn::parameters_and_states(model));
}

// ---- debugging ----

// Sets the options of a runtime that logs everything and checks each call of a plugin. With `debug_logs`, it also
// records all calls and their data in a trace, which `yoke replay` prints and repeats.
void enable_all_debugs(RuntimeOptions& options, bool debug_logs = false);
// Sets these options to their defaults.
void disable_all_debugs(RuntimeOptions& options);

}  // namespace yoke
