// SPDX-License-Identifier: Apache-2.0
// frontends/tensor/src/train_helpers.cpp: streams, contexts and files for hand-written training loops.
#include <yoke/runtime/passes.h>
#include <yoke/safetensors.h>
#include <yoke/train_helpers.h>

#include <algorithm>

#include "host_copy.h"
#include "node.h"
#include "scalar_table.h"

namespace yoke {

using detail::fail;

std::vector<std::shared_ptr<Stream>> get_all_suggested_streams(const std::shared_ptr<Backend>& backend,
                                                               std::uint32_t most, StreamUse use) {
  if (backend == nullptr) {
    fail("get_all_suggested_streams: the backend is null");
  }
  const std::uint32_t devices = std::min(backend->device_count(), most);
  std::vector<std::shared_ptr<Stream>> streams;
  for (std::uint32_t ordinal = 0; ordinal < devices; ++ordinal) {
    const auto device = backend->open_device(ordinal);
    const std::uint64_t kept_for_others = devices - ordinal - 1;
    const std::uint64_t room = most - streams.size() - kept_for_others;
    const std::uint64_t count = std::min<std::uint64_t>(suggested_stream_count(device->info(), use), room);
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

void set_materialized(Lowered& lowered, std::span<const std::string> names) {
  Lowered changed = lowered;
  for (const std::string& name : names) {
    const auto number = changed.program.find_tensor(program_identifier(name));
    if (!number) {
      throw Error(ErrorCode::kNotFound, "set_materialized: program '" + changed.program.name +
                                            "' computes no tensor '" + name +
                                            "'; name the tensor by Tensor::named before it is lowered");
    }
    program::Tensor& tensor = changed.program.tensors[*number];
    if (tensor.role != program::Role::kTemp) {
      continue;
    }
    tensor.role = program::Role::kOut;
    const std::vector<std::uint32_t> numbers = changed.program.arguments();
    const auto at = std::find(numbers.begin(), numbers.end(), *number) - numbers.begin();
    changed.arguments.insert(changed.arguments.begin() + at,
                             {tensor.name, tensor.role, LoweredArgument::Kind::kOutput, {}});
  }
  lowered = std::move(changed);
}

void set_virtual(Lowered& lowered, std::span<const std::string> names) {
  std::vector<std::string> temporaries(names.size());
  std::transform(names.begin(), names.end(), temporaries.begin(), program_identifier);
  lowered.program = passes::without_memory(std::move(lowered.program), temporaries);
}

bool from_host(const Context& context, const LoweredArgument& argument) {
  if (!argument.leaf) {
    return false;
  }
  const std::string name = context_name(argument);
  if (argument.kind == LoweredArgument::Kind::kScalar && context.has(name)) {
    detail::fill_scalar(context, name, argument.leaf, argument.leaf.node()->scalar->value);
    return true;
  }
  const detail::HostMemory memory = detail::host_memory(argument.leaf);
  if (memory.bytes.empty() || !context.has(name)) {
    return false;
  }
  context.from_host(name, memory.bytes);
  try {  // keep the memory until the copy has ended
    context.stream()->host_callback(detail::KeepUntilDone{memory.owner});
  } catch (...) {  // out of memory
    context.stream()->wait();
    throw;
  }
  return true;
}

bool to_host(const Context& context, const LoweredArgument& argument) {
  (void)context.stream();  // throws for a moved-from context even if nothing is copied; likewise below
  if (argument.kind != LoweredArgument::Kind::kParameter || !context.has(context_name(argument))) {
    return false;
  }
  const Parameter parameter = Parameter::of(argument.leaf);
  parameter.set_values(detail::read_now(context, parameter.name()));
  return true;
}

std::size_t all_host_to_device(const Context& context, const Lowered& lowered) {
  (void)context.stream();
  return static_cast<std::size_t>(
      std::count_if(lowered.arguments.begin(), lowered.arguments.end(),
                    [&](const LoweredArgument& argument) { return from_host(context, argument); }));
}

std::size_t all_device_to_host(const Context& context, const Lowered& lowered) {
  const auto copied =
      std::count_if(lowered.arguments.begin(), lowered.arguments.end(),
                    [&](const LoweredArgument& argument) { return to_host(context, argument); });
  context.stream()->wait();
  return static_cast<std::size_t>(copied);
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

void allocate_missing(Context& context, const Lowered& lowered,
                      const std::map<std::string, std::string>& names) {
  for (const LoweredArgument& argument : lowered.arguments) {
    const auto given = names.find(argument.name);
    const std::string name = given != names.end() ? given->second : context_name(argument);
    if (!context.has(name)) {
      const auto number = lowered.program.find_tensor(argument.name);
      if (!number) {
        fail("allocate_missing: the program has no tensor '" + argument.name + "'");
      }
      const program::Tensor& tensor = lowered.program.tensors[*number];
      context.allocate(name, {static_cast<std::int32_t>(tensor.type), tensor.dims});
      if (argument.kind == LoweredArgument::Kind::kLiteral) {
        context.set_constant(name);
      }
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

void save_params(const std::filesystem::path& file, std::span<const Parameter> parameters) {
  std::vector<NamedArray> arrays;
  for (const Parameter& parameter : parameters) {
    if (!parameter.has_values()) {
      throw Error(ErrorCode::kFailedPrecondition,
                  "save_params: parameter '" + parameter.name() +
                      "' has no values on the host; train the model first, or call sync_params_to_host() of "
                      "its Trainer");
    }
    const auto bytes = parameter.values();
    arrays.push_back({parameter.name(), parameter.type(), parameter.dims(), {bytes.begin(), bytes.end()}});
  }
  save_arrays(file, arrays);
}

void restore_params(const std::filesystem::path& file, std::span<const Parameter> parameters) {
  restore_params(load_arrays(file), parameters, file.string());
}

void restore_params(std::span<const NamedArray> arrays, std::span<const Parameter> parameters,
                    const std::string& source) {
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
    throw Error(ErrorCode::kInvalidArgument,
                "'" + source + "' does not match the model: " + problems.substr(2) + "; nothing was changed");
  }
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    parameters[i].set_dims(found[i]->dims, "restore_params");
    parameters[i].set_values(found[i]->bytes);
  }
}

void enable_all_debugs(RuntimeOptions& options, bool debug_logs) {
  options.log_level = std::min(options.log_level, LogLevel::kDebug);
  options.layers.names = debug_logs ? "validate,trace" : "validate";
  options.layers.trace_data = debug_logs;
}

void disable_all_debugs(RuntimeOptions& options) {
  const RuntimeOptions defaults;
  options.log_level = defaults.log_level;
  options.layers.names = defaults.layers.names;
  options.layers.trace_data = defaults.layers.trace_data;
}

}  // namespace yoke
