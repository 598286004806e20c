// SPDX-License-Identifier: Apache-2.0
// frontends/tensor/src/trainer_memory.cpp: counts the memory of a run from its compiled programs,
// before it is allocated.
#include <algorithm>

#include "trainer_impl.h"

namespace yoke {

using detail::Arena;
using detail::NamedProgram;
using detail::Variant;

std::shared_ptr<const Code> Trainer::Impl::code_for(const std::shared_ptr<Device>& device,
                                                    const std::string& text) {
  std::shared_ptr<const Code>& code = codes[{device.get(), text}];
  if (code == nullptr) {
    const detail::Stopwatch watch;
    code = compile(device, text);
    compile_seconds += watch.seconds();
  }
  return code;
}

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

// Counts the workspace and the literals of a program that shard k runs.
void Trainer::Impl::count_routine(std::size_t k, const NamedProgram& program) {
  const std::shared_ptr<Device>& device = shards[k].stream->device();
  const auto code = code_for(device, program.text);
  const Code::Entry& entry = code->entry(program.name);
  need_of(*device).activations += entry.workspace_byte_count;
  for (const auto& [name, tensor] : program.literals) {
    need_of(*device).data += tensor.host_bytes().size();
  }
  if (code->fallback() != nullptr) {  // the other device has a copy of every argument
    MemoryNeed& there = need_of(*code->fallback()->device());
    there.activations += code->fallback()->entry(program.name).workspace_byte_count;
    for (const ArgumentInfo& argument : entry.arguments) {
      there.activations += argument.byte_count;
    }
  }
}

// A stream that cannot read another shard's gradients in place copies them into a buffer.
void Trainer::Impl::count_merge_buffers() {
  std::uint64_t largest = 0;
  for (const Arena& arena : arenas) {
    largest = std::max(largest, arena.spec().byte_count());
  }
  std::vector<bool> counted(shards.size());
  const auto count = [&](std::uint32_t from, std::uint32_t to) {
    const Device& device = *shards[to].stream->device();
    const bool copies =
        options.merge_use == MergeUse::kCopy || !device.can_access(*shards[from].stream->device());
    if (copies && !counted[to]) {
      counted[to] = true;
      need_of(device).gradients += largest;
    }
  };
  if (strategy == MergeStrategy::kTree) {
    parallel_merge(variants[0].active, count);
  } else if (strategy == MergeStrategy::kOwner) {
    for (std::uint32_t from = 1; from < variants[0].active; ++from) {
      count(from, 0);
    }
  }
}

void Trainer::Impl::count_updates() {
  for (const Arena& arena : arenas) {
    if (strategy != MergeStrategy::kDirect) {
      count_routine(0, build_update(arena, arena.element_count, 1));
      continue;
    }
    const auto parts = slices(arena.element_count, program::byte_size(arena.type),
                              static_cast<std::uint32_t>(shards.size()));
    for (std::size_t k = 0; k < parts.size(); ++k) {
      if (const std::uint64_t count = parts[k].end - parts[k].begin; count > 0) {
        count_routine(k, build_update(arena, count, 1));
        for (const Variant& variant : variants) {
          count_routine(k, build_update(arena, count, variant.active));
        }
      }
    }
  }
}

void Trainer::Impl::count_memory() {
  const std::uint64_t row_bytes = (inputs.host_bytes().size() + targets.host_bytes().size()) / plan.total;
  for (std::size_t k = 0; k < shards.size(); ++k) {
    const bool owns_parameters = k == 0 || strategy != MergeStrategy::kDirect;
    for (const Arena& arena : arenas) {
      const std::uint64_t bytes = arena.spec().byte_count();
      MemoryNeed& need = need_of(*shards[k].stream->device());
      need.parameters += owns_parameters ? bytes : 0;
      need.gradients += is_single() || k >= variants[0].active ? 0 : bytes;
      need.state += options.optimizer.needs_state() && k == 0 ? bytes : 0;
    }
    need_of(*shards[k].stream->device()).data += plan.shard_rows(k) * row_bytes;
    for (const Variant& variant : variants) {
      if (k < variant.active) {
        count_routine(k, variant.programs[k]);
      }
    }
  }
  if (!is_single()) {
    count_merge_buffers();
    count_updates();
  }
  MemoryNeed host{.device = "host", .in_host_memory = true};
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
