// SPDX-License-Identifier: Apache-2.0
// frontends/tensor/src/trainer_values.cpp: reads, saves and restores values on a trainer's shards.
#include <yoke/mode.h>
#include <yoke/safetensors.h>
#include <yoke/train_helpers.h>

#include <algorithm>

#include "host_copy.h"
#include "host_numbers.h"
#include "node.h"
#include "trainer_impl.h"

namespace yoke {

std::vector<float> Trainer::Impl::read(const Context& context, std::string_view name) {
  if (name.starts_with("gradient/") && !has_gradients) {
    throw Error(
        ErrorCode::kFailedPrecondition,
        "there is no '" + std::string(name) +
            "': a step may keep no gradients; call launch_gradients(), and read them before update()");
  }
  const auto type = static_cast<Type>(context.tensor(name).spec.type);
  const std::vector<double> numbers = detail::numbers_of(type, detail::read_now(context, name));
  return {numbers.begin(), numbers.end()};
}

void Trainer::sync_params_to_host() {
  Impl::at_step(impl_, "sync_params_to_host()", [&] {
    for (const Parameter& parameter : impl_->parameters) {
      parameter.set_values(detail::read_now(*impl_->shards[0].stream, impl_->replica(0, parameter)));
    }
  });
}

void Trainer::Impl::require_parameter(const Parameter& parameter) const {
  if (std::none_of(parameters.begin(), parameters.end(),
                   [&](const Parameter& own) { return own.is(parameter); })) {
    throw Error(ErrorCode::kNotFound,
                "'" + parameter.name() + "' is not a parameter of the model; owner_params() lists these");
  }
}

// As the latest update leaves it. A shard that uses the owner's memory may be on another device.
CollectiveTensor Trainer::Impl::replica(std::uint32_t k, const Parameter& parameter) const {
  const std::string name = name_now(parameter.name());
  const bool is_shared = contexts[k].tensor(name).view.buffer == contexts[0].tensor(name).view.buffer;
  return {contexts[is_shared ? 0 : k], name};
}

CollectiveTensor Trainer::merged_gradient(const Parameter& parameter) {
  return Impl::at_step(impl_, "merged_gradient()", [&]() -> CollectiveTensor {
    impl_->require_parameter(parameter);
    if (!impl_->merged) {
      throw Error(ErrorCode::kFailedPrecondition, "the gradients are not merged; call grad_sync() first");
    }
    return {impl_->contexts[0], "gradient/" + parameter.name()};
  });
}

CollectiveTensor Trainer::replica(std::uint32_t shard, const Parameter& parameter) {
  return Impl::at_step(impl_, "replica()", [&] {
    impl_->require_parameter(parameter);
    if (shard >= impl_->shards.size()) {
      throw Error(ErrorCode::kOutOfRange, "there is no shard " + std::to_string(shard) + " of " +
                                              std::to_string(impl_->shards.size()));
    }
    return impl_->replica(shard, parameter);
  });
}

// With a feed, there is no batch before the first step.
void Trainer::Impl::require_batch(std::string_view tensor) const {
  const bool is_field = std::any_of(data.fields().begin(), data.fields().end(),
                                    [&](const Field& field) { return field.name == tensor; });
  if (is_fed() && last == nullptr && is_field) {
    throw Error(ErrorCode::kFailedPrecondition, "no step has run yet, so the feed has not supplied the " +
                                                    std::string(tensor) + "; call step() first");
  }
}

// Computes `t` on the owner, from its parameters and the batch, symbols and scalars of the latest step.
std::vector<float> Trainer::Impl::compute(const Tensor& t) {
  const Lowered lowered = lower("read", {{"value", in_mode(t, Mode::kTrain)}});
  check_symbols(lowered);
  detail::NamedProgram program = detail::name_program(lowered, {{"value", "read/value"}}, "literal/read/");
  Context context = micro_batches[0].slots[latest_slot].child();
  context.allocate("read/value", {static_cast<std::int32_t>(t.type()), t.dims()});
  for (auto& [argument, tensor] : program.rename) {
    require_batch(tensor);
    tensor = contexts[0].has(name_now(tensor)) ? name_now(tensor) : tensor;
  }
  StepRoutine routine = link(context, program, (*symbols)[0]);
  scalars->send();
  routine.run((*symbols)[0]);
  return read(context, "read/value");
}

std::vector<float> Trainer::read_values(const Tensor& t) {
  if (t && t.source() == Source::kParameter) {
    return read_values(t.name());
  }
  detail::require(t, "read_values");
  return Impl::at_step(impl_, "read_values()", [&] { return impl_->compute(t); });
}

double Trainer::learning_rate_value() {
  return static_cast<double>(read_values(impl_->options.learning_rate)[0]);
}

std::vector<float> Trainer::read_values(std::string_view name) {
  return Impl::at_step(impl_, "read_values()", [&] {
    const Context& owner = impl_->micro_batches[0].slots[impl_->latest_slot];
    const std::string now = impl_->name_now(name);
    impl_->require_batch(name);
    return impl_->read(owner, owner.has(now) ? now : name);
  });
}

void Trainer::save_params(const std::filesystem::path& file) {
  sync_params_to_host();
  yoke::save_params(file, impl_->parameters);
}

void Trainer::restore_params(const std::filesystem::path& file) {
  restore_params(load_arrays(file), file.string());
}

void Trainer::restore_params(std::span<const NamedArray> arrays, const std::string& source) {
  yoke::restore_params(arrays, impl_->parameters, source);
  Impl::at_step(impl_, "restore_params()", [&] {
    for (const Parameter& parameter : impl_->parameters) {
      impl_->contexts[0].from_host(impl_->name_now(parameter.name()), parameter.values());
    }
    impl_->step_plan.publish();
    impl_->shards[0].stream->wait();
  });
}

}  // namespace yoke
