// SPDX-License-Identifier: Apache-2.0
// frontends/tensor/src/trainer_state.cpp: copies what a run needs to go on later, and goes on from such a copy.
#include <yoke/runtime/counted.h>

#include <algorithm>
#include <optional>

#include "host_copy.h"
#include "trainer_impl.h"

namespace yoke {
namespace {

std::string described(Type type, const Dims& dims) {
  return std::string(program::type_name(type)) + dims_text(dims);
}

bool is_value_of(const Symbol& symbol, std::int64_t value) {
  const auto distance = static_cast<std::uint64_t>(value) - static_cast<std::uint64_t>(symbol.low);
  return value >= symbol.low && value < symbol.high &&
         distance % static_cast<std::uint64_t>(symbol.step) == 0;
}

}  // namespace

LossScale Trainer::Impl::read_scale() const {
  return is_scaled() ? detail::scale_of_bytes(detail::read_now(contexts[0], StepPlan::kNumber)) : LossScale();
}

void Trainer::Impl::write_scale(const std::vector<std::byte>& bytes) {
  for (std::size_t k = 0; k < (step_plan.shares_parameters() ? 1 : contexts.size()); ++k) {
    detail::write_now(contexts[k], StepPlan::kNumber, bytes);
  }
  scale_bytes = bytes;
}

LossScale Trainer::loss_scale() {
  return Impl::at_step(impl_, "loss_scale()", [&] { return impl_->read_scale(); });
}

TrainerState Trainer::Impl::take_state() const {
  TrainerState taken;
  for (const Parameter& parameter : parameters) {
    taken.parameters.push_back({parameter.name(), parameter.type(), parameter.dims(),
                                detail::read_now(contexts[0], name_now(parameter.name()))});
  }
  for (const Parameter& parameter : parameters) {
    for (const std::string& state : states_of(parameter)) {
      const auto bytes = std::make_shared<std::vector<std::byte>>(parameter.byte_count());
      for (const StatePiece& piece : step_plan.state_pieces(parameter.name(), state)) {
        Stream& stream = *shards[piece.shard].stream;
        stream.to_host(bytes->data() + piece.offset, piece.view);
        detail::wait_for_copy(stream, bytes);
        if (piece.view.byte_count == bytes->size()) {
          break;  // the other shards have the same
        }
      }
      taken.optimizer.push_back({state + "/" + parameter.name(), parameter.type(), parameter.dims(), *bytes});
    }
  }
  taken.step = step_number;
  taken.batch = batch_number;
  taken.bindings = binding_values;
  if (learning_rate.tensor()) {
    taken.learning_rate = learning_rate.value();
  }
  taken.optimizer_name = options.optimizer.name();
  taken.base_seed = options.base_seed;
  taken.row_count = plan.total;
  taken.batch_rows = plan.batch;
  taken.precision = precision_name(options.precision);
  taken.loss_scale = read_scale();
  taken.shards = static_cast<std::uint32_t>(shards.size());
  taken.devices = device_names;
  for (const auto& backend : shard_backends) {
    const std::string build = backend->name() + " " + backend->version();
    if (std::find(taken.backends.begin(), taken.backends.end(), build) == taken.backends.end()) {
      taken.backends.push_back(build);
    }
  }
  return taken;
}

// What does not fit this run, one part per difference, each after "; ".
std::string Trainer::Impl::state_problems(const TrainerState& state) const {
  std::string problems;
  const auto compare = [&](const auto& theirs, const auto& ours, const std::string& what) {
    if (theirs != ours) {
      problems += "; " + what + " is " + theirs + ", here " + ours;
    }
  };
  const auto number = [](auto value) { return std::to_string(value); };
  compare(state.optimizer_name, options.optimizer.name(), "the optimizer");
  compare(state.precision, std::string(precision_name(options.precision)), "the precision");
  compare(number(state.base_seed), number(options.base_seed), "the base seed");
  compare(number(state.row_count), number(plan.total), "the number of rows");
  compare(number(state.batch_rows), number(plan.batch), "the batch size");
  compare(number(state.bindings.size()), number(binding_values.size()), "the number of bindings");
  if (state.step < 0) {
    problems += "; the step is " + number(state.step);
  }
  const LossScale& scaling = state.loss_scale;
  if (is_scaled() && (!detail::is_valid(scaling) || scaling.skipped_steps > state.step)) {
    problems += "; the loss scale " + number(scaling.scale) + ", with " +
                detail::counted(scaling.clean_steps, "clean step") + " and " + number(scaling.skipped_steps) +
                " skipped ones, is out of range";
  }
  const std::uint64_t batches = plan.batch_count();
  if (state.batch >= batches ||
      (is_fed() && state.batch != static_cast<std::uint64_t>(state.step) % batches)) {
    problems += "; the batch is " + number(state.batch) + ", which does not follow step " +
                number(state.step) + " in epochs of " + number(batches);
  }
  for (std::size_t i = 0; i < std::min(state.bindings.size(), binding_values.size()); ++i) {
    const Symbol& symbol = options.bindings[i];
    if (!is_value_of(symbol, state.bindings[i])) {
      problems += "; the binding '" + symbol.name + "' is " + number(state.bindings[i]) +
                  ", which is not one of its values";
    }
  }
  const auto find = [&](const std::vector<NamedArray>& arrays, const std::string& name,
                        const Parameter& like) {
    const auto at = std::find_if(arrays.begin(), arrays.end(),
                                 [&](const NamedArray& array) { return array.name == name; });
    if (at == arrays.end()) {
      problems += "; '" + name + "' is missing";
      return;
    }
    compare(described(at->type, at->dims), described(like.type(), like.dims()), "'" + name + "'");
    if (at->dims == like.dims() && at->type == like.type() && at->bytes.size() != like.byte_count()) {
      problems += "; '" + name + "' has " + detail::counted(at->bytes.size(), "byte");
    }
  };
  for (const Parameter& parameter : parameters) {
    find(state.parameters, parameter.name(), parameter);
    for (const std::string& name : states_of(parameter)) {
      find(state.optimizer, name + "/" + parameter.name(), parameter);
    }
  }
  if (problems.empty() && state.parameters.size() > parameters.size()) {
    problems += "; it has more parameters than the model";
  }
  return problems;
}

void Trainer::Impl::write_state(const TrainerState& state) {
  const auto find = [](const std::vector<NamedArray>& arrays, const std::string& name) {
    const auto at = std::find_if(arrays.begin(), arrays.end(),
                                 [&](const NamedArray& array) { return array.name == name; });
    return std::make_shared<std::vector<std::byte>>(at->bytes);
  };
  for (const Parameter& parameter : parameters) {
    detail::write_now(contexts[0], name_now(parameter.name()), *find(state.parameters, parameter.name()));
    for (const std::string& name : states_of(parameter)) {
      const auto bytes = find(state.optimizer, name + "/" + parameter.name());
      for (const StatePiece& piece : step_plan.state_pieces(parameter.name(), name)) {
        Stream& stream = *shards[piece.shard].stream;
        stream.from_host(piece.view, bytes->data() + piece.offset);
        detail::wait_for_copy(stream, bytes);
      }
    }
  }
  if (is_scaled()) {
    write_scale(detail::scale_bytes(state.loss_scale));
  }
  step_plan.publish();
  shards[0].stream->wait();
}

TrainerState Trainer::state() {
  return Impl::at_step(impl_, "state()", [&] { return impl_->take_state(); });
}

void Trainer::set_state(const TrainerState& state) {
  if (impl_->step_number != 0 || impl_->last != nullptr) {
    throw Error(ErrorCode::kFailedPrecondition,
                "set_state: a step has run; set the state before the first step, or in a new run");
  }
  if (const std::string problems = impl_->state_problems(state); !problems.empty()) {
    throw Error(ErrorCode::kInvalidArgument, "set_state: the state does not match this run: " +
                                                 problems.substr(2) + "; nothing was changed");
  }
  Impl::at_step(impl_, "set_state()", [&] { impl_->write_state(state); });
  impl_->step_number = impl_->fetched = state.step;
  impl_->batch_number = state.batch;
  impl_->binding_values = state.bindings;
  if (state.learning_rate && impl_->learning_rate.tensor()) {
    impl_->learning_rate.set(*state.learning_rate);
  }
}

void Trainer::swap_averages() {
  const std::vector<std::string>& states = impl_->options.optimizer.states();
  if (std::find(states.begin(), states.end(), "average") == states.end() || impl_->step_number == 0) {
    throw Error(ErrorCode::kFailedPrecondition,
                impl_->step_number == 0
                    ? "swap_averages: the averages begin with the first step; call step() first"
                    : "swap_averages: the optimizer keeps no averages; use moving_average(optimizer)");
  }
  const std::int64_t skipped = loss_scale().skipped_steps;
  if (skipped == impl_->step_number) {
    throw Error(ErrorCode::kFailedPrecondition,
                "swap_averages: " +
                    (skipped == 1 ? "the only step was" : "all " + std::to_string(skipped) + " steps were") +
                    " skipped, so there are no averages; call step() until one is not");
  }
  // Taken once: if a device is lost, the function is called again, when some shards may have the exchanged values.
  std::optional<TrainerState> exchanged;
  Impl::at_step(impl_, "swap_averages()", [&] {
    if (!exchanged) {
      TrainerState state = impl_->take_state();
      for (NamedArray& parameter : state.parameters) {
        for (NamedArray& average : state.optimizer) {
          if (average.name == "average/" + parameter.name) {
            std::swap(average.bytes, parameter.bytes);
          }
        }
      }
      exchanged = std::move(state);
    }
    impl_->write_state(*exchanged);
  });
  impl_->has_averages = !impl_->has_averages;
}

}  // namespace yoke
