// SPDX-License-Identifier: Apache-2.0
// frontends/tensor/src/trainer.cpp: steps of a training run. Nothing here compiles or links.
#include "host_copy.h"
#include "trainer_impl.h"

namespace yoke {

using detail::Variant;

void Trainer::Impl::set_symbols() {
  for (std::size_t k = 0; k < symbols->size(); ++k) {
    SymbolTable& table = (*symbols)[k];
    table.set(detail::kStepNumber, step_number);
    table.set(step_symbol().name, step_number);
    for (std::size_t i = 0; i < options.bindings.size(); ++i) {
      const Symbol& binding = options.bindings[i];
      table.set(binding.name, binding.name == step_symbol().name ? binding.low + step_number * binding.step
                                                                 : binding_values[i]);
    }
  }
}

// Sets the symbols that differ between the micro-batches of a shard.
void Trainer::Impl::select(const Variant& now, std::size_t s) {
  SymbolTable& table = (*symbols)[micro_batches[s].shard];
  table.set(batch_row_symbol().name, static_cast<std::int64_t>(now.first_in_batch[s]));
  // Programs of a smaller last batch do not read this symbol.
  table.set(detail::kRowSymbol, is_fed() ? 0 : plan.first_row(s, batch_number));
  if (per_shard > 1) {
    table.set(seed_symbol().name, options.base_seed + static_cast<std::int64_t>(s));
  }
}

// Advances the odometer of bindings by one position, the last binding fastest.
void Trainer::Impl::advance_bindings() {
  for (std::size_t i = options.bindings.size(); i-- > 0;) {
    const Symbol& binding = options.bindings[i];
    if (binding.name == step_symbol().name) {
      continue;
    }
    std::int64_t& value = binding_values[i];
    if (!__builtin_add_overflow(value, binding.step, &value) && value < binding.high) {
      return;
    }
    value = binding.low;
  }
}

Variant& Trainer::Impl::begin_step() {
  if (has_averages) {
    throw Error(ErrorCode::kFailedPrecondition,
                "the parameters are moving averages; call swap_averages() before the next step");
  }
  for (std::size_t i = 0; i < streams.size(); ++i) {
    step_end(i).wait();
    streams[i]->begin_step(step_number);
  }
  set_symbols();
  scalars->send();
  return is_varying() ? choose_rows() : variants[batch_number < plan.full_batches ? 0 : 1];
}

// Takes note of a step whose launches have been queued.
void Trainer::Impl::finish_step(Variant& now) {
  for (std::size_t k = 0; k < shards.size(); ++k) {
    shards[k].rows = rows_of(now, k);
  }
  last = &now;
  latest_slot = slot();
  merged = false;
  ++steps_in_loss_total;
}

void Trainer::Impl::run_step() {
  queue_step();
  if (redistributes()) {
    fetch_ahead();
    settle();
  }
}

void Trainer::Impl::queue_step() {
  if (is_single()) {
    fetch_current();
    Variant& now = begin_step();
    select(now, 0);
    now.steps[slot()].run((*symbols)[0]);
    finish_step(now);
  } else if (is_cut() && !has_reductions()) {
    link_parts();
    fetch_current();
    queue_parts(begin_step(), true);
  } else {
    queue_gradients();
    queue_merge_and_update();
  }
  has_gradients = false;
}

// In a reproducible run, a micro-batch without rows adds zeros, so that the sum does not depend on the shards.
void Trainer::Impl::queue_micro_batch(Variant& now, std::uint32_t k, std::uint32_t number) {
  if (is_varying()) {
    queue_pieces(now, k, number);
    return;
  }
  const std::uint32_t s = first_micro[k] + number;
  if (s < now.active) {
    select(now, s);
    now.gradients[routine_slot() * now.active + s].run((*symbols)[k]);
  } else if (is_reproducible()) {
    sums[k].clear(number);
  } else {
    return;
  }
  if (has_sums()) {
    sums[k].add(number);
  }
}

// Queues the parts of the gradient programs and, if it `merges`, merges and updates each bucket as soon as it can.
void Trainer::Impl::queue_parts(Variant& now, bool merges) {
  const std::uint32_t shard_count = active_shards(now);
  for (std::uint32_t number = 0; number + 1 < per_shard; ++number) {
    for (std::uint32_t k = 0; k < shard_count; ++k) {
      if (first_micro[k] + number < last_micro(now, k)) {
        queue_micro_batch(now, k, number);
      }
    }
  }
  for (std::uint32_t k = 0; k < shard_count; ++k) {
    select(now, last_micro(now, k));
  }
  step_plan.clear_gradients(shard_count);
  const std::size_t first = routine_slot() * after_part.size();  // the last update_bucket() changes it
  for (std::size_t part = 0; part < after_part.size(); ++part) {
    for (detail::PartLaunch& launch : now.launches[first + part]) {
      launch.routine.run((*symbols)[launch.shard]);
    }
    if (part < now.reductions.size() && !is_trial) {
      now.reductions[part].run();
    }
    for (const GradientParts::Bucket& bucket : after_part[part]) {
      for (std::uint32_t k = 0; has_sums() && bucket.merges && k < shard_count; ++k) {
        sums[k].add_bucket(last_micro(now, k) - first_micro[k], bucket.number);
      }
      if (merges && bucket.merges) {
        step_plan.merge_bucket(bucket.number);
      }
      if (merges && bucket.updates) {
        step_plan.update_bucket(bucket.number, *symbols);
      }
    }
  }
  reset_seeds();
  finish_step(now);
}

void Trainer::Impl::reset_seeds() {
  for (std::size_t k = 0; has_sums() && k < shards.size(); ++k) {
    (*symbols)[k].set(seed_symbol().name, seeds[k]);
  }
}

void Trainer::Impl::queue_gradients() {
  link_parts();
  fetch_current();
  Variant& now = begin_step();
  if (is_cut()) {
    queue_parts(now, false);
    has_gradients = true;
    return;
  }
  const std::uint32_t shard_count = active_shards(now);
  for (std::uint32_t number = 0; number < per_shard; ++number) {  // for all shards, so that each starts early
    for (std::uint32_t k = 0; k < shard_count; ++k) {
      queue_micro_batch(now, k, number);
    }
  }
  reset_seeds();
  step_plan.clear_gradients(shard_count);
  finish_step(now);
  has_gradients = true;
}

void Trainer::Impl::require_gradients(const char* what) const {
  if (!has_gradients) {
    throw Error(ErrorCode::kFailedPrecondition,
                std::string("no gradients to ") + what +
                    ": launch_gradients() has not run since the latest step or update; call it first");
  }
}

void Trainer::Impl::queue_merge_and_update() {
  scalars->send();
  merged ? step_plan.update(*symbols) : step_plan.step(*symbols);
  merged = false;
}

void Trainer::Impl::check_replicas() {
  for (const Parameter& parameter : parameters) {
    const CollectiveTensor of_owner = replica(0, parameter);
    const std::vector<std::byte> expected = detail::read_now(*shards[0].stream, of_owner);
    for (std::uint32_t k = 1; k < contexts.size(); ++k) {
      const CollectiveTensor of_shard = replica(k, parameter);
      if (of_shard.assume_resolved().view.buffer == of_owner.assume_resolved().view.buffer) {
        continue;  // the shard uses the owner's memory
      }
      const std::vector<std::byte> found = detail::read_now(*shards[k].stream, of_shard);
      if (found != expected) {
        std::size_t at = 0;
        while (found[at] == expected[at]) {
          ++at;
        }
        throw Error(ErrorCode::kDataLoss,
                    "shard " + std::to_string(k) + " and the owner differ in parameter '" + parameter.name() +
                        "', first at element " + std::to_string(at / program::byte_size(parameter.type())));
      }
    }
  }
}

Trainer::Trainer(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
std::uint32_t Trainer::shards() const {
  return static_cast<std::uint32_t>(impl_->shards.size());
}
std::int64_t Trainer::steps_per_epoch() const {
  return static_cast<std::int64_t>(impl_->plan.batch_count());
}
std::int64_t Trainer::step_count() const {
  return impl_->step_number;
}
MergeStrategy Trainer::merge_strategy() const {
  return impl_->step_plan.strategy();
}
Placement Trainer::placement() const {
  return impl_->step_plan.placement();
}
const std::string& Trainer::merge_reason() const {
  return impl_->step_plan.merge_reason();
}
bool Trainer::overlaps() const {
  return impl_->step_plan.overlaps() && !impl_->has_reductions();
}
const std::string& Trainer::device_names() const {
  return impl_->device_names;
}
const std::vector<Parameter>& Trainer::owner_params() const {
  return impl_->parameters;
}
const std::vector<std::int64_t>& Trainer::shard_seeds() const {
  return impl_->seeds;
}
std::span<const Shard> Trainer::shard_list() const {
  impl_->require_whole_steps("shard_list()");
  impl_->link_parts();
  impl_->link_whole_gradients();
  return impl_->shards;
}
double Trainer::compile_seconds() const {
  return impl_->codes->compile_seconds();
}
double Trainer::setup_seconds() const {
  return impl_->setup_seconds;
}

void Trainer::step() {
  Impl::at_step(impl_, "step()", [&] { impl_->run_step(); });
  impl_->advance();
  check_replicas();
}

bool Trainer::run_epoch(const std::function<bool(std::int64_t)>& after_step) {
  for (auto i = static_cast<std::int64_t>(impl_->batch_number); i < steps_per_epoch(); ++i) {
    step();
    if (after_step && !after_step(i)) {
      return false;
    }
  }
  return true;
}

void Trainer::launch_gradients() {
  impl_->require_whole_steps("launch_gradients()");
  Impl::at_step(impl_, "launch_gradients()", [&] { impl_->queue_gradients(); });
}

void Trainer::grad_sync() {
  impl_->require_whole_steps("grad_sync()");
  Impl::at_step(impl_, "grad_sync()", [&] {
    impl_->require_gradients("merge");
    if (impl_->merged) {
      throw Error(ErrorCode::kFailedPrecondition,
                  "the gradients are already merged; call update(), or launch_gradients() for new ones");
    }
    impl_->step_plan.merge();
    impl_->merged = true;
  });
}

void Trainer::update() {
  impl_->require_whole_steps("update()");
  Impl::at_step(impl_, "update()", [&] {
    impl_->require_gradients("update the parameters with");
    impl_->queue_merge_and_update();
    impl_->has_gradients = false;  // the merge may have added them up
  });
}

void Trainer::Impl::advance() {
  fetch_ahead();
  for (std::size_t i = 0; i < streams.size(); ++i) {
    step_end(i) = streams[i]->record();
  }
  batch_number = (batch_number + 1) % plan.batch_count();
  ++step_number;
  advance_bindings();
}

void Trainer::advance() {
  impl_->require_whole_steps("advance()");
  impl_->advance();
  check_replicas();
}

void Trainer::check_replicas() {
  if (impl_->options.check_replicas_every != 0 &&
      static_cast<std::uint64_t>(impl_->step_number) % impl_->options.check_replicas_every == 0) {
    Impl::at_step(impl_, "comparison of the replicas", [&] { impl_->check_replicas(); });
  }
}

void Trainer::set_learning_rate(double rate) {
  detail::check_rate(rate, "set_learning_rate");
  if (!impl_->learning_rate.tensor()) {
    throw Error(ErrorCode::kFailedPrecondition,
                "set_learning_rate: options.learning_rate is an expression; change the Scalars that it uses");
  }
  impl_->learning_rate.set(rate);
}

// The first failure, of those on lost devices if there are any: other streams fail because they wait for its results.
// `seen` if no stream has failed.
Error Trainer::Impl::cause_of(const Error& seen) const {
  if (seen.code() == ErrorCode::kDeadlineExceeded) {
    return seen;
  }
  for (const auto& stream : all_streams) {
    try {
      stream->wait(std::chrono::nanoseconds::zero());  // takes note of a failure
    } catch (const Error&) {                           // compared below
    }
  }
  const bool has_lost = std::any_of(all_streams.begin(), all_streams.end(),
                                    [](const auto& stream) { return stream->device()->is_lost(); });
  std::optional<StreamFailure> first;
  for (const auto& stream : all_streams) {
    std::optional<StreamFailure> failure = stream->failure();
    if (failure && (!has_lost || failure->device->is_lost()) && (!first || failure->order < first->order)) {
      first = std::move(failure);
    }
  }
  return first ? first->error : seen;
}

void Trainer::wait() {
  Impl::at_step(impl_, "wait()", [&] {
    for (const auto& stream : impl_->streams) {
      stream->wait();
    }
  });
}

}  // namespace yoke
