// SPDX-License-Identifier: Apache-2.0
// plugins/codegen/builder.cpp: collects the kernels, launches and workspace of a plan.
#include "builder.h"

#include <algorithm>
#include <utility>

#include "prelude.h"

namespace yoke::codegen {
namespace {

constexpr std::uint64_t kAlignment = 256;

std::uint64_t aligned(std::uint64_t byte_count) {
  return (byte_count + kAlignment - 1) / kAlignment * kAlignment;
}

}  // namespace

Builder::Builder(const program::Program& program, const Target& target, const Libraries& libraries)
    : program_(program), target_(target), libraries_(libraries), step_of_(program.statements.size()) {
  std::uint32_t next = 0;
  for (const program::Tensor& tensor : program.tensors) {
    argument_of_.push_back(tensor.role == program::Role::kTemp ? Slot::kWorkspace : next++);
  }
}

void Builder::begin_step(std::span<const std::size_t> statements) {
  std::vector<std::uint32_t>& step = steps_.emplace_back();
  for (const std::size_t statement : statements) {
    step_of_[statement] = static_cast<std::uint32_t>(steps_.size() - 1);
    step.push_back(static_cast<std::uint32_t>(statement));
  }
  std::sort(step.begin(), step.end());
}

Slot Builder::slot(std::uint32_t tensor) {
  if (argument_of_[tensor] != Slot::kWorkspace) {
    return {argument_of_[tensor], 0};
  }
  const auto [known, is_new] = block_of_.emplace(tensor, blocks_.size());
  if (is_new) {
    blocks_.push_back({program_.tensors[tensor].byte_count(), 0, tensor});
  }
  return {Slot::kWorkspace, known->second};
}

void Builder::keep(std::uint32_t tensor) {
  if (const Slot kept = slot(tensor); kept.argument == Slot::kWorkspace) {
    blocks_[kept.offset].last_step = steps_.size() - 1;
  }
}

Slot Builder::scratch(std::uint64_t byte_count) {
  blocks_.push_back({byte_count, steps_.size() - 1, -1});
  return {Slot::kWorkspace, blocks_.size() - 1};
}

void Builder::function(const std::string& text) {
  if (functions_.insert(text).second) {
    function_text_ += text;
  }
}

std::uint32_t Builder::kernel(std::uint32_t threads, const std::string& text,
                              std::uint32_t dynamic_shared_bytes) {
  const std::string key = std::to_string(threads) + "," + std::to_string(dynamic_shared_bytes) + text;
  const auto [known, is_new] = kernels_.emplace(key, static_cast<std::uint32_t>(plan_.kernels.size()));
  if (is_new) {
    const std::string name = "yoke_" + std::to_string(known->second);
    plan_.kernels.push_back({name, threads, dynamic_shared_bytes, steps_.back().front()});
    kernel_text_.append("YK_KERNEL(").append(std::to_string(threads)).append(") ").append(name).append(text);
  }
  return known->second;
}

void Builder::launch(Launch launch) {
  launch.statements = steps_.back();
  plan_.launches.push_back(std::move(launch));
}

Plan Builder::finish() {
  // Lifetimes are counted in steps: within a step, no memory is used twice.
  const std::vector<program::Lifetime> by_statement = program::lifetimes(program_);
  std::vector<program::Lifetime> lifetimes;
  for (const Block& block : blocks_) {
    program::Lifetime life = {aligned(block.byte_count), block.last_step, block.last_step};
    if (block.tensor >= 0) {
      const program::Lifetime& of = by_statement[static_cast<std::size_t>(block.tensor)];
      // Steps may reorder statements.
      const auto [first, last] =
          std::minmax_element(step_of_.begin() + static_cast<std::ptrdiff_t>(of.first),
                              step_of_.begin() + static_cast<std::ptrdiff_t>(of.last) + 1);
      life.first = *first;
      life.last = std::max<std::uint64_t>(life.last, *last);
    }
    lifetimes.push_back(life);
  }
  const program::MemoryPlan memory = program::plan_memory(lifetimes);
  plan_.workspace_byte_count = memory.byte_count;
  for (Launch& launch : plan_.launches) {
    for (Slot& slot : launch.slots) {
      if (slot.argument == Slot::kWorkspace) {
        slot.offset = memory.offsets[slot.offset];
      }
    }
  }
  plan_.source.append(prelude(target_.dialect)).append(function_text_).append(kernel_text_);
  return std::move(plan_);
}

}  // namespace yoke::codegen
