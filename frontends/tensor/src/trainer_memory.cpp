// SPDX-License-Identifier: Apache-2.0
// frontends/tensor/src/trainer_memory.cpp: counts the memory of a run from its compiled programs,
// before it is allocated.
#include <yoke/program/program.h>

#include <algorithm>

#include "trainer_impl.h"

namespace yoke {

using detail::NamedProgram;

MemoryNeed& Trainer::Impl::need_of(const Device& device) {
  const auto found = std::find_if(needs.begin(), needs.end(),
                                  [&](const MemoryNeed& need) { return need.device == device.name(); });
  if (found != needs.end()) {
    return *found;
  }
  MemoryNeed need{.device = device.name()};
  need.in_host_memory = device.info().host_visible || device.info().kind == YOKE_DEVICE_CPU;
  const yoke_memory_info memory = device.memory();
  if (memory.limit_bytes != 0) {
    need.available = memory.limit_bytes - std::min(memory.limit_bytes, memory.used_bytes);
  } else if (!need.in_host_memory) {
    need.available = device.info().memory_bytes;
  }
  return needs.emplace_back(std::move(need));
}

// Counts a program that shard k runs, in `routines` routines that share a workspace on its device: this, and the
// literals that are not in `counted`.
void Trainer::Impl::count_routine(std::size_t k, const NamedProgram& program, std::set<std::string>* counted,
                                  std::uint64_t routines) {
  const std::shared_ptr<Device>& device = shards[k].stream->device();
  const auto code = codes->get(device, program.text);
  const Code::Entry& entry = code->entry(program.name);
  need_of(*device).activations += entry.workspace_byte_count;
  for (const auto& [name, tensor] : program.literals) {
    const bool is_new = counted == nullptr || counted->insert(name).second;
    need_of(*device).data += is_new ? tensor.host_bytes().size() : 0;
  }
  if (code->fallback() != nullptr) {  // for each routine, the other device has a copy of every argument
    std::uint64_t bytes = code->fallback()->entry(program.name).workspace_byte_count;
    for (const ArgumentInfo& argument : entry.arguments) {
      bytes += argument.byte_count;
    }
    need_of(*code->fallback()->device()).activations += routines * bytes;
  }
}

std::uint64_t Trainer::Impl::row_bytes() const {
  std::uint64_t bytes = 0;
  for (const auto& [name, tensor] : data.fields()) {
    bytes += tensor.element_count() / tensor.dims()[0] * program::byte_size(tensor.type());
  }
  return bytes;
}

// The bytes of the largest workspace of shard k's gradient programs.
std::uint64_t Trainer::Impl::workspace_of(std::uint32_t k) {
  std::uint64_t bytes = 0;
  each_gradient_program(k, [&](const NamedProgram& program) {
    const auto code = codes->get(shards[k].stream->device(), program.text);
    bytes = std::max(bytes, code->entry(program.name).workspace_byte_count);
  });
  return bytes;
}

// The gradient programs of a shard share literals and a workspace.
void Trainer::Impl::count_gradients(std::size_t k) {
  std::uint64_t own = 0;
  std::set<std::string> counted;
  each_gradient_program(k, [&](const NamedProgram& program) {
    count_routine(k, program, &counted, slot_count());
    own += codes->get(shards[k].stream->device(), program.text)->entry(program.name).workspace_byte_count;
  });
  MemoryNeed& need = need_of(*shards[k].stream->device());
  need.activations += k < active_shards(variants[0]) ? carried_byte_count : 0;
  if (shares_workspaces()) {
    need.activations = need.activations - own + workspace_of(static_cast<std::uint32_t>(k));
  }
}

void Trainer::Impl::count_memory() {
  for (std::size_t k = 0; k < shards.size(); ++k) {
    const StepMemory bytes = step_plan.memory(static_cast<std::uint32_t>(k));
    MemoryNeed& need = need_of(*shards[k].stream->device());
    need.parameters += bytes.parameters;
    need.gradients += is_single()
                          ? 0
                          : (1 + extra_gradient_levels()) * bytes.gradients +
                                std::max(bytes.merge_buffer, reduced_byte_count) + bytes.wire + bytes.number;
    need.state += bytes.state;
    for (std::uint32_t number = 0; number < per_shard; ++number) {
      need.data += slot_count() * slot_rows(first_micro[k] + number) * row_bytes();
    }
    count_gradients(k);
  }
  if (!is_single()) {
    step_plan.each_update(
        [&](const UpdateShape& shape) { count_routine(shape.shard, update_program(shape)); });
    step_plan.each_measure(
        [&](const UpdateShape& shape) { count_routine(shape.shard, measure_program(shape)); });
    if (has_number()) {
      count_routine(0, combine_program());
    }
    const auto count_sum = [&](std::uint32_t k, const StepProgram& program) {
      count_routine(k, {program.entry, program.text, {}, {}, {}});
    };
    step_plan.each_merge(count_sum);
    for (std::uint32_t k = 0; k < active_shards(variants[0]); ++k) {
      GradientSum::each_sum(step_plan.arenas(), extra_gradient_levels(),
                            [&](const StepProgram& program) { count_sum(k, program); });
    }
  }
  MemoryNeed host{.device = "host", .in_host_memory = true};
  for (std::size_t k = 0; is_fed() && k < shards.size(); ++k) {
    host.data += slot_count() * staged_bytes(k);
  }
  for (const Parameter& parameter : parameters) {  // Parameter::values, at the end
    host.parameters += parameter.has_values() ? 0 : parameter.byte_count();
  }
  needs.push_back(std::move(host));
}

void Trainer::Impl::check_memory() const {
  if (options.check_memory) {
    options.check_memory(needs);
  }
}

}  // namespace yoke
