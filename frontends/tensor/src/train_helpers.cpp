// SPDX-License-Identifier: Apache-2.0
// frontends/tensor/src/train_helpers.cpp: streams, contexts,
// programs and files for hand-written training loops.
#include <yoke/gradients.h>
#include <yoke/npz.h>
#include <yoke/ops.h>
#include <yoke/program/text.h>
#include <yoke/train_helpers.h>

#include <algorithm>

#include "host_copy.h"
#include "host_numbers.h"
#include "node.h"
#include "scalar_table.h"

namespace yoke {

using detail::fail;

std::vector<std::shared_ptr<Stream>> get_all_suggested_streams(const std::shared_ptr<Backend>& backend,
                                                               std::uint32_t most) {
  if (backend == nullptr) {
    fail("get_all_suggested_streams: the backend is null");
  }
  const std::uint32_t devices = std::min(backend->device_count(), most);
  std::vector<std::shared_ptr<Stream>> streams;
  for (std::uint32_t ordinal = 0; ordinal < devices; ++ordinal) {
    const auto device = backend->open_device(ordinal);
    const std::uint64_t kept_for_others = devices - ordinal - 1;
    const std::uint64_t room = most - streams.size() - kept_for_others;
    const std::uint64_t count = std::min<std::uint64_t>(device->info().suggested_stream_count, room);
    for (std::uint64_t i = 0; i < count; ++i) {
      streams.push_back(Stream::create(device));
    }
  }
  return streams;
}

std::string context_name(const LoweredArgument& argument) {
  switch (argument.kind) {
    case LoweredArgument::Kind::kParameter:
      return Parameter::of(argument.leaf).name();
    case LoweredArgument::Kind::kScalar:
      detail::require(argument.leaf, "context_name");
      return detail::scalar_name(argument.leaf);
    default:
      return argument.name;
  }
}

std::map<std::string, std::string> context_names(const Lowered& lowered) {
  std::map<std::string, std::string> names;
  for (const LoweredArgument& argument : lowered.arguments) {
    names[argument.name] = context_name(argument);
  }
  return names;
}

std::size_t all_host_to_device(const Context& context, const Lowered& lowered) {
  std::size_t copied = 0;
  for (const LoweredArgument& argument : lowered.arguments) {
    if (argument.kind == LoweredArgument::Kind::kScalar && context.has(context_name(argument))) {
      detail::fill_scalar(context, context_name(argument), argument.leaf,
                          argument.leaf.node()->scalar->value);
      ++copied;
    }
    if (argument.leaf && !argument.leaf.host_bytes().empty() && context.has(context_name(argument))) {
      context.from_host(context_name(argument), argument.leaf.host_bytes());
      ++copied;
    }
  }
  return copied;
}

std::size_t all_device_to_host(const Context& context, const Lowered& lowered) {
  std::size_t copied = 0;
  for (const LoweredArgument& argument : lowered.arguments) {
    if (argument.kind == LoweredArgument::Kind::kParameter && context.has(context_name(argument))) {
      const Parameter parameter = Parameter::of(argument.leaf);
      parameter.set_values(detail::read_now(context, parameter.name()));
      ++copied;
    }
  }
  context.stream()->wait();
  return copied;
}

std::vector<std::string> needs_prior_context(const Lowered& lowered) {
  std::vector<std::string> names;
  for (const LoweredArgument& argument : lowered.arguments) {
    if (argument.kind == LoweredArgument::Kind::kParameter ||
        argument.kind == LoweredArgument::Kind::kPlaceholder) {
      names.push_back(context_name(argument));
    }
  }
  return names;
}

void allocate_missing(Context& context, const Lowered& lowered) {
  for (const LoweredArgument& argument : lowered.arguments) {
    const std::string name = context_name(argument);
    if (!context.has(name)) {
      const auto number = lowered.program.find_tensor(argument.name);
      if (!number) {
        fail("allocate_missing: the program has no tensor '" + argument.name + "'");
      }
      const program::Tensor& tensor = lowered.program.tensors[*number];
      context.allocate(name, {static_cast<std::int32_t>(tensor.type), tensor.dims});
    }
  }
}

void sync_run(const Context& context, const LinkedRoutine& routine, const Lowered& lowered,
              std::span<const std::int64_t> symbol_values) {
  all_host_to_device(context, lowered);
  routine.run(symbol_values);
  all_device_to_host(context, lowered);
}

void sync_run(const Context& context, const LinkedRoutine& routine, const Lowered& lowered,
              std::vector<Binding>& loop, const std::function<void()>& after_each) {
  if (!after_each) {
    fail("sync_run: the function after_each is empty");
  }
  all_host_to_device(context, lowered);
  std::vector<std::int64_t> values(routine.symbols().size());
  sequential_loop(loop, [&] {
    for (std::size_t i = 0; i < values.size(); ++i) {
      const auto at = std::find_if(loop.begin(), loop.end(), [&](const Binding& b) {
        return b.symbol.name == routine.symbols()[i].name;
      });
      if (at == loop.end()) {
        fail("sync_run: the routine's symbol '" + routine.symbols()[i].name + "' has no binding");
      }
      values[i] = at->value;
    }
    routine.run(values);
    after_each();
  });
  all_device_to_host(context, lowered);
}

Lowered forward(const Tensor& t) {
  return lower("forward", {{"value", t}});
}

GradUpdate grad_update(const Tensor& loss) {
  detail::require(loss, "grad_update");
  GradUpdate update{loss, parameters_of(loss), {}};
  if (update.params.empty()) {
    fail("grad_update: the loss does not depend on any Parameter, so there is nothing to train");
  }
  std::vector<Tensor> leaves;
  for (const Parameter& parameter : update.params) {
    leaves.push_back(parameter.tensor());
  }
  const std::vector<Tensor> slopes = gradients(loss, leaves);
  std::vector<Output> outputs = {{"loss", loss}};
  for (std::size_t i = 0; i < slopes.size(); ++i) {
    outputs.push_back({"gradient_" + std::to_string(i), slopes[i]});
  }
  update.lowered = lower("gradient", outputs);
  return update;
}

Lowered sgd_update(const GradUpdate& update, const Tensor& learning_rate, const Sgd& options) {
  std::vector<Update> updates;
  for (std::size_t i = 0; i < update.params.size(); ++i) {
    const Parameter& p = update.params[i];
    const std::string number = std::to_string(i);
    const Tensor gradient = placeholder("gradient_" + number, p.type(), p.dims());
    const Tensor momentum =
        options.needs_state() ? placeholder("momentum_" + number, p.type(), p.dims()) : Tensor();
    for (Update& one : sgd_one(p.tensor(), gradient, momentum, learning_rate, options)) {
      updates.push_back(std::move(one));
    }
  }
  return lower("sgd_update", {}, updates);
}

std::vector<double> forward_and_forget(const std::shared_ptr<Stream>& stream, const Tensor& t,
                                       std::span<const std::int64_t> symbol_values) {
  if (stream == nullptr) {
    fail("forward_and_forget: the stream is null");
  }
  const Lowered lowered = forward(t);
  for (const LoweredArgument& argument : lowered.arguments) {
    if (argument.leaf && argument.leaf.host_bytes().empty() &&
        argument.kind != LoweredArgument::Kind::kScalar) {
      fail("forward_and_forget: '" + argument.name +
           "' has no values; give it host data, or run the program in a Context that holds it");
    }
  }
  Context context(stream);
  allocate_missing(context, lowered);
  all_host_to_device(context, lowered);
  const auto code = compile(stream->device(), program::print(lowered.program));
  context.link(code, "forward", context_names(lowered)).run(symbol_values);
  return detail::numbers_of(t.type(), detail::read_now(context, "value"));
}

void save_params(const std::filesystem::path& npz, std::span<const Parameter> parameters) {
  std::vector<NamedArray> arrays;
  for (const Parameter& parameter : parameters) {
    if (!parameter.has_values()) {
      throw Error(ErrorCode::kFailedPrecondition,
                  "save_params: parameter '" + parameter.name() +
                      "' has no values on the host; call sync_params_to_host() first");
    }
    const auto bytes = parameter.values();
    arrays.push_back({parameter.name(), parameter.type(), parameter.dims(), {bytes.begin(), bytes.end()}});
  }
  save_npz(npz, arrays);
}

void restore_params(const std::filesystem::path& npz, std::span<const Parameter> parameters) {
  const std::vector<NamedArray> arrays = load_npz(npz);
  std::string problems;
  std::vector<const NamedArray*> found;
  for (const Parameter& parameter : parameters) {
    const auto at = std::find_if(arrays.begin(), arrays.end(),
                                 [&](const NamedArray& array) { return array.name == parameter.name(); });
    if (at == arrays.end()) {
      problems += "; '" + parameter.name() + "' is missing";
      continue;
    }
    if (at->type != parameter.type() || (parameter.has_dims() && at->dims != parameter.dims())) {
      problems += "; '" + parameter.name() + "' is " + std::string(program::type_name(at->type)) +
                  dims_text(at->dims) + ", the model has " +
                  std::string(program::type_name(parameter.type())) +
                  (parameter.has_dims() ? dims_text(parameter.dims()) : "");
    }
    found.push_back(&*at);
  }
  if (!problems.empty()) {
    throw Error(ErrorCode::kInvalidArgument, "restore_params: '" + npz.string() +
                                                 "' does not match the model: " + problems.substr(2) +
                                                 "; nothing was changed");
  }
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    parameters[i].set_dims(found[i]->dims, "restore_params");
    parameters[i].set_values(found[i]->bytes);
  }
}

ExampleResult example_train_loop(const ExampleLoop& loop, const Tensor& inputs, const Tensor& targets,
                                 const std::function<Tensor(const Tensor&, const Tensor&)>& loss_of) {
  ExampleLoop run = loop;
  if (!run.options.learning_rate && inputs && inputs.rank() > 0) {
    const auto rows = static_cast<std::int64_t>(inputs.dims()[0]);
    const std::int64_t batch = run.options.batch_size > 0 ? run.options.batch_size : rows;
    const std::int64_t step_count = run.epochs * ((rows + batch - 1) / batch);
    const auto steps = static_cast<double>(step_count);
    const Tensor step = cast(symbol_value(step_symbol()), Type::kF32);
    run.options.learning_rate = (2 * steps - step) * (run.init_lr / steps);
  }
  ExampleResult result;
  data_parallel(run.options, inputs, targets, loss_of, [&](Trainer& trainer) {
    for (std::int64_t epoch = 0; epoch < run.epochs; ++epoch) {
      trainer.run_epoch([&](std::int64_t) {
        if (run.per_batch) {
          run.per_batch(trainer, trainer.step_count() - 1, trainer.loss_value());
        }
        return true;
      });
      result.epoch_losses.push_back(trainer.mean_loss() * static_cast<double>(trainer.steps_per_epoch()));
      if (run.per_epoch) {
        run.per_epoch(trainer, epoch, result.epoch_losses.back());
      }
    }
  });
  return result;
}

}  // namespace yoke
