// SPDX-License-Identifier: Apache-2.0
// frontends/tensor/src/trainer_loss.cpp: the losses of a training run, read from the shards.
#include <algorithm>

#include "host_copy.h"
#include "trainer_impl.h"

namespace yoke {

using detail::Variant;

float Trainer::owner_loss_value() {
  const detail::HostLosses& losses = impl_->losses;
  if (!losses.has_any && impl_->last == nullptr) {
    throw Error(ErrorCode::kFailedPrecondition, "owner_loss_value(): no step has run yet");
  }
  return Impl::at_step(impl_, "owner_loss_value()", [&] {
    const bool has_rows = losses.has_any ? losses.latest_of_owner.has_value() : impl_->last->rows[0] != 0;
    if (!has_rows) {
      throw Error(ErrorCode::kFailedPrecondition, "shard 0 had no rows in the latest step; use loss_value()");
    }
    if (losses.has_any) {
      return static_cast<float>(*losses.latest_of_owner);
    }
    const std::span rows = std::span(impl_->last->rows).first(impl_->per_shard);
    return static_cast<float>(impl_->combined_loss(detail::loss_weights(rows, impl_->options.reduction)));
  });
}

double Trainer::loss_value() {
  if (impl_->losses.has_any) {
    return impl_->losses.latest;
  }
  if (impl_->last == nullptr) {
    throw Error(ErrorCode::kFailedPrecondition, "loss_value(): no step has run yet");
  }
  return Impl::at_step(impl_, "loss_value()", [&] { return impl_->combined_loss(impl_->last->weights); });
}

// Adds up the weighted losses of the first weights.size() micro-batches.
double Trainer::Impl::combined_loss(std::span<const double> weights) {
  double loss = 0;
  for (std::size_t s = 0; s < weights.size(); ++s) {
    if (weights[s] != 0) {  // otherwise the loss is that of an earlier step
      loss += weights[s] * static_cast<double>(read(micro_batches[s].context, "loss").at(0));
    }
  }
  return loss;
}

// With varying rows, the pieces have been weighted.
std::vector<double> Trainer::Impl::metric_weights() const {
  std::vector<double> weights = detail::loss_weights(last->rows, Reduction::kMean);
  for (double& weight : weights) {
    weight = is_varying() && weight > 0 ? 1 : weight;
  }
  return weights;
}

double Trainer::Impl::combined_metric(const std::string& name) {
  const std::vector<double> weights = metric_weights();
  double value = 0;
  for (std::size_t s = 0; s < last->active; ++s) {
    if (weights[s] != 0) {
      value += weights[s] * detail::read_scalar<double>(micro_batches[s].context, detail::kMetric + name);
    }
  }
  return value;
}

double Trainer::metric_value(std::string_view name) {
  std::string known;
  const auto is_wanted = [&](const std::string& each) {
    known += (known.empty() ? "" : ", ") + each;
    return each == name;
  };
  for (const auto& [each, value] : impl_->losses.metrics) {
    if (is_wanted(each)) {
      return value;
    }
  }
  for (std::size_t i = 0; i < impl_->metrics().size() && !impl_->losses.has_any; ++i) {
    if (!is_wanted(impl_->metrics()[i].name)) {
      continue;
    }
    if (impl_->last == nullptr) {
      throw Error(ErrorCode::kFailedPrecondition, "metric_value(): no step has run yet");
    }
    return Impl::at_step(impl_, "metric_value()", [&] { return impl_->combined_metric(std::string(name)); });
  }
  throw Error(ErrorCode::kNotFound, "loss_of returned no metric '" + std::string(name) + "'; it returned " +
                                        (known.empty() ? "none" : known));
}

double Trainer::Impl::take_loss_total(std::size_t s, const char* name) {
  const Context& context = micro_batches[s].context;
  const auto total = detail::read_scalar<double>(context, name);
  const std::uint64_t zero = 0;
  context.stream()->fill(context.tensor(name).view, &zero, 1);
  context.stream()->wait();
  return total;
}

double Trainer::mean_loss() {
  return mean_loss(impl_->options.reduction);
}

double Trainer::mean_loss(Reduction reduction) {
  if ((impl_->redistributes() ? impl_->losses.steps : impl_->steps_in_loss_total) == 0) {
    throw Error(ErrorCode::kFailedPrecondition, "mean_loss(): no step has run since the last call");
  }
  if (impl_->redistributes()) {
    detail::HostLosses& losses = impl_->losses;
    const double total = reduction == Reduction::kMean ? losses.mean_total : losses.sum_total;
    losses.mean_total = losses.sum_total = 0;
    return total / static_cast<double>(std::exchange(losses.steps, 0));
  }
  return Impl::at_step(impl_, "mean_loss()", [&] {
    double sum = 0;
    if (impl_->is_varying()) {
      for (std::size_t s = 0; s < impl_->micro_batches.size(); ++s) {
        const double mean = impl_->take_loss_total(s, detail::kLossTotal);
        const double of_shards = impl_->take_loss_total(s, detail::kLossTotalOfShards);
        sum += reduction == Reduction::kMean ? mean : of_shards;
      }
    } else {
      for (const Variant& variant : impl_->variants) {
        const std::vector<double> weights = detail::loss_weights(variant.rows, reduction);
        for (std::size_t s = 0; s < variant.active; ++s) {
          sum += weights[s] * impl_->take_loss_total(s, variant.loss_total);
        }
      }
    }
    const auto steps = static_cast<double>(impl_->steps_in_loss_total);
    impl_->steps_in_loss_total = 0;
    return sum / steps;
  });
}

std::optional<std::int64_t> Trainer::first_bad_step() {
  if (impl_->redistributes()) {
    return impl_->losses.first_bad_step;
  }
  return Impl::at_step(impl_, "first_bad_step()", [&] {
    const detail::RowPlan& plan = impl_->plan;
    std::optional<std::int64_t> first;
    for (std::size_t s = 0; s < impl_->micro_batches.size(); ++s) {
      const auto count = detail::read_scalar<double>(impl_->micro_batches[s].context, detail::kFiniteSteps);
      if (count >= 0) {
        continue;
      }
      const auto launches = static_cast<std::uint64_t>(-1 - count);
      // A micro-batch without rows in the last batch of an epoch has one step less per epoch.
      const bool runs_always = impl_->is_varying() || plan.tail[s] > 0;
      const std::uint64_t step =
          runs_always ? launches
                      : launches / plan.full_batches * plan.batch_count() + launches % plan.full_batches;
      first = std::min(first.value_or(static_cast<std::int64_t>(step)), static_cast<std::int64_t>(step));
    }
    return first;
  });
}

}  // namespace yoke
