// SPDX-License-Identifier: Apache-2.0
// frontends/tensor/src/trainer_prior.cpp: training that continues from existing contexts, on their devices.
#include "host_copy.h"
#include "node.h"
#include "trainer_impl.h"

namespace yoke {

using detail::fail;

void Trainer::Impl::use_prior_devices() {
  const std::size_t count = options.prior_contexts.size();
  if (count > static_cast<std::size_t>(kMaxShards) ||
      (options.shards && *options.shards != static_cast<std::int64_t>(count))) {
    fail("data_parallel: prior_contexts has " + detail::counted(count, "context") +
         (options.shards ? ", but shards is " + std::to_string(*options.shards) : std::string()) +
         "; give one per shard, at most 4096");
  }
  std::map<std::string, std::size_t> counts;
  for (const Context& context : options.prior_contexts) {
    const std::shared_ptr<Device>& device = context.stream()->device();
    shard_backends.push_back(device->backend());
    shard_ordinals.push_back(device->ordinal());
    shard_numbers.push_back(static_cast<std::uint32_t>(shard_devices.size()));
    shard_devices.push_back(device);
    ++counts[device->backend()->name()];
  }
  for (const auto& [name, shard_count] : counts) {
    device_names += (device_names.empty() ? "" : ", ") + name + " x" + std::to_string(shard_count);
  }
}

void Trainer::Impl::check_prior() const {
  for (const Context& context : options.prior_contexts) {
    for (const Parameter& parameter : parameters) {
      const TensorSpec spec = {static_cast<std::int32_t>(parameter.type()), parameter.dims()};
      if (context.has(parameter.name()) && !(context.tensor(parameter.name()).spec == spec)) {
        fail("data_parallel: the tensor '" + parameter.name() +
             "' of a prior context has another type or shape than the parameter");
      }
    }
  }
}

// Queues a copy of the first prior context's tensor into the owner's parameter. Returns false if it has none.
bool Trainer::Impl::starts_from_prior(const Parameter& parameter) const {
  if (options.prior_contexts.empty() || !options.prior_contexts[0].has(parameter.name())) {
    return false;
  }
  device_to_device(parameter.name(), MergeUse::kNone, contexts[0], options.prior_contexts[0]).run();
  return true;
}

// Precondition: the parameters have their trained values on the host.
void Trainer::Impl::update_prior() const {
  for (const Context& context : options.prior_contexts) {
    for (const Parameter& parameter : parameters) {
      if (context.has(parameter.name())) {
        const auto values = parameter.values();
        detail::write_now(context, parameter.name(), {values.begin(), values.end()});
      }
    }
  }
}

}  // namespace yoke
