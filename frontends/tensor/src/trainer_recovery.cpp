// SPDX-License-Identifier: Apache-2.0
// frontends/tensor/src/trainer_recovery.cpp: on_device_lost = redistribute: waits for the end of each step and, if
// shards are lost, sets up the other ones again and continues.
#include <yoke/runtime/closest.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <iterator>

#include "evaluation_impl.h"
#include "host_copy.h"
#include "host_numbers.h"

namespace yoke {

using detail::Snapshot;
using detail::Variant;

namespace {

constexpr std::array<std::pair<OnDeviceLost, const char*>, 2> kNames = {
    {{OnDeviceLost::kFail, "fail"}, {OnDeviceLost::kRedistribute, "redistribute"}}};

}  // namespace

const char* on_device_lost_name(OnDeviceLost on_device_lost) {
  const auto found = std::find_if(kNames.begin(), kNames.end(),
                                  [&](const auto& entry) { return entry.first == on_device_lost; });
  return found != kNames.end() ? found->second : "unknown";
}

OnDeviceLost on_device_lost_by_name(std::string_view name) {
  const auto found =
      std::find_if(kNames.begin(), kNames.end(), [&](const auto& entry) { return entry.second == name; });
  if (found == kNames.end()) {
    throw Error(ErrorCode::kInvalidArgument, "unknown reaction to a lost device '" + std::string(name) +
                                                 "'; use fail or redistribute" +
                                                 did_you_mean(name, {"fail", "redistribute"}));
  }
  return found->first;
}

Trainer::~Trainer() {
  for (const std::weak_ptr<Evaluation::Impl>& each : impl_->evaluations) {
    if (const auto evaluation = each.lock()) {
      evaluation->trainer = nullptr;
    }
  }
}

const std::vector<LostShard>& Trainer::lost_shards() const {
  return impl_->lost;
}

void Trainer::Impl::require_whole_steps(const char* call) const {
  if (redistributes()) {
    throw Error(ErrorCode::kFailedPrecondition,
                std::string(call) +
                    ": with on_device_lost = redistribute, steps are repeated as a whole; use step()");
  }
}

// Waits for all streams, of which only one may use up a whole timeout. Returns the first error. Copies that have not
// finished by then keep `memory` alive.
std::optional<Error> Trainer::Impl::wait_for_all(
    const std::shared_ptr<std::vector<std::byte>>& memory) noexcept {
  std::optional<Error> first;
  bool is_late = false;
  for (const auto& stream : all_streams) {
    try {
      is_late ? stream->wait(std::chrono::nanoseconds::zero()) : stream->wait();
    } catch (const Error& error) {
      if (error.code() == ErrorCode::kDeadlineExceeded) {
        detail::keep_for_copy(*stream, memory);
        is_late = true;
        first = error;
      }
      first = first ? first : error;
    }
  }
  return first;
}

// Waits until all shards have finished the step. Throws the first error.
void Trainer::Impl::settle() {
  const Variant& now = *last;
  const auto type = variants[0].graph.loss.type();
  const std::size_t size = program::byte_size(type);
  const std::size_t losses_size = now.active * size;
  const std::size_t metrics_size = now.active * metrics().size() * sizeof(double);
  const std::size_t scale_size = is_scaled() ? scale_bytes.size() : 0;
  const auto memory = std::make_shared<std::vector<std::byte>>(losses_size + metrics_size + scale_size);
  std::optional<Error> failure;
  try {
    for (std::size_t s = 0; s < now.active; ++s) {
      micro_batches[s].context.to_host("loss", std::span(*memory).subspan(s * size, size));
      for (std::size_t i = 0; i < metrics().size(); ++i) {
        const std::size_t offset = losses_size + (i * now.active + s) * sizeof(double);
        micro_batches[s].context.to_host(detail::kMetric + metrics()[i].name,
                                         std::span(*memory).subspan(offset, sizeof(double)));
      }
    }
    if (is_scaled()) {
      contexts[0].to_host(StepPlan::kNumber, std::span(*memory).last(scale_size));
    }
  } catch (const Error& error) {
    failure = error;
  }
  const std::optional<Error> failed = wait_for_all(memory);
  if (failed || failure) {
    throw failed ? *failed : *failure;
  }
  const auto all = std::span<const std::byte>(*memory);
  losses.owner_tensor.assign(memory->begin(), memory->begin() + static_cast<std::ptrdiff_t>(size));
  record_losses(detail::numbers_of(type, all.first(losses_size)),
                detail::numbers_of(Type::kF64, all.subspan(losses_size, metrics_size)));
  scale_bytes.assign(all.end() - static_cast<std::ptrdiff_t>(scale_size), all.end());
  kept_batches.erase(step_number);
  *whole_set = step_plan.set();
}

void Trainer::Impl::record_losses(std::span<const double> each, std::span<const double> of_metrics) {
  const Variant& now = *last;
  const auto combined = [&](const std::vector<double>& weights) {
    double sum = 0;
    for (std::size_t s = 0; s < std::min(weights.size(), each.size()); ++s) {
      sum += weights[s] == 0 ? 0 : weights[s] * each[s];  // without rows, the value is undefined
    }
    return sum;
  };
  const std::span owner = std::span(now.rows).first(per_shard);
  losses.has_any = true;
  losses.latest = combined(now.weights);
  losses.latest_of_owner.reset();
  if (owner[0] != 0) {
    losses.latest_of_owner = combined(detail::loss_weights(owner, options.reduction));
  }
  losses.mean_total += combined(detail::loss_weights(now.rows, Reduction::kMean));
  losses.sum_total += combined(detail::loss_weights(now.rows, Reduction::kSum));
  ++losses.steps;
  for (std::size_t s = 0; s < each.size(); ++s) {
    if (now.rows[s] != 0 && !(std::abs(each[s]) <= detail::kLargestLoss) && !losses.first_bad_step) {
      losses.first_bad_step = step_number;
    }
  }
  losses.metrics.clear();
  for (const Field& metric : metrics()) {
    losses.metrics.emplace_back(metric.name, 0);
  }
  const std::vector<double> shares = metric_weights();
  for (std::size_t i = 0; i < of_metrics.size(); ++i) {
    const double share = shares[i % now.active];
    losses.metrics[i / now.active].second += share == 0 ? 0 : share * of_metrics[i];
  }
}

// The shards of lost devices or, if no device is lost, the shard whose work failed first: the others failed because of
// it.
std::vector<LostShard> Trainer::Impl::find_lost() const {
  std::vector<LostShard> found;
  const auto add = [&](std::size_t k, std::string reason) {
    found.push_back({shard_numbers[k], shard_devices[k]->name(), step_number, std::move(reason)});
  };
  std::vector<std::optional<StreamFailure>> first(shard_devices.size());  // per shard: of its streams
  const auto compare = [&](std::size_t k, const Stream& stream) {
    std::optional<StreamFailure> failure = stream.failure();
    if (failure && (!first[k] || failure->order < first[k]->order)) {
      first[k] = std::move(failure);
    }
  };
  for (std::size_t k = 0; k < shards.size(); ++k) {
    compare(k, *shards[k].stream);
    if (k < step_plan.streams().size()) {
      compare(k, *step_plan.streams()[k]);
    }
    if (k < feeds.size()) {
      compare(k, *feeds[k].stream());
    }
  }
  for (std::size_t k = 0; k < shard_devices.size(); ++k) {
    if (shard_devices[k]->is_lost()) {
      add(k, first[k] ? first[k]->error.what() : "its device was lost");
    }
  }
  if (!found.empty()) {
    return found;
  }
  const auto earliest = std::min_element(first.begin(), first.end(), [](const auto& a, const auto& b) {
    return a && (!b || a->order < b->order);
  });
  if (*earliest) {
    const auto has_failed = [&](const auto& device) { return device->is_same(*(*earliest)->device); };
    auto shard = static_cast<std::size_t>(earliest - first.begin());
    if (!has_failed(shard_devices[shard])) {  // it waited for a copy from another device's memory
      const auto other = std::find_if(shard_devices.begin(), shard_devices.end(), has_failed);
      shard = other == shard_devices.end() ? shard : static_cast<std::size_t>(other - shard_devices.begin());
    }
    add(shard, (*earliest)->error.what());
  }
  return found;
}

// The names in set 0 of the tensors that a step changes.
std::vector<std::string> Trainer::Impl::kept_names() const {
  std::vector<std::string> names;
  for (const Parameter& parameter : parameters) {
    names.push_back(parameter.name());
    for (const std::string& state : states_of(parameter)) {
      names.push_back(state + "/" + parameter.name());
    }
  }
  return names;
}

// Copies the parameters and states before the failed step from a shard that is left. Its streams may have failed.
Snapshot Trainer::Impl::take_snapshot(const std::vector<bool>& is_lost) const {
  std::optional<Error> failure;
  for (std::size_t k = 0; k < contexts.size(); ++k) {
    if (is_lost[k]) {
      continue;
    }
    try {
      const Context context = contexts[k].child(Stream::create(shard_devices[k], "recovery"));
      Snapshot values;
      for (const std::string& name : kept_names()) {
        values[name] = detail::read_now(context, name_now(name));
      }
      return values;
    } catch (const Error& error) {
      failure = error;
    }
  }
  throw Error(failure->code(),
              std::string("no shard has the parameters before the failed step: ") + failure->what());
}

void Trainer::Impl::restore_snapshot() {
  for (std::size_t k = 0; k < (step_plan.shares_parameters() ? 1 : contexts.size()); ++k) {
    for (const auto& [name, bytes] : *snapshot) {
      contexts[k].from_host(name, bytes);
    }
  }
  if (losses.has_any) {
    contexts[0].from_host("loss", losses.owner_tensor);
  }
  if (const std::optional<Error> failed = wait_for_all(std::make_shared<std::vector<std::byte>>())) {
    throw Error(*failed);
  }
}

// A trainer at the same step for the shards that are left; nothing is built yet.
std::unique_ptr<Trainer::Impl> Trainer::Impl::successor(const std::vector<bool>& is_lost) {
  auto next = std::make_unique<Impl>();
  const auto left = static_cast<std::size_t>(std::count(is_lost.begin(), is_lost.end(), false));
  // A reproducible sum needs a power of two.
  const std::size_t used = is_reproducible() ? std::bit_floor(left) : left;
  next->options = options;
  next->options.row_weights.clear();
  next->options.prior_contexts.clear();
  const std::vector<std::int64_t>& used_weights = kept_row_weights.empty() ? row_weights : kept_row_weights;
  std::map<std::string, std::size_t> counts;
  for (std::size_t k = 0; next->shard_devices.size() < used; ++k) {
    if (!is_lost[k]) {
      next->shard_backends.push_back(shard_backends[k]);
      next->shard_ordinals.push_back(shard_ordinals[k]);
      next->shard_numbers.push_back(shard_numbers[k]);
      next->shard_devices.push_back(shard_devices[k]);
      ++counts[shard_backends[k]->name()];
      if (!options.prior_contexts.empty()) {
        next->options.prior_contexts.push_back(options.prior_contexts[k]);
      }
      if (!options.row_weights.empty()) {
        next->options.row_weights.push_back(options.row_weights[k]);
      }
      if (!used_weights.empty()) {
        next->kept_row_weights.push_back(used_weights[k]);
      }
    }
  }
  for (const auto& [name, count] : counts) {
    next->device_names += (next->device_names.empty() ? "" : ", ") + name + " x" + std::to_string(count);
  }
  next->learning_rate = learning_rate;
  next->data = data;
  next->most_rows = most_rows;
  next->feed = feed;
  next->loss_of = loss_of;
  next->runtime = runtime;
  next->parameters = parameters;
  next->codes = codes;
  next->batch_number = batch_number;
  next->step_number = next->fetched = step_number;
  next->binding_values = binding_values;
  next->scale_bytes = scale_bytes;
  next->evaluation_count = evaluation_count;
  next->has_averages = has_averages;
  next->setup_seconds = setup_seconds;
  next->snapshot = std::move(snapshot);
  next->lost = lost;
  next->losses = losses;
  next->kept_batches = std::move(kept_batches);
  next->evaluations = std::move(evaluations);
  return next;
}

bool Trainer::Impl::lose_shards(std::unique_ptr<Impl>& impl) {
  if (!impl->redistributes() || impl->shard_backends.size() < 2) {  // with one, do not wait
    return false;
  }
  const auto nothing = std::make_shared<std::vector<std::byte>>();
  const std::optional<Error> failed = impl->wait_for_all(nothing);
  if (failed && failed->code() == ErrorCode::kDeadlineExceeded) {
    return false;  // work that hangs may still use memory
  }
  const std::vector<LostShard> found = impl->find_lost();
  if (found.empty() || found.size() == impl->shard_backends.size()) {
    return false;
  }
  std::vector<bool> is_lost;
  for (const std::uint32_t number : impl->shard_numbers) {
    is_lost.push_back(
        std::any_of(found.begin(), found.end(), [&](const LostShard& each) { return each.shard == number; }));
  }
  if (!impl->snapshot) {
    impl->snapshot = impl->take_snapshot(is_lost);
  }
  impl->lost.insert(impl->lost.end(), found.begin(), found.end());
  auto next = impl->successor(is_lost);
  for (const LostShard& each : found) {
    impl->runtime->log(LogLevel::kWarn, "shard.lost shard=" + std::to_string(each.shard) +
                                            " device=" + each.device + " step=" + std::to_string(each.step) +
                                            " shards_left=" + std::to_string(next->shard_devices.size()) +
                                            " reason=\"" + each.reason + "\"");
  }
  for (std::size_t k = 0; k < is_lost.size(); ++k) {
    if (impl->shard_devices[k]->is_lost()) {
      impl->codes->forget(*impl->shard_devices[k]);
    }
  }
  for (const std::weak_ptr<Evaluation::Impl>& each : next->evaluations) {
    if (const auto evaluation = each.lock()) {
      evaluation->parts = {};
    }
  }
  impl = std::move(next);  // frees the memory that the new shards need
  return true;
}

// Shards that are left keep the weights that the caller gave them last.
void Trainer::Impl::keep_row_weights() {
  if (std::any_of(kept_row_weights.begin(), kept_row_weights.end(),
                  [](std::int64_t weight) { return weight != 0; })) {
    row_weights = kept_row_weights;
    plan = detail::RowPlan::make(plan.total, plan.batch, micro_weights());
  }
  kept_row_weights.clear();
}

void Trainer::Impl::restart(std::unique_ptr<Impl>& impl) {
  if (!impl->snapshot) {
    return;
  }
  // Starts with an empty Impl, because an earlier attempt may have left this one half built.
  impl = impl->successor(std::vector<bool>(impl->shard_backends.size(), false));
  impl->build();
  impl->keep_row_weights();
  for (const std::weak_ptr<Evaluation::Impl>& each : impl->evaluations) {
    if (const auto evaluation = each.lock()) {
      impl->prepare_evaluation(*evaluation);
    }
  }
  impl->snapshot.reset();
}

}  // namespace yoke
